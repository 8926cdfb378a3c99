"""Threads: made, found, closed, removed; their events and files."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from msgspec import Meta

from contextrelay.limits import LIST_ITEMS_MAX, MEDIA_TYPE_CHARS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.ref import Ref
from contextrelay.model.thread import (
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
from contextrelay.verbs.verb import Cursor, FileName, Index, Label, Name, Traits, Verb, Version

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
    """Make a thread, its state at version 1."""

    traits = _makes(http="POST /v1/threads", status=201)

    name: Label | None = None
    by: Label = "you"


class BeginTask(Verb[ThreadView], frozen=True):
    """Make a thread of kind `task`; `asked` is the detail of its event task.asked, if any."""

    traits = Traits(needs="write", answered_in="threads.events", makes_thread=True)

    name: Label
    asked: dict[str, Any] | None = None
    by: Label = "you"


class NoteTask(Verb[Numbered], frozen=True):
    """Add an event to a task. `is_over`: the task ends with it, and is removed so long after."""

    traits = Traits(needs="write", answered_in="threads.events", keyed=True)

    thread: Ref
    type: TaskEvent
    detail: dict[str, Any] = {}  # noqa: RUF012 (each request has its own)
    by: Label = "you"
    is_over: bool = False


class OpenThread(Verb[ThreadView], frozen=True):
    """The newest thread of a name, which is made if there is none."""

    traits = _makes(http="POST /v1/threads/open")

    name: Label
    by: Label = "you"


class ShowThread(Verb[ThreadView], frozen=True):
    """A thread: its name, its version, and how much it holds."""

    traits = _reads(http="GET /v1/threads/{thread}")

    thread: Ref


class FindThreads(Verb[list[ThreadView]], frozen=True):
    """Threads of a name, newest first, or whose id starts so (six characters or more)."""

    traits = _reads(http="GET /v1/threads/find")

    text: Label


class ListThreads(Verb[ThreadListing], frozen=True):
    """List threads, newest first; `after` is the `next` of the page before.

    Threads of a kind are listed where that `kind` is asked for, and nowhere else. `text`: those
    with it in their names, or whose id begins so; `agent`: those made by one with this in its name.
    Where few match, a page may have less than `limit`, and a `next`.
    """

    traits = Traits(needs="read", answered_in="threads.listing", http="GET /v1/threads")

    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 20
    after: Cursor = ""
    kind: ThreadKind | None = None
    text: Name | None = None
    status: Literal["open", "closed"] | None = None
    agent: Name | None = None


class ForkThread(Verb[ThreadView], frozen=True):
    """Make a thread that begins with the state of another, at any version."""

    traits = _makes(http="POST /v1/threads/{thread}/fork", status=201)

    thread: Ref
    version: Version | None = None
    name: Label | None = None
    by: Label = "you"


class CopyThread(Verb[ThreadView], frozen=True):
    """Make a thread that has the history of another up to a version: its ids, refs and times.

    So it differs in nothing but its id: that of its state, and of events before that version.
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
    by: Label = "you"


class CloseThread(Verb[ThreadView], frozen=True):
    """Close a thread: it can be read, and no longer changed."""

    traits = _ends(http="POST /v1/threads/{thread}/close")

    thread: Ref
    by: Label = "you"


class RemoveThread(Verb[ThreadView], frozen=True):
    """Remove a thread with its history, and the artifacts that only it holds."""

    traits = _ends(http="DELETE /v1/threads/{thread}")

    thread: Ref


class UseThread(Verb[ThreadView], frozen=True):
    """Remember which thread was last used in a folder."""

    traits = Traits(
        needs="write",
        answered_in="threads.threads",
        http="POST /v1/threads/used",
        fails=(404, 410, 422),
    )

    thread: Ref
    folder: Annotated[str, Meta(min_length=1, max_length=4096)]


class LastUsedThread(Verb[list[ThreadView]], frozen=True):
    """The thread that was last used in a folder, if any."""

    traits = _reads(http="GET /v1/threads/used")

    folder: Annotated[str, Meta(min_length=1, max_length=4096)]


class ListThreadArtifacts(Verb[list[Artifact]], frozen=True):
    """The artifacts that were put into a thread, newest first."""

    traits = _reads(http="GET /v1/threads/{thread}/artifacts")

    thread: Ref
    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 200


class ReadEvents(Verb[EventPage], frozen=True):
    """Events of a thread after a seq, in order."""

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
    """Add an event of the caller's own type to a thread's log."""

    traits = _notes(http="POST /v1/threads/{thread}/events")

    thread: Ref
    type: EventType
    detail: dict[str, Any] = {}  # noqa: RUF012 (each request has its own)
    by: Label = "you"


class PutOutput(Verb[Artifact], frozen=True):
    """Put what was made for a task into its thread, with the event task.artifact, in one write.

    That event gets the `ref` into its detail. `end`: the detail of an event task.status with which
    the task ends, in the same write.
    """

    traits = Traits(needs="write", answered_in="push.reports", takes_body=True, fills="sent")

    thread: Ref
    detail: dict[str, Any] = {}  # noqa: RUF012 (each request has its own)
    end: dict[str, Any] | None = None
    name: FileName | None = None
    media_type: Annotated[str, Meta(max_length=MEDIA_TYPE_CHARS_MAX)] | None = None
    by: Label = "you"


class ListTasks(Verb[TaskListing], frozen=True):
    """List threads of kind `task` by id, newest first; `after` is the `next` of the page before."""

    traits = Traits(needs="read", answered_in="threads.events")

    after: Cursor = ""


class ReadTask(Verb[TaskLog], frozen=True):
    """What is fixed about a thread, with the first of its events, and without its state."""

    traits = Traits(needs="read", answered_in="threads.events", inline=True)

    thread: Ref


class PutHook(Verb[None], frozen=True):
    """Keep where the updates of a task go, under an id; None forgets it. Nobody else sees it."""

    traits = Traits(needs="owner", answered_in="threads.hooks")

    thread: Ref
    id: Label
    hook: dict[str, Any] | None


class ListHooks(Verb[list[dict[str, Any]]], frozen=True):
    """Where the updates of a task go."""

    traits = Traits(needs="owner", answered_in="threads.hooks")

    thread: Ref


class PutSent(Verb[None], frozen=True):
    """Keep how far the updates of a task were sent; None where there are no more to come."""

    traits = Traits(needs="owner", answered_in="threads.hooks")

    thread: Ref
    sent: Sent | None


class ReadSent(Verb[Sent | None], frozen=True):
    """How far the updates of a task were sent; None where none are to be."""

    traits = Traits(needs="owner", answered_in="threads.hooks")

    thread: Ref


class ListSent(Verb[list[Sent]], frozen=True):
    """How far the updates of every task with hooks were sent, by thread."""

    traits = Traits(needs="owner", answered_in="threads.hooks")

    after: Cursor = ""


class MakeCheckpoint(Verb[Numbered], frozen=True):
    """Label the newest version of the state, to find it again."""

    traits = _notes(http="POST /v1/threads/{thread}/checkpoints")

    thread: Ref
    label: Label
    by: Label = "you"


class PutReport(Verb[Artifact], frozen=True):
    """Put a report that was written of a thread into it, with the event `report.generated`.

    Asked again with the same key, it is the first report that stands.
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
    by: Label = "you"


class MirrorThread(Verb[Mirrored], frozen=True):
    """Write the files in which people can read a thread; only an embedded store has them."""

    traits = Traits(needs="owner", answered_in="threads.mirror")

    thread: Ref
