"""What a run writes of itself: ends that no task writes, what lasts, and how it ended."""

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

# A step that takes longer is written down as running, for those who look; a run that waits says
# daily that it goes on, so that it is not taken for one that was killed.
STEP_SHOWN_S = 1.0
RUN_ALIVE_S = 86_400


OF_THE_STORE = (Conflict, Unavailable, Full, Limited)
"""What ends a run, to be gone on with. Any other error is that of the step in which it comes up."""


def failed(error: RelayError) -> StepResult:
    return StepResult("failed", reason=error.message, hint=error.hint)


def write_end(relay: Relay, run: str, unit: Unit, result: StepResult, body: Any) -> StepResult:
    """Write an end; what came of it. A result that is gone before it is written is a failure.

    Raises:
        RelayError: the store does not take it.
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
        by="pipeline",
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


class Lasting:
    """Tasks that are under way for long, written down for those who look."""

    def __init__(self, relay: Relay, run: str) -> None:
        self._relay, self._run = relay, run
        self._wrote_s = time.monotonic()
        self._begun: dict[str, tuple[Unit, float]] = {}

    def begin(self, unit: Unit) -> None:
        self._begun[unit.key] = (unit, time.monotonic())

    def ended(self, unit: Unit) -> None:
        self._begun.pop(unit.key, None)

    def show(self) -> None:
        """Write what is under way for long; and daily that the run goes on."""
        now_s = time.monotonic()
        for key, (unit, since_s) in list(self._begun.items()):
            if now_s > since_s + STEP_SHOWN_S:
                del self._begun[key]
                detail = {"kind": unit.node.step.kind}
                with suppress(Conflict):  # It has just ended.
                    self._relay.transport.ask(
                        FinishStep(thread=self._run, step=key, status="running", detail=detail)
                    )
        if now_s > self._wrote_s + RUN_ALIVE_S:
            self._wrote_s = now_s
            self._relay.transport.ask(NotePipeline(thread=self._run, by="pipeline"))


def write_run_end(relay: Relay, result: PipelineRun, graph: Graph) -> None:
    """Write how a run ended, and what it took."""
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
    """How a step ended, by its event."""
    detail = record.detail
    return StepResult(detail.status, detail.ref, record.by, detail.reason, detail.hint)
