"""How a run and its steps are shown, by their events."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from contextrelay.client.run.tally import spell_price
from contextrelay.doors.pipeline.graph import Node
from contextrelay.doors.pipeline.record import RunRecord, StepRecord
from contextrelay.logic.pipeline.language import Budget
from contextrelay.model.runs.pipeline import PipelineRun, RunStatus, StepView


class Spent:
    """What a run took so far."""

    def __init__(self) -> None:
        self.tokens_in = self.tokens_out = 0
        self.price: Decimal | None = Decimal(0)

    def add(self, view: StepView) -> None:
        self.tokens_in += view.tokens_in
        self.tokens_out += view.tokens_out
        known = self.price is not None and view.price is not None
        self.price = (self.price or 0) + Decimal(view.price or 0) if known else None

    def fields(self) -> dict[str, Any]:
        return {
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "price": spell_price(self.price),
        }

    def over(self, budget: Budget) -> str:
        """What of a budget is used up, in words; empty where nothing is."""
        tokens = self.tokens_in + self.tokens_out
        if budget.tokens is not None and tokens > budget.tokens:
            return f"{tokens:,} tokens of {budget.tokens:,} are used"
        if budget.price is None or self.price == 0:
            return ""
        if self.price is None:
            return f"what was spent of ${budget.price:g} is not known"
        is_over = self.price > Decimal(str(budget.price))
        return f"${spell_price(self.price)} of ${budget.price:g} is used" if is_over else ""


def view_of(key: str, record: StepRecord) -> StepView:
    """A step as its newest event shows it."""
    detail = record.detail
    return StepView(
        step=key,
        kind=str(detail.get("kind", "")),
        status=record.status,
        ref=record.ref,
        by=record.by,
        reason=str(detail.get("reason") or detail.get("question") or ""),
        hint=str(detail.get("hint", "")),
        is_cached=bool(detail.get("is_cached", False)),
        tokens_in=int(detail.get("tokens_in", 0)),
        tokens_out=int(detail.get("tokens_out", 0)),
        price=detail.get("price", "0"),
        duration_ms=int(detail.get("duration_ms", 0)),
    )


def next_step(status: RunStatus, run: str, failures: list[Node]) -> str:
    short = run[:8]
    match status:
        case "failed":
            again = f"relay pipeline retry {short} {failures[0].key}"
            return f"repair its cause, then: {again}; a file that was changed is a new run"
        case "cancelled" | "killed":
            return f"go on with: relay pipeline resume {short}"
        case "stopped":
            return "raise the budget in the file and run it again: what is cached is not done twice"
        case _:
            return ""


def shown_run(record: RunRecord) -> PipelineRun:
    """A run by its events."""
    end = record.end
    views = {key: view_of(key, step) for key, step in record.steps.items()}
    spent = Spent()
    for view in views.values():
        spent.add(view)
    return PipelineRun(
        run=record.run,
        name=record.name,
        status=record.state,
        reason=str(end.get("reason", "")),
        hint="",
        steps=views,
        **spent.fields(),
        duration_ms=int(end.get("duration_ms", 0)),
        started_at=record.started_at,
    )
