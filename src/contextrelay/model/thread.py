"""Threads: execution contexts with a state that only patches change, and their event log."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Raw, Struct

from contextrelay.model.key import Key

CREATED = "state.created"
"""A state's first version; `detail` holds `state`."""
PATCHED = "state.patch.applied"
"""A state's next version; `detail` holds `version`, `operations` as they were done, `metrics`."""

CALLED = "capability.called"
"""A capability is about to run: one hop. `detail` holds `capability`, `cache_key`."""
INVOKED = "capability.invoked"
"""A capability's result is there; if `detail` says `cache_hit`, it was cached: a hop as well."""
FAILED = "capability.failed"
"""A capability that was called brought no result; `detail` holds `error`."""


ThreadKind = Literal["pipeline", "task"]
"""What a thread is the record of, where no person opened it: such threads are listed by their kind
alone, are never the last used one, and go some time after their end."""


TaskEvent = Literal[
    "task.asked", "task.status", "task.artifact", "task.runs", "task.sends", "task.fetched"
]
"""What a task's log says of it; a2a/record.py reads it."""


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened: what, by whom and when.

    `id` is made by the writer: after a lost reply it shows whether the write was done.
    """

    id: str
    type: str
    at: datetime
    by: str
    detail: dict[str, Any] = {}
    hash: str = ""
    """Of this event and, through the one before, of all before it; set when it is read."""


class ThreadRecord(Struct, frozen=True, kw_only=True):
    """What is fixed about a thread, or changes seldom."""

    thread_id: str
    name: str | None
    status: Literal["open", "closed"]
    created_at: datetime
    created_by: str
    forked_from: str | None = None
    """`<thread id>@v<version>` of the state it began with."""
    kind: ThreadKind | None = None


class ThreadView(Struct, frozen=True, kw_only=True):
    """A thread as it stands."""

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
    """How often capabilities were invoked in it, cached results included."""
    kind: ThreadKind | None = None
    """None for a thread that somebody works on; else what it is the record of."""
    problem: str | None = None
    """Why the thread cannot be read; None if it can. The counts are then not known."""


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
    """What a patch led to."""

    thread_id: str
    version: int
    operations: list[dict[str, Any]]
    """What was done, compaction included."""
    updated_at: datetime | None = None
    """When that version was made; None from an older server."""


class Added(Patched, frozen=True, kw_only=True):
    """What adding an entry to a state led to, and the id of that entry."""

    id: str


class Changes(Struct, frozen=True, kw_only=True):
    """The operations that lead from one version to another."""

    thread_id: str
    old_version: int
    new_version: int
    operations: list[dict[str, Any]]


class Numbered(Struct, frozen=True, kw_only=True):
    """An event with its place in the thread's log."""

    seq: int
    event: Event


class EventPage(Struct, frozen=True, kw_only=True):
    """Some events of a thread, in order."""

    events: list[Numbered]


class Stats(Struct, frozen=True, kw_only=True):
    """What refs have saved in a thread, by seed's formula: characters / 4, an estimate."""

    thread_id: str
    artifacts: int
    naive_tokens: int
    """If every artifact were pasted: the sum of size // 4."""
    actual_tokens: int
    """If only previews are: the sum of len(preview.text) // 4."""
    tokens_avoided: int
    cache_hits: int = 0
    """How often a capability's result was cached, in this thread."""
    session_cache_hits: int = 0
    """How often in any thread, since this process opened the store."""
    cache_misses: int = 0
    hop_count: int = 0
    basis: Literal["estimated: characters / 4"] = "estimated: characters / 4"


class TaskListing(Struct, frozen=True, kw_only=True):
    """One page of tasks, by id, newest first; `next` is "" on the last one."""

    ids: list[str]
    next: str = ""


class TaskLog(Struct, frozen=True, kw_only=True):
    """What is fixed about a task, and the first of its events."""

    record: ThreadRecord
    events: list[Numbered]


class Sent(Struct, frozen=True, kw_only=True):
    """How far the updates of a task were sent to its hooks."""

    thread: str
    after: int
    """The seq of the last event that was sent."""
    key: Key | None
    """What was asked for with this key shows no more than it sees; None for the owner."""


class Mirrored(Struct, frozen=True, kw_only=True):
    """The files in which people can read a thread."""

    thread_id: str
    folder: str
    files: int
