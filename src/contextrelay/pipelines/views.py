"""Views of a run and its steps, made from their events."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from contextrelay.model.pipeline import PipelineRun, RunStatus, StepView
from contextrelay.pipelines.graph import Graph, GraphNode
from contextrelay.pipelines.record import ExceededBudget, RunRecord, RunSpent, StepRecord

FAILURES_SHOWN = 10


def view_of(key: str, record: StepRecord) -> StepView:
    """Return the view of a step from its newest event."""
    detail = record.detail
    return StepView(
        step=key,
        kind=detail.kind,
        status=detail.status,
        ref=detail.ref,
        by=record.by,
        reason=detail.reason or detail.question,
        hint=detail.hint,
        is_cached=detail.is_cached,
        tokens_in=detail.tokens_in,
        tokens_out=detail.tokens_out,
        price=detail.price,
        duration_ms=detail.duration_ms,
    )


def paid(record: RunRecord) -> list[StepView]:
    """Return the views of all results that have a cost: current results, and those of steps that
    were run again.
    """
    return [view_of(key, step) for key, step in (*record.steps.items(), *record.retried)]


def next_step(
    status: RunStatus, run: str, failures: list[GraphNode], over: ExceededBudget | None = None
) -> str:
    """Return a hint for the user on what to do after a run has ended."""
    short = run[:8]
    match status:
        case "failed" if failures:
            again = f"relay pipeline retry {short} {failures[0].key}"
            return f"fix the cause, then: {again}; if a file changed, start a new run"
        case "cancelled" | "killed":
            return f"resume with: relay pipeline resume {short}"
        case "stopped":
            more = f"{over.field if over else 'tokens'}={over.more if over else 'MORE'}"
            return f"resume with a larger budget: relay pipeline resume {short} --budget {more}"
        case "broken":
            return f"see its events: relay thread events {short}; run the pipeline again"
        case _:
            return ""


def reasons(failures: list[GraphNode]) -> str:
    """Return the reasons why a run failed: one line per failed step, with its hint."""
    lines: list[str] = []
    for node in failures[:FAILURES_SHOWN]:
        said = (node.result.reason.splitlines() or [""])[0]
        lines.append(f"{node.key}: {said}" + (f" ({node.result.hint})" if node.result.hint else ""))
    if len(failures) > FAILURES_SHOWN:
        lines.append(f"and {len(failures) - FAILURES_SHOWN} more")
    return "\n".join(lines)


def shown_run(record: RunRecord) -> PipelineRun:
    """Return the view of a run from its record."""
    end = record.end
    views = {key: view_of(key, step) for key, step in record.steps.items()}
    if record.state != "running":
        views = {key: left(view) for key, view in views.items()}
    spent = RunSpent()
    for view in paid(record):
        spent.add(view)
    return PipelineRun(
        run=record.run,
        name="" if record.begun is None else record.begun.name,
        status=record.state,
        reason=record.broken or ("" if end is None else end.reason),
        hint=("" if end is None else end.hint) or next_step(record.state, record.run, []),
        steps=views,
        **spent.fields(),
        duration_ms=0 if end is None else end.duration_ms or 0,
        started_at=record.started_at,
    )


def all_views(graph: Graph, views: Mapping[str, StepView]) -> dict[str, StepView]:
    """Return the views of all steps of a run that no process runs, including steps that were never
    started.
    """
    every = {key: left(view) for key, view in views.items()}
    for node in graph.nodes.values():
        view = StepView(step=node.key, kind=node.step.kind, status="pending")
        every.setdefault(node.key, view)
    return every


def left(view: StepView) -> StepView:
    """Return the view of a step in a run that no process runs. A running step is shown as
    pending.
    """
    return replace(view, status="pending") if view.status == "running" else view
