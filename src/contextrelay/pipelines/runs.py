"""Functions for existing runs: resume, retry, cancel, decide, show and list."""

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
    by: str = "",
    hear: Hear | None = None,
    step: str | None = None,
) -> PipelineRun:
    """Resume a run that was killed, cancelled or stopped. Only unfinished steps are run.

    `budget` has the fields of a budget in a file. It replaces the budgets of all files.
    `step`: run this step again first, with everything that depends on it.

    Raises:
        NotFound: the thread is not a pipeline run, or has no such step.
        Forbidden: the run was started by someone else, or is a copy of a run.
        Broken: the events or the definition of the run were changed.
        Conflict: another process is running it.
        Invalid: the budget is invalid.
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
        # The idempotency key contains the position of the run. If two processes resume the run at
        # the same position, one of them is refused.
        relay.transport.ask(verb, key=f"resume {run} {record.seq}")
    except Forbidden:
        raise
    except Refused:
        hint = f"see its progress: relay pipeline show {run[:8]}"
        raise Conflict("another process resumed the run at the same time", hint) from None
    # Do this only after taking over the run, because before that, running steps could belong to
    # another process.
    end_leftovers(run)
    for key in again:
        relay.transport.ask(FinishStep(thread=run, step=key, status="pending", by=by))
    follow(relay, record)
    setting = setting_of(relay, started, checked, many, models, own)
    return go(relay, record, setting, runner, hear)


def _started(relay: Relay, record: RunRecord) -> tuple[RunStarted, Started]:
    """Return the start event, which the owner of the run wrote, and the stored definition.

    Raises:
        Broken: an event is invalid, or the definition is not the one that the run started with.
    """
    begun = record.begun
    if begun is None or record.broken:
        raise Broken(f"the run is broken: {record.broken}", _AGAIN)
    body = relay.pull(begun.definition)
    if hashlib.sha256(body).hexdigest() != begun.sha256:
        raise Broken("the definition is not the one that the run started with", _AGAIN)
    return begun, read_started(body)


_AGAIN = "run the pipeline again: relay pipeline run FILE"


def _check_free(record: RunRecord, is_forced: bool) -> None:
    """Check that no other process is running a run.

    Raises:
        Conflict: another process is running it.
    """
    runner = record.runner
    if record.status != "running" or runner is None or is_forced:
        return
    if runner.is_alive and runner.pid != os.getpid():
        raise Conflict(
            f"process {runner.pid} is running it",
            f"see its progress: relay pipeline show {record.run[:8]}",
        )
    if not runner.is_here:
        raise Conflict(
            f"it was started on {runner.host.partition(' ')[0]} and has not ended",
            "if that machine is gone, use --force",
        )


def retry(relay: Relay, run: str, step: str, *, by: str = "", **options: Any) -> PipelineRun:
    """Run a step and everything that depends on it again, then the remaining steps, and return the
    run.

    Raises:
        NotFound: there is no such step, or no such part of a step.
    """
    return resume(relay, run, by=by, step=step, **options)


def cancel(relay: Relay, run: str, by: str = "") -> PipelineRun:
    """Cancel a run through its process, and return it. If the process is gone, only record the
    cancellation.

    Raises:
        Conflict: the run has ended.
        Unavailable: the process of the run does not respond.
    """
    record = read_record(relay, run)
    if record.status != "running":
        raise Conflict(f"the run has ended: {record.status}", f"see: relay pipeline show {run[:8]}")
    relay.transport.ask(CancelPipeline(thread=run, by=by))
    runner = record.runner
    until_s = time.monotonic() + RUN_CANCEL_S_MAX
    while runner is not None and (runner.is_alive or not runner.is_here):
        follow(relay, record)
        if record.status != "running" or time.monotonic() > until_s:
            break
        time.sleep(RUN_LOOK_S)
    follow(relay, record)  # The process may have ended in the meantime and recorded the end.
    if record.status == "running":
        end_leftovers(run)
        relay.transport.ask(CancelPipeline(thread=run, is_gone=True, by=by))
    return show(relay, run)


def decided(relay: Relay, run: str, step: str, decision: ApprovalDecision) -> StepView:
    """Approve or reject a waiting step, and return the view of the step.

    Raises:
        NotFound: the step is not waiting.
        Conflict: the step was already decided.
    """
    record = read_record(relay, run)
    waiting = [key for key, each in record.steps.items() if each.status == "waiting"]
    if step not in waiting:
        before = record.steps.get(step)
        if before is not None and before.detail.kind == "approve":
            raise Conflict(
                f"{step} is already {before.status}, by {before.by}",
                f"see: relay pipeline show {run[:8]}",
            )
        hint = (
            f"waiting steps: {', '.join(waiting)}" if waiting else "no step of this run is waiting"
        )
        raise NotFound(f"step {step!r} is not waiting for a decision", hint)
    decide(relay, run, step, decision)
    follow(relay, record)
    return shown_run(record).steps[step]


def show(relay: Relay, run: str) -> PipelineRun:
    """Return the current state of a run.

    Raises:
        NotFound: the thread is not a pipeline run.
    """
    return show_with_steps(relay, run)[0]


def show_with_steps(relay: Relay, run: str) -> tuple[PipelineRun, Mapping[str, Step]]:
    """Return the current state of a run, and the steps of its pipeline by name.

    Raises:
        NotFound: the thread is not a pipeline run.
    """
    record = read_record(relay, run)
    shown = shown_run(record)
    if record.begun is None or record.broken:
        return shown, {}
    definition = read_started(relay.pull(record.begun.definition)).definition
    steps = definition.pipelines()[definition.main].steps
    # These are the steps of which a part has started.
    begun = {re.split(r"[\[/]", key)[0] for key in shown.steps}
    for name, step in steps.items():
        if name not in shown.steps:
            is_begun = shown.status == "running" and name in begun
            status = "running" if is_begun else "pending"
            shown.steps[name] = StepView(step=name, kind=step.kind, status=status)
    return shown, steps


def list_runs(relay: Relay, limit: int = 20) -> Sequence[PipelineRun]:
    """Return the newest runs, without their steps."""
    runs: list[PipelineRun] = []
    for view in relay.threads(limit, kind="pipeline").threads:
        record = RunRecord(view.thread_id)
        try:
            for after in dict.fromkeys((0, max(0, view.events - 1))):
                page = relay.transport.ask(ReadEvents(view.thread_id, after, _FIRST_EVENTS))
                for each in page.events:
                    record.take(each)
            if record.begun is not None and record.state == "running":
                read_started(relay.pull(record.begun.definition))
        except Broken as error:
            record.broken = record.broken or error.message
        if record.begun is None and not record.broken:
            continue  # The run is just being started.
        run = shown_run(record)
        runs.append(run if run.name else replace(run, name=view.name or ""))
    return runs


_FIRST_EVENTS = 10
