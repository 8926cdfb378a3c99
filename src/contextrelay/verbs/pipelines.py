"""Pipeline runs: start, resume, end and cancel them; record their steps and decisions on them.

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
from contextrelay.verbs.verb import FileName, Label, Name, Traits, Verb

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
    """Start a run of a pipeline: a thread of kind `pipeline`, with the event pipeline.started.

    The body is the definition. Its hash goes into the event; the caller becomes the run's owner.
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
    by: Label = "you"


class ResumePipeline(Verb[Numbered], frozen=True, kw_only=True):
    """Resume a run as its owner, with the event pipeline.resumed."""

    traits = _noted("POST /v1/threads/{thread}/resume")

    thread: Ref
    parallel: Parallel | None = None
    on: Name | None = None
    runner: RunnerProcess | None = None
    budget: dict[str, int | float | str] = {}  # noqa: RUF012 (each request has its own)
    """Fields that override those of the file's budget."""
    by: Label = "you"


class NotePipeline(Verb[Numbered], frozen=True, kw_only=True):
    """Record, as the run's owner, how it ended; without `ended`, that it is still running."""

    traits = _noted("POST /v1/threads/{thread}/progress")

    thread: Ref
    ended: RunEnded | None = None
    by: Label = "you"


class CancelPipeline(Verb[Numbered], frozen=True, kw_only=True):
    """Ask the process of a run to end it, with the event pipeline.cancel.

    `is_gone`: that process no longer exists. The run is then cancelled immediately.
    """

    traits = _noted("POST /v1/threads/{thread}/cancel")

    thread: Ref
    is_gone: bool = False
    by: Label = "you"


class DecideStep(Verb[Numbered], frozen=True, kw_only=True):
    """Approve or reject a waiting step. The event names the caller's key before `by`.

    With `channel`, the run's owner records a decision from a signal there; the sender is named.
    """

    traits = _noted("POST /v1/threads/{thread}/decisions")

    thread: Ref
    step: _StepKey
    is_approved: bool
    reason: _Reason = ""
    channel: str | None = None
    signal: Annotated[int, Meta(ge=0)] = 0
    by: Label = "you"


class FinishStep(Verb[FinishedStep], frozen=True, kw_only=True):
    """Record, as a run's owner, the status of a step, with the event run.step, in one transaction.

    `has_result`: the body is the result, and becomes an artifact of the thread; alternatively `ref`
    names an existing artifact, which the thread then holds. A step ends once: if it is done, failed
    or skipped, this is refused until `pending` allows another attempt. A waiting step is ended by
    DecideStep.
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
    """Its name; for an item of a fan-out with its index, as in `review[3]`."""
    status: StepStatus = "done"
    detail: dict[str, Any] = {}  # noqa: RUF012 (each request has its own)
    """Added to the event, with `step`, `status` and `ref`."""
    has_result: bool = False
    ref: Ref | None = None
    source_refs: Annotated[tuple[Ref, ...], Meta(max_length=SOURCE_REFS_MAX)] = ()
    parts: Parts = ()
    name: FileName | None = None
    type: ArtifactType | None = None
    media_type: Annotated[str, Meta(max_length=MEDIA_TYPE_CHARS_MAX)] | None = None
    by: Label = "you"
