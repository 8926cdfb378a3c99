"""Live states: the current state of a thread in memory, updated from its log, patched in place.

The log `t/<thread>` is the truth: `state.created` has the first state, each `state.patch.applied`
the operations of the next version, as they were applied, so that replay never depends on our code.
Rows `snapshot` hold some versions whole; their keys count down, so that the newest is first.

Rule: nothing mutable leaves this file and states.py; results are encoded.
"""

from __future__ import annotations

import threading
import zlib
from contextlib import suppress
from typing import Any

from msgspec import Struct, convert, msgpack
from msgspec.json import decode, encode

from contextrelay.core.artifacts.holds import ArtifactWeights, held
from contextrelay.core.schema import UNREADABLE, RowKind, walk_facts, walk_rows
from contextrelay.core.stores import Stores
from contextrelay.documents.patch import Operation, apply
from contextrelay.errors import Broken, Gone, NotFound, Refused, RelayError, Unavailable
from contextrelay.limits import KIB, PAGE_ROWS_MAX
from contextrelay.model.artifact import format_time
from contextrelay.model.names import thread_log
from contextrelay.model.thread import CALLED, CREATED, INVOKED, PATCHED, Event, ThreadRecord
from contextrelay.state import event_chain
from contextrelay.state.schema import check_state, new_state
from contextrelay.store.ledger import ONLY, Fact, Reads, Row, Write


class Uses(Struct, frozen=True):
    """How often capabilities were invoked in a thread, and how often the result was cached."""

    hops: int = 0
    cache_hits: int = 0
    cache_misses: int = 0

    def after(self, *events: Event) -> Uses:
        """Return the counts after some events."""
        hops, hits, misses = self.hops, self.cache_hits, self.cache_misses
        for event in events:
            if event.type == CALLED:
                hops += 1
            elif event.type == INVOKED and event.detail.get("cache_hit") is True:
                hops, hits = hops + 1, hits + 1
            elif event.type == INVOKED:
                misses += 1
        return Uses(hops, hits, misses)


def metrics_of(weights: ArtifactWeights, uses: Uses, state_bytes: int) -> dict[str, Any]:
    """Return the figures that the state shows for its current version."""
    return {
        "cache_hits": uses.cache_hits,
        "cache_misses": uses.cache_misses,
        "tokens_estimate": state_bytes // 4,
        # Counts in the state cannot be negative: if previews are longer than their content, 0
        # tokens are avoided.
        "tokens_avoided": max(0, weights.naive_tokens - weights.actual_tokens),
        "hop_count": uses.hops,
    }


# The sum of a thread's patches is at least this many times as large as the sum of its snapshots.
SNAPSHOT_WEIGHT = 3
# If there are fewer bytes of patches than this, replaying them is faster than writing a snapshot.
SNAPSHOT_PATCH_BYTES_MIN = 64 * KIB
# Limits: the number of older states cached with a live state, and the number of versions that a
# cached state is moved forward.
PAST_STATES_MAX = 3
PAST_STEPS_MAX = 200


_END_VERSION = 10**12 - 1
_FIELDS = frozenset(new_state("", ""))
_UNBOUNDED = 1 << 62


class Snapshot(Struct, frozen=True):
    """A complete stored state: the position in the log, and the compressed document."""

    seq: int
    version: int
    size_bytes: int
    packed: bytes
    uses: Uses = Uses()


