"""Threads: create, find, close and remove threads; read and write their events and files."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from msgspec import Meta

from contextrelay.limits import LIST_ITEMS_MAX, MEDIA_TYPE_CHARS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.ref import Ref
from contextrelay.model.thread import (
    CurrentThread,
    EventPage,
    Mirrored,
    Numbered,
    Sent,
    TaskEvent,
    TaskListing,
    TaskLog,
    ThreadKind,
    ThreadListing,
    ThreadView,
)
from contextrelay.verbs.verb import (
    Author,
    Cursor,
    FileName,
    Index,
    Label,
    Name,
    Place,
    Traits,
    Verb,
    Version,
)

EventType = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*(\.[a-z0-9_]+)+$", max_length=64)]
_reads = partial(Traits, needs="read", answered_in="threads.threads")
_makes = partial(
    Traits, needs="write", answered_in="threads.threads", keyed=True, makes_thread=True
)
_ends = partial(Traits, needs="write", answered_in="threads.threads", keyed=True, fails=(409,))
_notes = partial(
    Traits, needs="write", answered_in="threads.events", status=201, keyed=True, fails=(409,)
)


class NewThread(Verb[ThreadView], frozen=True):
    """Create a thread, with its state at version 1."""

    traits = _makes(http="POST /v1/threads", status=201)

    name: Label | None = None
    by: Author = ""


class BeginTask(Verb[ThreadView], frozen=True):
    """Create a thread of kind `task`. `asked` is the detail of the event task.asked; without it,
    there is no such event.
    """

    traits = Traits(needs="write", answered_in="threads.events", makes_thread=True)

    name: Label
    asked: dict[str, Any] | None = None
    by: Author = ""


class NoteTask(Verb[Numbered], frozen=True):
    """Add an event to a task. `is_over`: the event ends the task, which is removed later."""

    traits = Traits(needs="write", answered_in="threads.events", keyed=True)

    thread: Ref
    type: TaskEvent
    detail: dict[str, Any] = {}  # noqa: RUF012 (each request has its own)
    by: Author = ""
    is_over: bool = False


class OpenThread(Verb[ThreadView], frozen=True):
    """Return the thread with a name, or create one.

    If several threads have the name, the request is refused, and the error lists them.
    """

    traits = _makes(http="POST /v1/threads/open")

    name: Label
    by: Author = ""


class ShowThread(Verb[ThreadView], frozen=True):
    """Return the description of a thread: name, version and the number of items in it."""

    traits = _reads(http="GET /v1/threads/{thread}")

    thread: Ref


class FindThreads(Verb[list[ThreadView]], frozen=True):
    """Find threads by name or by an id prefix of six characters or more, newest first."""

    traits = _reads(http="GET /v1/threads/find")

    text: Label


class ListThreads(Verb[ThreadListing], frozen=True):
    """List threads, newest first. To get the next page, pass `next` of the previous page as
    `after`.

    Threads of a kind are listed only if that `kind` is requested. `text`: only threads with this
    text in their name, or with this id prefix. `agent`: only threads whose creator's name contains
    this text. If few threads match, a page may have fewer than `limit` entries although `next` is
    set.
    """

    traits = Traits(needs="read", answered_in="threads.listing", http="GET /v1/threads")

    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 20
    after: Cursor = ""
    kind: ThreadKind | None = None
    text: Name | None = None
    status: Literal["open", "closed"] | None = None
    agent: Name | None = None


class ForkThread(Verb[ThreadView], frozen=True):
    """Create a thread from any version of another thread's state."""

    traits = _makes(http="POST /v1/threads/{thread}/fork", status=201)

    thread: Ref
    version: Version | None = None
    name: Label | None = None
    by: Author = ""


class CopyThread(Verb[ThreadView], frozen=True):
    """Copy a thread with its history up to a version, with the same ids of events, refs and times.

    Only the thread's own id differs, in the state and in the events before that version.
    """

    traits = Traits(
        needs="write",
        answered_in="threads.copies",
        http="POST /v1/threads/{thread}/copy",
        status=201,
        keyed=True,
        makes_thread=True,
        fails=(404, 410, 413),
    )

    thread: Ref
    version: Version | None = None
    name: Label | None = None
    by: Author = ""


class CloseThread(Verb[ThreadView], frozen=True):
    """Close a thread: it can still be read, but not changed."""

    traits = _ends(http="POST /v1/threads/{thread}/close")

    thread: Ref
    by: Author = ""


class RemoveThread(Verb[ThreadView], frozen=True):
    """Remove a thread with its history and the artifacts that no other thread holds."""

    traits = _ends(http="DELETE /v1/threads/{thread}")

    thread: Ref


