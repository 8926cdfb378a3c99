"""Runs: store the answer of a model or command on a thread, together with the changes it made."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from contextrelay.limits import (
    BUNDLE_TURN_BYTES_MAX,
    MEDIA_TYPE_CHARS_MAX,
    SOURCE_REFS_MAX,
)
from contextrelay.model.artifact import Artifact, ArtifactType
from contextrelay.model.ref import Ref
from contextrelay.model.thread import Numbered
from contextrelay.verbs.artifacts import Parts
from contextrelay.verbs.verb import (
    Author,
    FileName,
    Label,
    Traits,
    Verb,
    Version,
)


def _stored(http: str) -> Traits:
    """Return the traits of a verb that stores a body of a run."""
    return Traits(
        needs="write",
        answered_in="runs",
        http=http,
        status=201,
        takes_body=True,
        keyed=True,
        fills="sent",
        sweeps=True,
        fails=(404, 409, 410),
    )


class RecordCall(Verb[Artifact], frozen=True, kw_only=True):
    """Store the request and response of one model call, with the event run.called.

    The body is the exchange as JSON. It is kept as long as the thread and is not part of the state.
    """

    traits = _stored("POST /v1/threads/{thread}/calls")

    thread: Ref
    run: Label
    """The id of the run in its events."""
    detail: dict[str, Any] = {}  # noqa: RUF012 (each request has its own)
    """Fields added to the detail of the event, beside `run` and `exchange`, the ref of the body."""
    by: Author = ""


class FinishRun(Verb[Artifact], frozen=True, kw_only=True):
    """Store the answer of a run and patch the thread's state with it, in one version.

    The body is the answer. The state lists it in /artifacts and /last_actions, and is changed by
    `operations`, the run's own changes. `detail` is recorded in the event run.finished, or
    run.interrupted. `expected`: fail unless the state is at this version. The thread holds
    `source_refs` from then on.
    """

    traits = _stored("POST /v1/threads/{thread}/runs")

    thread: Ref
    run: Label
    """The id of the run in its events."""
    action: Annotated[str, Meta(min_length=1, max_length=500)]
    """A description of what the run did, added to /last_actions."""
    operations: list[Any] = []  # noqa: RUF012 (each request has its own)
    status: Literal["finished", "interrupted"] = "finished"
    detail: dict[str, Any] = {}  # noqa: RUF012
    source_refs: Annotated[tuple[Ref, ...], Meta(max_length=SOURCE_REFS_MAX)] = ()
    parts: Parts = ()
    name: FileName | None = None
    type: ArtifactType | None = None
    media_type: Annotated[str, Meta(max_length=MEDIA_TYPE_CHARS_MAX)] | None = None
    expected: Version | None = None
    asked: Annotated[str, Meta(max_length=BUNDLE_TURN_BYTES_MAX)] = ""
    """The prompt that the body answers; the next run is shown both prompt and answer."""
    by: Author = ""


RunNote = Literal["started", "finished", "interrupted", "failed"]


class NoteRun(Verb[Numbered], frozen=True, kw_only=True):
    """Record that a run started, or how it ended without an answer, with the event run.<status>."""

    traits = Traits(
        needs="write",
        answered_in="runs",
        http="POST /v1/threads/{thread}/runs/notes",
        status=201,
        keyed=True,
        fails=(404, 409),
    )

    thread: Ref
    run: Label
    """The id of the run in its events."""
    status: RunNote
    detail: dict[str, Any] = {}  # noqa: RUF012 (each request has its own)
    """Fields added to the detail of the event, beside `run`."""
    by: Author = ""


class NoteAnswer(Verb[Numbered], frozen=True, kw_only=True):
    """Record the answer of a remote agent on a thread, with the event a2a.answered.

    The next message to that `url` uses the same `context`, and the same `task` if the task awaits
    input.
    """

    traits = Traits(
        needs="write",
        answered_in="runs",
        http="POST /v1/threads/{thread}/answers",
        status=201,
        keyed=True,
        fails=(404, 409),
    )

    thread: Ref
    url: Annotated[str, Meta(min_length=1, max_length=4096)]
    task: Annotated[str, Meta(max_length=128)] = ""
    context: Annotated[str, Meta(max_length=128)] = ""
    state: Annotated[str, Meta(max_length=40)] = ""
    refs: Annotated[tuple[Ref, ...], Meta(max_length=SOURCE_REFS_MAX)] = ()
    by: Author = ""