class LiveState:
    """The state of one thread in memory. Its users hold its lock."""

    __slots__ = (
        "due_bytes",
        "is_closed",
        "is_removed",
        "last",
        "lock",
        "past",
        "patch_bytes",
        "seq",
        "size_bytes",
        "state",
        "uses",
        "version",
        "weights",
    )

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.reset()

    def reset(self) -> None:
        """Reset everything, so that the log is read again from its start."""
        self.state: list[Any] = [None]
        """The document, in a list, so that even the root can be patched in place."""
        self.version = 0
        self.seq = 0
        self.last = b""
        """The body of the newest fact. The hash chain continues from it."""
        self.size_bytes = 0
        self.patch_bytes = 0
        """Bytes of patches since the last snapshot."""
        self.due_bytes = 0
        """The number of bytes of patches at which the next snapshot is tried; 0 if it is not known.
        """
        self.weights: ArtifactWeights | None = None
        self.uses = Uses()
        self.is_closed = False
        self.is_removed = False
        """Whether an event says that the thread was removed.

        The thread's record decides whether that is true.
        """
        self.past: list[LiveState] = []
        """Cached states at recently requested versions (past_state); used only in the live state.
        """

    @property
    def held_bytes(self) -> int:
        """Return the approximate size of this state in memory, in bytes."""
        return self.size_bytes + sum(each.size_bytes for each in self.past)

    @property
    def document(self) -> dict[str, Any]:
        return self.state[0]

    def take(self, fact: Fact) -> Event:
        """Apply one fact of the log to the state; return its event."""
        event = event_chain.decode(fact.body)
        if event.type == CREATED:
            self.state = [convert(event.detail["state"], dict[str, Any])]
            if missing := _FIELDS - self.document.keys():
                raise KeyError(*missing)
            self.version = convert(self.document["version"], int)
            self.size_bytes = len(encode(self.document))
        elif event.type == PATCHED:
            self._follow(event)
            self.patch_bytes += len(fact.body)
        elif event.type == "artifact.created":
            self.weights = None
        elif event.type in (CALLED, INVOKED):
            self.uses = self.uses.after(event)
        elif event.type == "thread.closed":
            self.is_closed = True
        elif event.type == "thread.removed":
            self.is_removed = True
        elif event.type == "thread.imported":
            # A closed thread was exported; the imported copy is a new thread and open.
            self.is_closed = False
        self.seq, self.last = fact.seq, fact.body
        return event

    def _follow(self, event: Event) -> None:
        operations = convert(event.detail["operations"], list[Operation])
        self.size_bytes = apply(self.state, operations, self.size_bytes, _UNBOUNDED).size_bytes
        self.version = convert(event.detail["version"], int)
        self.stamp(event)

    def stamp(self, event: Event) -> None:
        """Write the metadata of the new version into the state."""
        document = self.document
        document["version"] = self.version
        document["updated_at"] = format_time(event.at)
        document["metrics"] = event.detail["metrics"]


def find_record(ledger: Reads, thread: str) -> ThreadRecord:
    """Return the fixed record of a thread.

    Raises:
        Gone: the thread was removed.
        NotFound: the thread does not exist.
    """
    row = ledger.get(thread_log(thread), RowKind.THREAD, ONLY)
    if row is not None:
        return _read(row, ThreadRecord, thread)
    gone = ledger.get(thread_log(thread), RowKind.GONE, ONLY)
    if gone is not None:
        tombstone: dict[str, Any] = _read(gone, dict[str, Any], thread)
        raise Gone(
            f"thread {thread} was removed at {tombstone['gone_at']}",
            "list the threads: relay thread list",
            tombstone,
        )
    raise NotFound(f"thread not found: {thread}", "list the threads: relay thread list")


def check_open(stores: Stores, thread: str) -> None:
    """Raise an error if a thread is closed, before anything is changed."""
    if find_record(stores.ledger, thread).status == "closed":
        raise Refused(f"thread {thread} is closed", "fork it: relay thread fork")


def head_of(stores: Stores, thread: str) -> LiveState:
    """Return the live state of a thread, which may be outdated; create it on first use."""
    live = stores.live_states.get(thread)
    if live is None:
        fresh = LiveState()
        fresh.is_closed = find_record(stores.ledger, thread).status == "closed"
        live = stores.live_states.keep(thread, fresh)
    return live


def catch_up(stores: Stores, thread: str, live: LiveState) -> list[Event]:
    """Apply events written by others; return the events that are patches.

    The caller holds the lock.

    Raises:
        Broken: the log cannot be replayed.
    """
    if live.seq == 0:
        _start(stores.ledger, thread, live, _END_VERSION)
    patches: list[Event] = []
    try:
        while page := _new_facts(stores, thread, live):
            taken = [live.take(fact) for fact in page]
            patches += [event for event in taken if event.type == PATCHED]
    except (Gone, NotFound, Unavailable):
        raise
    except (KeyboardInterrupt, SystemExit):
        stores.live_states.drop(thread)  # A fact may have been applied only in part.
        raise
    except (*UNREADABLE, KeyError, TypeError, ValueError, RelayError) as error:
        stores.live_states.drop(thread)
        raise unreadable(thread, error) from error
    if live.version == 0:
        stores.live_states.drop(thread)
        raise unreadable(thread, "no event has its first state")
    return patches


