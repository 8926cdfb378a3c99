"""What a run took so far, and whether that is past a budget."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple

from contextrelay.model.pipeline import StepView
from contextrelay.pipelines.language import Budget
from contextrelay.runs.prices import spell_price


class Over(NamedTuple):
    """What of a budget is used up, and how much of it would let the run go on for as long again."""

    field: str
    text: str
    more: str


class Spent:
    """What a run, or a pipeline in it, took so far."""

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

    def over(self, budget: Budget) -> Over | None:
        """What of a budget is used up; None where nothing is."""
        tokens = self.tokens_in + self.tokens_out
        if budget.tokens is not None and tokens > budget.tokens:
            used = f"{tokens:,} tokens of {budget.tokens:,} are used"
            return Over("tokens", used, str(tokens + budget.tokens))
        if budget.price is None or self.price == 0:
            return None
        if self.price is None:
            return Over("price", f"what was spent of ${budget.price:g} is not known", "MORE")
        if self.price <= Decimal(str(budget.price)):
            return None
        used = f"${spell_price(self.price)} of ${budget.price:g} is used"
        return Over("price", used, f"{float(self.price) + budget.price:g}")
