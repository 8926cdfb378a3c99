"""Runs that are there: resumed, retried, cancelled, decided, shown and listed."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from contextrelay.client.relay import Relay
from contextrelay.errors import Broken, Conflict, Forbidden, NotFound, Refused
from contextrelay.limits import PIPELINE_PARALLEL_DEFAULT, RUN_LOOK_S
from contextrelay.model.pipeline import PipelineRun, RunStarted, StepView
from contextrelay.pipelines.approval import ApprovalDecision, decide
from contextrelay.pipelines.definition import Hear, Started, read_started
from contextrelay.pipelines.language import Step, read_budget
from contextrelay.pipelines.pipeline import (
    check_parallel,
    go,
    models_of,
    runner_on,
    setting_of,
)
from contextrelay.pipelines.record import RunRecord, follow, read_record, this_runner
from contextrelay.pipelines.run import run_again
from contextrelay.pipelines.steps.child import end_leftovers
from contextrelay.pipelines.views import shown_run
from contextrelay.verbs import CancelPipeline, FinishStep, ReadEvents, ResumePipeline

RUN_CANCEL_S_MAX = 30.0


def resume(
    relay: Relay,
    run: str,
    *,
    parallel: int | None = None,
    on: str | None = None,
    is_forced: bool = False,
    budget: Mapping[str, Any] | None = None,
    by: str = "you",
    hear: Hear | None = None,
    step: str | None = None,
) -> PipelineRun:
    """Go on with a run that was killed, cancelled or stopped: only what is not over is run.

    `budget` has the fields of a file's, which it replaces; those of included files end with it.
    `step`: one to run again first, with all that depends on it.

    Raises:
        NotFound: it is no run of a pipeline, or has no such step.
        Forbidden: somebody else began it, or it is a copy of a run.
        Broken: its events or its definition are not as they were written.
        Conflict: another process runs it.
        Invalid: that is no budget.
    """
    record = read_record(relay, run)
    _check_free(record, is_forced)
    begun, started = _started(relay, record)
    checked = started.pipelines()
    many = parallel or begun.parallel or PIPELINE_PARALLEL_DEFAULT
    check_parallel(many)
    own = read_budget({**record.budget, **(budget or {})}, checked[started.definition.main].budget)
    models = models_of(relay.transport, checked, own)
    main = checked[started.definition.main]
    again = [] if step is None else list(run_again(step, main, checked, record.steps))
    runner = runner_on(relay, many, on)
    verb = ResumePipeline(
        thread=run,
        parallel=many,
        on=on,
        runner=this_runner(),
        budget=dict(budget or {}),
        by=by,
    )
    try:
        # By a key of where the run stood: of two who resume it there, one is refused.
        relay.transport.ask(verb, key=f"resume {run} {record.seq}")
    except Forbidden:
        raise
    except Refused:
        hint = f"watch it: relay pipeline show {run[:8]}"
        raise Conflict("another process resumed it at the same time", hint) from None
    # Only now that the run is ours: before, the steps under way may be those of another.
    end_leftovers(run)
    for key in again:
        relay.transport.ask(FinishStep(thread=run, step=key, status="pending", by=by))
    follow(relay, record)
    setting = setting_of(relay, started, checked, many, models, own)
    return go(relay, record, setting, runner, hear)


def _started(relay: Relay, record: RunRecord) -> tuple[RunStarted, Started]:
    """What a run began with, by the event that its owner wrote.

    Raises:
        Broken: an event of it is invalid, or its definition is not the one it began with.
    """
    begun = record.begun
    if begun is None or record.broken:
        raise Broken(f"the run is broken: {record.broken}", _AGAIN)
    body = relay.pull(begun.definition)
    if hashlib.sha256(body).hexdigest() != begun.sha256:
        raise Broken("the definition is not the one that the run began with", _AGAIN)
    return begun, read_started(body)


_AGAIN = "run the pipeline again: relay pipeline run FILE"


def _check_free(record: RunRecord, is_forced: bool) -> None:
    """Refuse to go on with a run that another process runs."""
    runner = record.runner
    if record.status != "running" or runner is None or is_forced:
        return
    if runner.is_alive and runner.pid != os.getpid():
        raise Conflict(
            f"process {runner.pid} runs it", f"watch it: relay pipeline show {record.run[:8]}"
        )
    if not runner.is_here:
        raise Conflict(
            f"it was begun on {runner.host.partition(' ')[0]}, and has not ended",
            "if that machine is gone: --force",
        )


def retry(relay: Relay, run: str, step: str, *, by: str = "you", **options: Any) -> PipelineRun:
    """Run a step again, and all that depends on it, then what else is left.

    Raises:
        NotFound: there is no such step, or no such part of one.
    """
    return resume(relay, run, by=by, step=step, **options)


def cancel(relay: Relay, run: str, by: str = "you") -> PipelineRun:
    """End a run: its process ends what is under way; where that is gone, only this is written.

    Raises:
        Conflict: it is over.
        Unavailable: its process does not answer.
    """
    record = read_record(relay, run)
    if record.status != "running":
        raise Conflict(f"the run is over: {record.status}", f"see: relay pipeline show {run[:8]}")
    relay.transport.ask(CancelPipeline(thread=run, by=by))
    runner = record.runner
    until_s = time.monotonic() + RUN_CANCEL_S_MAX
    while runner is not None and (runner.is_alive or not runner.is_here):
        follow(relay, record)
        if record.status != "running" or time.monotonic() > until_s:
            break
        time.sleep(RUN_LOOK_S)
    follow(relay, record)  # Its process may have ended since, and written so.
    if record.status == "running":
        end_leftovers(run)
        relay.transport.ask(CancelPipeline(thread=run, is_gone=True, by=by))
    return show(relay, run)


def decided(relay: Relay, run: str, step: str, decision: ApprovalDecision) -> StepView:
    """Approve or reject a step that waits.

    Raises:
        NotFound: no such step waits.
        Conflict: it was decided before.
    """
    record = read_record(relay, run)
    waiting = [key for key, each in record.steps.items() if each.status == "waiting"]
    if step not in waiting:
        before = record.steps.get(step)
        if before is not None and before.detail.kind == "approve":
            raise Conflict(
                f"{step} is {before.status} already, by {before.by}",
                f"see: relay pipeline show {run[:8]}",
            )
        hint = f"these do: {', '.join(waiting)}" if waiting else "nothing in this run waits"
        raise NotFound(f"no step {step!r} waits for a decision", hint)
    decide(relay, run, step, decision)
    follow(relay, record)
    return shown_run(record).steps[step]


def show(relay: Relay, run: str) -> PipelineRun:
    """A run as it stands.

    Raises:
        NotFound: it is no run of a pipeline.
    """
    return show_with_steps(relay, run)[0]


def show_with_steps(relay: Relay, run: str) -> tuple[PipelineRun, Mapping[str, Step]]:
    """A run as it stands, and the steps of its pipeline as they are written.

    Raises:
        NotFound: it is no run of a pipeline.
    """
    record = read_record(relay, run)
    shown = shown_run(record)
    if record.begun is None or record.broken:
        return shown, {}
    definition = read_started(relay.pull(record.begun.definition)).definition
    steps = definition.pipelines()[definition.main].steps
    begun = {re.split(r"[\[/]", key)[0] for key in shown.steps}  # Those with parts that are there.
    for name, step in steps.items():
        if name not in shown.steps:
            is_begun = shown.status == "running" and name in begun
            status = "running" if is_begun else "pending"
            shown.steps[name] = StepView(step=name, kind=step.kind, status=status)
    return shown, steps


def list_runs(relay: Relay, limit: int = 20) -> Sequence[PipelineRun]:
    """The newest runs, without their steps."""
    runs: list[PipelineRun] = []
    for view in relay.threads(limit, kind="pipeline").threads:
        record = RunRecord(view.thread_id)
        try:
            for after in dict.fromkeys((0, max(0, view.events - 1))):
                page = relay.transport.ask(ReadEvents(view.thread_id, after, _FIRST_EVENTS))
                for each in page.events:
                    record.take(each)
        except Broken as error:
            record.broken = record.broken or str(error)
        if record.begun is None and not record.broken:
            continue  # It is being begun just now.
        run = shown_run(record)
        runs.append(run if run.name else replace(run, name=view.name or ""))
    return runs


_FIRST_EVENTS = 10