class UseThread(Verb[ThreadView], frozen=True):
    """Make a thread the current one of a place: of an agent or a terminal in a folder.

    `owner`: the agent or user in that folder, in whatever terminal.
    """

    traits = Traits(
        needs="write",
        answered_in="threads.listing",
        http="POST /v1/threads/current",
        fails=(404, 410, 422),
    )

    thread: Ref
    place: Place
    owner: Place


class ReadCurrentThread(Verb[CurrentThread], frozen=True):
    """Return the current thread of a place, the one before, and the open threads of its owner."""

    traits = Traits(needs="read", answered_in="threads.listing", http="GET /v1/threads/current")

    place: Place
    owner: Place


class ListThreadArtifacts(Verb[list[Artifact]], frozen=True):
    """List the artifacts of a thread, newest first."""

    traits = _reads(http="GET /v1/threads/{thread}/artifacts")

    thread: Ref
    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 200


class ReadEvents(Verb[EventPage], frozen=True):
    """Read the events of a thread that come after a seq, in order."""

    traits = Traits(
        needs="read",
        answered_in="threads.events",
        http="GET /v1/threads/{thread}/events",
        inline=True,
        waits=True,
    )

    thread: Ref
    after: Index = 0
    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 100


class AddEvent(Verb[Numbered], frozen=True):
    """Add an event of a custom type to a thread's log."""

    traits = _notes(http="POST /v1/threads/{thread}/events")

    thread: Ref
    type: EventType
    detail: dict[str, Any] = {}  # noqa: RUF012 (each request has its own)
    by: Author = ""


class PutOutput(Verb[Artifact], frozen=True):
    """Add the output of a task to its thread, with the event task.artifact, in one write.

    The event's detail includes the `ref`. `end`: the detail of an event task.status that ends the
    task in the same write.
    """

    traits = Traits(needs="write", answered_in="push.reports", takes_body=True, fills="sent")

    thread: Ref
    detail: dict[str, Any] = {}  # noqa: RUF012 (each request has its own)
    end: dict[str, Any] | None = None
    name: FileName | None = None
    media_type: Annotated[str, Meta(max_length=MEDIA_TYPE_CHARS_MAX)] | None = None
    by: Author = ""


class ListTasks(Verb[TaskListing], frozen=True):
    """List threads of kind `task` by id, newest first; `after` is `next` of the previous page."""

    traits = Traits(needs="read", answered_in="threads.events")

    after: Cursor = ""


class ReadTask(Verb[TaskLog], frozen=True):
    """Read the fixed fields of a task and its first events, without the state."""

    traits = Traits(needs="read", answered_in="threads.events", inline=True)

    thread: Ref


class PutHook(Verb[None], frozen=True):
    """Store a webhook for the updates of a task, under an id; None deletes the webhook. The webhook
    is not shown in the events of the task.
    """

    traits = Traits(needs="owner", answered_in="threads.events")

    thread: Ref
    id: Label
    hook: dict[str, Any] | None


class ListHooks(Verb[list[dict[str, Any]]], frozen=True):
    """List the webhooks of a task."""

    traits = Traits(needs="owner", answered_in="threads.events")

    thread: Ref


class PutSent(Verb[None], frozen=True):
    """Record which updates of a task have been sent; None means that no more will be sent."""

    traits = Traits(needs="owner", answered_in="threads.events")

    thread: Ref
    sent: Sent | None


class ReadSent(Verb[Sent | None], frozen=True):
    """Return which updates of a task have been sent, or None if there are none to send."""

    traits = Traits(needs="owner", answered_in="threads.events")

    thread: Ref


class ListSent(Verb[list[Sent]], frozen=True):
    """Return which updates have been sent, for every task with webhooks, by thread."""

    traits = Traits(needs="owner", answered_in="threads.events")

    after: Cursor = ""


class MakeCheckpoint(Verb[Numbered], frozen=True):
    """Label the current version of the state."""

    traits = _notes(http="POST /v1/threads/{thread}/checkpoints")

    thread: Ref
    label: Label
    by: Author = ""


class PutReport(Verb[Artifact], frozen=True):
    """Add a report to the thread that it is about, with the event `report.generated`.

    A repeated request with the same key returns the first report.
    """

    traits = Traits(
        needs="write",
        answered_in="push.reports",
        http="POST /v1/threads/{thread}/reports",
        status=201,
        takes_body=True,
        keyed=True,
        fills="sent",
        fails=(409,),
    )

    thread: Ref
    format: Literal["md", "json", "html"] = "md"
    by: Author = ""


class MirrorThread(Verb[Mirrored], frozen=True):
    """Write the human-readable files of a thread; only available for an embedded store."""

    traits = Traits(needs="owner", answered_in="threads.mirror")

    thread: Ref
