"""Runs of pipelines: begun, resumed, ended, cancelled; their steps, and decisions on them.

Rule: only these verbs write the events of a run. Its records are its owner's: the key that began
it, or whoever opened the store. A decision and a cancellation may be anybody's who may write to the
run's thread; the store writes down whose.
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
    """Begin a run of a pipeline: a thread of kind `pipeline`, with the event pipeline.started.

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
    """Fields that replace those of the file's budget."""
    by: Label = "you"


class NotePipeline(Verb[Numbered], frozen=True, kw_only=True):
    """Write as its owner how a run ended; without `ended`, that it still runs."""

    traits = _noted("POST /v1/threads/{thread}/progress")

    thread: Ref
    ended: RunEnded | None = None
    by: Label = "you"


class CancelPipeline(Verb[Numbered], frozen=True, kw_only=True):
    """Ask the process of a run to end it, with the event pipeline.cancel.

    `is_gone`: that process is no longer there. The run is then cancelled at once.
    """

    traits = _noted("POST /v1/threads/{thread}/cancel")

    thread: Ref
    is_gone: bool = False
    by: Label = "you"


class DecideStep(Verb[Numbered], frozen=True, kw_only=True):
    """Approve or reject a step that waits. The event names the caller's key before `by`.

    With `channel`, the run's owner decides by a signal there: its sender is named.
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
    """Write as a run's owner how a step stands, with the event run.step: all of it, or nothing.

    `has_result`: the body is the result, and becomes an artifact of the thread; or `ref` is one
    that is there already, which the thread holds from then on. A step ends once: where it is done,
    failed or skipped this is refused, until `pending` lets it be run again. A step that waits is
    ended by DecideStep.
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
    """Its name; of an item of a fan-out with its index, as in `review[3]`."""
    status: StepStatus = "done"
    detail: dict[str, Any] = {}  # noqa: RUF012 (each request has its own)
    """Goes into the event, with `step`, `status` and `ref`."""
    has_result: bool = False
    ref: Ref | None = None
    source_refs: Annotated[tuple[Ref, ...], Meta(max_length=SOURCE_REFS_MAX)] = ()
    parts: Parts = ()
    name: FileName | None = None
    type: ArtifactType | None = None
    media_type: Annotated[str, Meta(max_length=MEDIA_TYPE_CHARS_MAX)] | None = None
    by: Label = "you"