def _new_facts(stores: Stores, thread: str, live: LiveState) -> list[Fact]:
    """Return the next facts after the position of the state; [] at the end of the log."""
    ledger, log = stores.ledger, thread_log(thread)
    if ledger.may_lose and live.seq:
        page = ledger.read(log, live.seq - 1, PAGE_ROWS_MAX)
        if page and page[0] == Fact(live.seq, live.last):
            return page[1:]
        # A fail-over reverted a fact that was applied here; the fact was never confirmed.
        live.reset()
        live.is_closed = find_record(ledger, thread).status == "closed"
        _start(ledger, thread, live, _END_VERSION)
    # The head is read first, so facts that are missing afterwards were not written later, but are
    # lost.
    head = ledger.last(log)
    if head == live.seq:
        return []
    page = ledger.read(log, live.seq, PAGE_ROWS_MAX)
    if not page or head < live.seq:
        stores.live_states.drop(thread)
        find_record(ledger, thread)
        raise unreadable(thread, "some of its events are missing")
    return page


class state_of:  # noqa: N801 (it reads as what it gives; a generator takes 1 µs more)
    """A context manager that returns a state and holds the lock of the live state."""

    def __init__(self, stores: Stores, thread: str, version: int | None = None) -> None:
        self._stores, self._thread, self._version = stores, thread, version

    def __enter__(self) -> LiveState:
        head = self.head = head_of(self._stores, self._thread)
        head.lock.acquire()
        try:
            catch_up(self._stores, self._thread, head)
            self._read = head
            if self._version is not None and self._version != head.version:
                self._read = past_state(self._stores, self._thread, head, self._version)
            return self._read
        except BaseException:
            head.lock.release()
            raise

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        try:
            if isinstance(error, Exception) and not isinstance(error, RelayError):
                _check_readable(self._stores, self._thread, self._read, error)
        finally:
            self.head.lock.release()


def _check_readable(stores: Stores, thread: str, live: LiveState, error: Exception) -> None:
    """Raise Broken if an error was caused by a state that was valid when written."""
    try:
        check_state(live.document, lambda ref: True)
    except (RelayError, LookupError, TypeError, ValueError, AttributeError):
        stores.live_states.drop(thread)
        raise unreadable(thread, f"its state is invalid: {error!r}") from error


def weights_of(stores: Stores, thread: str, live: LiveState) -> ArtifactWeights:
    """Return the weight of the thread's artifacts, computed once. The caller holds the lock."""
    if live.weights is None:
        total = ArtifactWeights()
        for _, each in held(stores.ledger, thread):
            total = total.plus(each)
        live.weights = total
    return live.weights


def state_at(stores: Stores, thread: str, version: int) -> LiveState:
    """Return the state at a version, separate from the live state.

    Raises:
        NotFound: the thread does not have that version.
    """
    find_record(stores.ledger, thread)
    past = LiveState()
    _start(stores.ledger, thread, past, version)
    return _followed(stores, thread, past, version)


def past_state(
    stores: Stores, thread: str, head: LiveState, version: int, but: LiveState | None = None
) -> LiveState:
    """Return the state at a version, read-only. The caller holds the lock of the live state.

    The last few states are cached, because readers of history ask for neighbouring versions: a
    cached state is moved forward. `but` is a state that is still in use and is not moved.
    """
    earlier = [each for each in head.past if each is not but and each.version <= version]
    near = max(earlier, key=lambda each: each.version, default=None)
    if near is not None and version - near.version <= PAST_STEPS_MAX:
        head.past.remove(near)  # Remove the state first, because an error leaves it half-applied.
        past = _followed(stores, thread, near, version)
    else:
        past = state_at(stores, thread, version)
    head.past = [*head.past[1 - PAST_STATES_MAX :], past]
    return past


