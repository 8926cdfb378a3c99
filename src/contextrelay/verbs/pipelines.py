"""Pipeline runs: start, resume, end and cancel runs; record their steps and decisions.

Rule: only these verbs write the events of a run. Its records belong to its owner: the key that
started it, or whoever opened the store. A decision or a cancellation may come from anyone with
write access to the run's thread; the store records who it was.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from contextrelay.limits import (
    MEDIA_TYPE_CHARS_MAX,
    SOURCE_REFS_MAX,
    STEP_KEY_CHARS_MAX,
    STEP_REASON_CHARS_MAX,
)
from contextrelay.model.artifact import ArtifactType
from contextrelay.model.pipeline import Parallel, RunEnded, RunnerProcess
from contextrelay.model.ref import Ref
from contextrelay.model.run import FinishedStep, StepStatus
from contextrelay.model.thread import Numbered, ThreadView
from contextrelay.verbs.artifacts import Parts
from contextrelay.verbs.verb import (
    Author,
    FileName,
    Label,
    Name,
    Traits,
    Verb,
)

_StepKey = Annotated[str, Meta(min_length=1, max_length=STEP_KEY_CHARS_MAX)]
_Reason = Annotated[str, Meta(max_length=STEP_REASON_CHARS_MAX)]


def _noted(http: str) -> Traits:
    return Traits(
        needs="write",
        answered_in="runs",
        http=http,
        status=201,
        keyed=True,
        fails=(404, 409),
    )


class BeginPipeline(Verb[ThreadView], frozen=True, kw_only=True):
    """Start a run of a pipeline: create a thread of kind `pipeline`, with the event
    pipeline.started.

    The body is the definition. Its hash is recorded in the event; the caller becomes the run's
    owner.
    """

    traits = Traits(
        needs="write",
        answered_in="runs",
        http="POST /v1/pipelines",
        status=201,
        takes_body=True,
        keyed=True,
        fills="sent",
        sweeps=True,
        makes_thread=True,
    )

    name: Label
    parallel: Parallel | None = None
    on: Name | None = None
    runner: RunnerProcess | None = None
    by: Author = ""


class ResumePipeline(Verb[Numbered], frozen=True, kw_only=True):
    """Resume a run as its owner, and record the event pipeline.resumed."""

    traits = _noted("POST /v1/threads/{thread}/resume")

    thread: Ref
    parallel: Parallel | None = None
    on: Name | None = None
    runner: RunnerProcess | None = None
    budget: dict[str, int | float | str] = {}  # noqa: RUF012 (each request has its own)
    """Budget fields that override those in the pipeline file."""
    by: Author = ""


class NotePipeline(Verb[Numbered], frozen=True, kw_only=True):
    """Record how a run ended or, without `ended`, that it is still running. Only its owner may do
    this.
    """

    traits = _noted("POST /v1/threads/{thread}/progress")

    thread: Ref
    ended: RunEnded | None = None
    by: Author = ""


class CancelPipeline(Verb[Numbered], frozen=True, kw_only=True):
    """Ask the process of a run to cancel the run, and record the event pipeline.cancel.

    `is_gone`: the process no longer exists, so the run is cancelled immediately.
    """

    traits = _noted("POST /v1/threads/{thread}/cancel")

    thread: Ref
    is_gone: bool = False
    by: Author = ""


class DecideStep(Verb[Numbered], frozen=True, kw_only=True):
    """Approve or reject a waiting step. The event names the caller's key, followed by `by`.

    With `channel`, the run's owner records a decision that arrived as a signal on that channel; the
    event also names the sender.
    """

    traits = _noted("POST /v1/threads/{thread}/decisions")

    thread: Ref
    step: _StepKey
    is_approved: bool
    reason: _Reason = ""
    channel: str | None = None
    signal: Annotated[int, Meta(ge=0)] = 0
    by: Author = ""


class FinishStep(Verb[FinishedStep], frozen=True, kw_only=True):
    """Record the status of a step, with the event run.step, in one transaction. Only the run's
    owner may do this.

    `has_result`: the body is the result, and becomes an artifact of the thread; alternatively `ref`
    names an existing artifact, which the thread then holds. A step ends once: for a step that is
    done, failed or skipped, this is refused until the status `pending` allows another attempt. A
    waiting step is ended by DecideStep.
    """

    traits = Traits(
        needs="write",
        answered_in="runs",
        http="POST /v1/threads/{thread}/steps",
        takes_body=True,
        keyed=True,
        fills="sent",
        sweeps=True,
        fails=(404, 409, 410),
    )

    thread: Ref
    step: _StepKey
    """The name of the step; for an item of a fan-out, with its index, as in `review[3]`."""
    status: StepStatus = "done"
    detail: dict[str, Any] = {}  # noqa: RUF012 (each request has its own)
    """Fields added to the detail of the event, beside `step`, `status` and `ref`."""
    has_result: bool = False
    ref: Ref | None = None
    source_refs: Annotated[tuple[Ref, ...], Meta(max_length=SOURCE_REFS_MAX)] = ()
    parts: Parts = ()
    name: FileName | None = None
    type: ArtifactType | None = None
    media_type: Annotated[str, Meta(max_length=MEDIA_TYPE_CHARS_MAX)] | None = None
    by: Author = ""
