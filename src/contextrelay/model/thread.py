"""Threads: execution contexts with a state that changes only by patches, and an event log."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Raw, Struct

from contextrelay.model.key import Key

CREATED = "state.created"
"""The first version of a state; `detail` holds `state`."""
PATCHED = "state.patch.applied"
"""The next version of a state; `detail` holds `version`, the applied `operations`, and `metrics`.
"""

CALLED = "capability.called"
"""A capability is about to run, which counts as a hop. `detail` holds `capability`, `cache_key`."""
INVOKED = "capability.invoked"
"""A capability returned a result; with `cache_hit` in `detail` it was cached. Also counts as a hop.
"""
FAILED = "capability.failed"
"""A capability returned no result; `detail` holds `error`."""


ThreadKind = Literal["pipeline", "task"]
"""The kind of a thread that was not opened by a person. Such threads are listed only by kind, are
never the last used thread, and are removed some time after their end.
"""


TaskEvent = Literal[
    "task.asked", "task.status", "task.artifact", "task.runs", "task.sends", "task.fetched"
]
"""Types of the events in a task's log; a2a/record.py reads them."""


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of a thread: what happened, by whom and when.

    The writer chooses `id`: after a lost reply it shows whether the write succeeded.
    """

    id: str
    type: str
    at: datetime
    by: str
    detail: dict[str, Any] = {}
    hash: str = ""
    """Hash of this event and, through the previous one, of all before it; computed on reading."""


class ThreadRecord(Struct, frozen=True, kw_only=True):
    """The fixed or rarely changing fields of a thread."""

    thread_id: str
    name: str | None
    status: Literal["open", "closed"]
    created_at: datetime
    created_by: str
    forked_from: str | None = None
    """`<thread id>@v<version>` of the state it was forked from."""
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
    """The number of capability calls in it, including cached results."""
    kind: ThreadKind | None = None
    """What the thread records; None for a thread that a person works on."""
    problem: str | None = None
    """Why the thread cannot be read; None if it can. The counts are unknown then."""


class ThreadListing(Struct, frozen=True, kw_only=True):
    """One page of threads, newest first; `next` is "" on the last one."""

    threads: list[ThreadView]
    next: str = ""


class StateView(Struct, frozen=True, kw_only=True):
    """A state at one version: the whole document, as JSON."""

    thread_id: str
    version: int
    state: Raw


class HeaderView(Struct, frozen=True, kw_only=True):
    """The bounded view of a state: JSON of at most 2,048 bytes, the same for the same state."""

    truncated: bool
    header: Raw


class Patched(Struct, frozen=True, kw_only=True):
    """The result of a patch."""

    thread_id: str
    version: int
    operations: list[dict[str, Any]]
    """The operations that were applied, including compaction."""
    updated_at: datetime | None = None
    """When that version was created; None from an older server."""


class Added(Patched, frozen=True, kw_only=True):
    """The result of adding an entry to a state, with the id of the entry."""

    id: str


class Changes(Struct, frozen=True, kw_only=True):
    """The operations that lead from one version to another."""

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
    """If every artifact were pasted: the sum of size // 4."""
    actual_tokens: int
    """If only previews are: the sum of len(preview.text) // 4."""
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
    """One page of tasks, by id, newest first; `next` is "" on the last one."""

    ids: list[str]
    next: str = ""


class TaskLog(Struct, frozen=True, kw_only=True):
    """The fixed fields of a task, and its first events."""

    record: ThreadRecord
    events: list[Numbered]


class Sent(Struct, frozen=True, kw_only=True):
    """The delivery status of the updates of a task to its webhooks."""

    thread: str
    after: int
    """The seq of the last event that was sent."""
    key: Key | None
    """Updates show only what this key may see; None for the owner."""


class Mirrored(Struct, frozen=True, kw_only=True):
    """The human-readable files of a thread."""

    thread_id: str
    folder: str
    files: int