def _followed(stores: Stores, thread: str, past: LiveState, version: int) -> LiveState:
    try:
        facts = walk_facts(stores.ledger, thread_log(thread), past.seq)
        while past.version < version and (fact := next(facts, None)) is not None:
            past.take(fact)
    except (*UNREADABLE, KeyError, TypeError, ValueError, RelayError) as error:
        raise unreadable(thread, error) from error
    if past.version != version:
        raise NotFound(
            f"thread {thread} has no version {version}; the newest is {past.version}",
            "list the versions: relay state log",
        )
    return past


def _start(ledger: Reads, thread: str, live: LiveState, version: int) -> None:
    """Load the newest snapshot up to a version, or start at the beginning of the log."""
    rows = ledger.rows(thread_log(thread), RowKind.SNAPSHOT, _key(version + 1), 1)
    if not rows:
        return
    try:
        snapshot = _read(rows[0].body or b"", Snapshot, thread)
        document = decode(zlib.decompress(snapshot.packed))
        last = ledger.read(thread_log(thread), snapshot.seq - 1, 1)[0].body
    except (Broken, *UNREADABLE, zlib.error, IndexError):
        return  # A snapshot only saves time, so a damaged one is ignored; `verify` reports it.
    live.state = [document]
    live.version = snapshot.version
    live.size_bytes = snapshot.size_bytes
    live.seq = snapshot.seq
    live.last = last
    live.uses = snapshot.uses


def take_snapshot_if_due(stores: Stores, thread: str, live: LiveState) -> None:
    """Write a snapshot if the patches since the last snapshot are several times as large as a new
    one.

    All snapshots together are then a fraction of the size of the patches, and loading a state
    replays few patches.
    """
    # The compressed size is not known yet: compress only if a ratio of ten to one would be enough
    # for a snapshot.
    worth_bytes = live.due_bytes or live.size_bytes * SNAPSHOT_WEIGHT // 10
    if live.patch_bytes < max(worth_bytes, SNAPSHOT_PATCH_BYTES_MIN):
        return
    packed = zlib.compress(encode(live.document), 1)
    live.due_bytes = len(packed) * SNAPSHOT_WEIGHT
    if live.patch_bytes < live.due_bytes:
        return
    snapshot = Snapshot(live.seq, live.version, live.size_bytes, packed, live.uses)
    row = Row(RowKind.SNAPSHOT, _key(live.version), msgpack.encode(snapshot))
    # The patch is already committed, whether or not there is room for the snapshot.
    with suppress(RelayError):
        stores.ledger.commit(Write(thread_log(thread), rows=(row,)))
        live.patch_bytes = 0


def wrong_snapshots(ledger: Reads, thread: str) -> list[int]:
    """Return the versions whose snapshots differ from a full replay of the events.

    Raises:
        Broken: the events cannot be replayed.
    """
    log = thread_log(thread)
    kept: dict[int, tuple[Any, Uses]] = {}
    for row in walk_rows(ledger, log, RowKind.SNAPSHOT):
        version = _END_VERSION - int(row.key)
        try:
            snapshot = _read(row.body or b"", Snapshot, thread)
            kept[version] = decode(zlib.decompress(snapshot.packed)), snapshot.uses
        except (Broken, *UNREADABLE, zlib.error):
            kept[version] = None, Uses()
    live, wrong = LiveState(), list[int]()
    try:
        for fact in walk_facts(ledger, log):
            before = live.version
            live.take(fact)
            there = (live.document, live.uses)
            if live.version != before and kept.get(live.version, there) != there:
                wrong.append(live.version)
    except (*UNREADABLE, KeyError, TypeError, ValueError, RelayError) as error:
        raise unreadable(thread, error) from error
    return wrong


def _key(version: int) -> str:
    return f"{_END_VERSION - version:012d}"


def _read(row: bytes, kind: type[Any], thread: str) -> Any:
    try:
        return msgpack.decode(row, type=kind) if kind is Snapshot else decode(row, type=kind)
    except UNREADABLE as error:
        raise unreadable(thread, error) from error


def unreadable(thread: str, why: object) -> Broken:
    # The text of our own errors names a file, for users of this machine only.
    why = why.message if isinstance(why, RelayError) else why
    return Broken(f"thread {thread} cannot be read: {why}", "check the store: relay verify")
