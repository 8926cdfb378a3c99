"""The records that a run writes: ends of steps without a task, long tasks, and the end of the
run.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from typing import Any, cast

from msgspec.json import encode

from contextrelay.client.relay import Relay
from contextrelay.documents.values import is_object
from contextrelay.errors import Conflict, Full, Limited, RelayError, Unavailable
from contextrelay.limits import SOURCE_REFS_MAX, STEP_REASON_CHARS_MAX
from contextrelay.model.pipeline import EndStatus, PipelineRun, RunEnded
from contextrelay.model.run import FINAL
from contextrelay.pipelines.graph import Graph, StepResult, Unit
from contextrelay.pipelines.record import StepRecord
from contextrelay.verbs import FinishStep, NotePipeline

# Seconds after which a step is recorded as running, so that observers can see it, and seconds (a
# day) after which a waiting run records that it is alive, so that it is not considered killed.
STEP_SHOWN_S = 1.0
RUN_ALIVE_S = 86_400


OF_THE_STORE = (Conflict, Unavailable, Full, Limited)
"""Errors of the store that stop the run, which can be resumed. Any other error fails the step."""


def failed(error: RelayError) -> StepResult:
    return StepResult("failed", reason=error.message, hint=error.hint)


def write_end(relay: Relay, run: str, unit: Unit, result: StepResult, body: Any) -> StepResult:
    """Record the end of a step and return its result. If the result artifact is already gone, the
    step failed.

    Raises:
        RelayError: the store refused the record.
    """
    step = unit.node.step
    detail: dict[str, Any] = {"kind": step.kind}
    if result.reason:
        detail["reason"] = result.reason[:STEP_REASON_CHARS_MAX]
    if result.hint:
        detail["hint"] = result.hint[:STEP_REASON_CHARS_MAX]
    refs = body.values() if is_object(body) else body or ()
    detail["refs_in"] = [ref for ref in refs if ref][:SOURCE_REFS_MAX]
    verb = FinishStep(
        thread=run,
        step=unit.key,
        status=result.status,
        detail=detail,
        ref=result.ref,
        has_result=body is not None,
        name=step.out.name or (f"{step.name} results" if body is not None else None),
        media_type=None if body is None else "application/json",
        by=step.name,
    )
    try:
        finished = relay.transport.ask(verb, b"" if body is None else encode(body))
    except OF_THE_STORE:
        raise
    except RelayError as error:
        if result.status == "failed":
            raise
        return write_end(relay, run, unit, failed(error), None)
    ref = None if finished.artifact is None else finished.artifact.ref
    return result._replace(ref=ref, by=verb.by)


class LongTasks:
    """The tasks of a run that take long, recorded so that observers can see them."""

    def __init__(self, relay: Relay, run: str) -> None:
        self._relay, self._run = relay, run
        self._wrote_s = time.monotonic()
        self._begun: dict[str, tuple[Unit, float]] = {}

    def begin(self, unit: Unit) -> None:
        self._begun[unit.key] = (unit, time.monotonic())

    def ended(self, unit: Unit) -> None:
        self._begun.pop(unit.key, None)

    def show(self) -> None:
        """Record the tasks that take long. Once a day, also record that the run is alive."""
        now_s = time.monotonic()
        for key, (unit, since_s) in list(self._begun.items()):
            if now_s > since_s + STEP_SHOWN_S:
                del self._begun[key]
                detail = {"kind": unit.node.step.kind}
                with suppress(Conflict):  # The task has just ended, so its end is already recorded.
                    self._relay.transport.ask(
                        FinishStep(thread=self._run, step=key, status="running", detail=detail)
                    )
        if now_s > self._wrote_s + RUN_ALIVE_S:
            self._wrote_s = now_s
            self._relay.transport.ask(NotePipeline(thread=self._run, by="pipeline"))


def write_run_end(relay: Relay, result: PipelineRun, graph: Graph) -> None:
    """Record the status and the cost of a finished run."""
    names = (node.status if node.status in FINAL else "pending" for node in graph.nodes.values())
    ended = RunEnded(
        status=cast("EndStatus", result.status),
        reason=result.reason[:STEP_REASON_CHARS_MAX],
        hint=result.hint,
        steps=dict(Counter(names)),
        **graph.spent.fields(),
        duration_ms=result.duration_ms,
    )
    relay.transport.ask(NotePipeline(thread=result.run, ended=ended, by="pipeline"))


def result_of(record: StepRecord) -> StepResult:
    """Return the result of a step, made from its record."""
    detail = record.detail
    return StepResult(detail.status, detail.ref, record.by, detail.reason, detail.hint)
