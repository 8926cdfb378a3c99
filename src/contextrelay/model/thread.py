"""Threads: execution contexts with a state that changes only by patches, and an event log."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Raw, Struct

from contextrelay.errors import Invalid
from contextrelay.model.key import Key

CREATED = "state.created"
"""Type of the event for the first version of a state; `detail` holds `state`."""
PATCHED = "state.patch.applied"
"""Type of the event for the next version of a state; `detail` holds `version`, the applied
`operations`, and `metrics`.
"""

CALLED = "capability.called"
"""Type of the event before a capability runs, which counts as a hop. `detail` holds `capability`,
`cache_key`.
"""
INVOKED = "capability.invoked"
"""Type of the event after a capability returned a result; `detail` holds `cache_hit` if the result
was cached, which also counts as a hop.
"""
FAILED = "capability.failed"
"""Type of the event after a capability failed; `detail` holds `error`."""


ThreadKind = Literal["pipeline", "task"]
"""The kind of a thread that was not opened by a person. Such threads are listed only by kind, are
never the current thread, and are removed some time after their end.
"""


TaskEvent = Literal[
    "task.asked", "task.status", "task.artifact", "task.runs", "task.sends", "task.fetched"
]
"""Types of the events in a task's log; a2a/record.py reads them."""


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of a thread: what happened, who caused it and when.

    The writer chooses `id` so that, if the reply is lost, it can find out whether the write
    succeeded.
    """

    id: str
    type: str
    at: datetime
    by: str
    detail: dict[str, Any] = {}
    hash: str = ""
    """Hash of this event and, through the previous event's hash, of all events before it; computed
    when read.
    """


class ThreadRecord(Struct, frozen=True, kw_only=True):
    """The fixed or rarely changing fields of a thread."""

    thread_id: str
    name: str | None
    status: Literal["open", "closed"]
    created_at: datetime
    created_by: str
    forked_from: str | None = None
    """The state from which the thread was forked, as `<thread id>@v<version>`."""
    kind: ThreadKind | None = None


class ThreadView(Struct, frozen=True, kw_only=True):
    """A thread and its current status."""

    thread_id: str
    name: str | None
    status: Literal["open", "closed"]
    created_at: datetime
    created_by: str
    forked_from: str | None
    version: int
    updated_at: datetime
    artifacts: int
    events: int
    hop_count: int = 0
    """The number of capability calls in the thread, including cached results."""
    kind: ThreadKind | None = None
    """What is recorded in the thread; None for a thread that a person works on."""
    problem: str | None = None
    """Why the thread cannot be read, in which case its counts are unknown; None if it can be read.
    """


SAME_NAME_ITEMS = 5
"""The maximum number of threads of the same name that an error lists."""


def ambiguous_name(name: str, found: list[ThreadView]) -> Invalid:
    """Return the error for a name that several threads have; it lists them, newest first."""
    ids = [
        f"{view.thread_id[:8]} (created {view.created_at:%Y-%m-%d %H:%M}, v{view.version})"
        for view in found[:SAME_NAME_ITEMS]
    ]
    more = "" if len(found) <= SAME_NAME_ITEMS else f" and {len(found) - SAME_NAME_ITEMS} more"
    return Invalid(
        f"{len(found)} threads are called {name!r}", f"pass one of the ids: {', '.join(ids)}{more}"
    )


class ThreadListing(Struct, frozen=True, kw_only=True):
    """One page of threads, newest first; `next` is "" on the last page."""

    threads: list[ThreadView]
    next: str = ""


class CurrentThread(Struct, frozen=True, kw_only=True):
    """The current thread of an agent or a terminal in a folder, and what it may become."""

    thread: ThreadView | None
    previous: ThreadView | None
    candidates: list[ThreadView]
    """The open threads that the same agent or user created or used in this folder, newest first."""


class StateView(Struct, frozen=True, kw_only=True):
    """A state at one version: the whole document, as JSON."""

    thread_id: str
    version: int
    state: Raw


class HeaderView(Struct, frozen=True, kw_only=True):
    """The size-limited view of a state: JSON of at most 2,048 bytes, always the same for the same
    state.
    """

    truncated: bool
    header: Raw


class Patched(Struct, frozen=True, kw_only=True):
    """The result of a patch."""

    thread_id: str
    version: int
    operations: list[dict[str, Any]]
    """The operations that were applied, including compaction."""
    updated_at: datetime | None = None
    """When the new version was created; None from an older server."""


class Added(Patched, frozen=True, kw_only=True):
    """The result of adding an entry to a state, with the id of the entry."""

    id: str


class Changes(Struct, frozen=True, kw_only=True):
    """The operations that lead from one version of a state to another."""

    thread_id: str
    old_version: int
    new_version: int
    operations: list[dict[str, Any]]


class Numbered(Struct, frozen=True, kw_only=True):
    """An event with its position in the thread's log."""

    seq: int
    event: Event


class EventPage(Struct, frozen=True, kw_only=True):
    """Some events of a thread, in order."""

    events: list[Numbered]


class Stats(Struct, frozen=True, kw_only=True):
    """The tokens that refs saved in a thread, estimated by the seed's formula: characters / 4."""

    thread_id: str
    artifacts: int
    naive_tokens: int
    """The number of tokens if every artifact were pasted: the sum of size // 4."""
    actual_tokens: int
    """The number of tokens if only previews are pasted: the sum of len(preview.text) // 4."""
    tokens_avoided: int
    cache_hits: int = 0
    """The number of cached capability results in this thread."""
    session_cache_hits: int = 0
    """The number of cached capability results in any thread, since this process opened the store.
    """
    cache_misses: int = 0
    hop_count: int = 0
    basis: Literal["estimated: characters / 4"] = "estimated: characters / 4"


class TaskListing(Struct, frozen=True, kw_only=True):
    """One page of tasks, by id, newest first; `next` is "" on the last page."""

    ids: list[str]
    next: str = ""


class TaskLog(Struct, frozen=True, kw_only=True):
    """The fixed fields of a task, and its first events."""

    record: ThreadRecord
    events: list[Numbered]


class Sent(Struct, frozen=True, kw_only=True):
    """Which updates of a task have been sent to its webhooks."""

    thread: str
    after: int
    """The seq of the last event that was sent."""
    key: Key | None
    """The key whose access limits what updates show; None for the store's owner."""


class Mirrored(Struct, frozen=True, kw_only=True):
    """The human-readable files of a thread."""

    thread_id: str
    folder: str
    files: int
