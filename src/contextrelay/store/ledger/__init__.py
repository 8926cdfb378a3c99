"""The ledger: ordered logs, each with rows; the interface of every engine.

A log has a name, an append-only sequence of facts numbered 1, 2, 3 ... and rows found by kind and
key. An engine stores bytes; core interprets them.

Rule: a commit is the unit of atomicity. All of its writes are applied, or none, also across logs; a
crash leaves no partial commit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol

from msgspec import Struct

from contextrelay.errors import Unavailable

COMMIT_ID_KEPT_S = 600
"""The number of seconds for which an engine remembers a commit by its id."""

ONLY = "-"
"""The key of a row that is the only one of its kind in a log. A key is never empty."""


class Fact(Struct, frozen=True, gc=False):
    """One entry of a log."""

    seq: int
    body: bytes


class Row(Struct, frozen=True, gc=False):
    """A value of a log under a kind and a key.

    A body of None deletes the row; `due_ms` puts it on the due list.
    """

    kind: str
    key: str
    body: bytes | None
    due_ms: int | None = None


class Write(Struct, frozen=True):
    """Changes to one log. With `expect`, they are applied only if that is the head of the log.

    `after` is the newest fact of the log that the writer knows. An engine that may lose facts
    (`may_lose`) also refuses the changes if the newest fact differs. `adds` are amounts for the
    counters that have the name of the log. With `total_max`, the changes are applied only if no
    counter that grows exceeds that.
    """

    log: str
    facts: tuple[bytes, ...] = ()
    rows: tuple[Row, ...] = ()
    expect: int | None = None
    after: bytes = b""
    adds: tuple[tuple[str, int], ...] = ()
    total_max: int | None = None


class Stale(Exception):
    """Raised if a condition of a write did not hold: its `expect`, `after` or `total_max`. Nothing
    of the commit was applied.
    """

    def __init__(self, log: str, head: int) -> None:
        super().__init__(f"the head of {log} is {head}")
        self.log = log
        self.head = head


def heads_after(writes: Sequence[Write], heads: Mapping[str, int]) -> list[int]:
    """Return the head of each write's log after the write, given the heads before the first write.

    Raises:
        Stale: the `expect` of a write is not the head of its log.
    """
    moved: dict[str, int] = {}
    after: list[int] = []
    for write in writes:
        head = moved.get(write.log, heads[write.log])
        if write.expect is not None and head != write.expect:
            raise Stale(write.log, head)
        moved[write.log] = head + len(write.facts)
        after.append(moved[write.log])
    return after


def check_totals(
    writes: Sequence[Write], heads: Mapping[str, int], total_of: Callable[[str, str], int]
) -> None:
    """Check the `total_max` of writes. `total_of` returns a counter, given its name and field.

    Raises:
        Stale: a counter would exceed the `total_max` of its write.
    """
    added: dict[tuple[str, str], int] = {}
    for write in writes:
        for field, amount in write.adds:
            place = write.log, field
            added[place] = added.get(place, 0) + amount
            if write.total_max is None or amount <= 0:
                continue
            if total_of(*place) + added[place] > write.total_max:
                raise Stale(write.log, heads[write.log])


class RecentCommits:
    """The ids of recent commits, for engines whose content is lost when the process ends."""

    def __init__(self) -> None:
        self._heads: OrderedDict[bytes, tuple[float, list[int] | None]] = OrderedDict()

    def find(self, id: bytes) -> list[int] | None:
        """Return the heads of a commit that was applied, or None if the commit is new.

        Raises:
            Unavailable: `settle` has refused the commit.
        """
        if id not in self._heads:
            return None
        heads = self._heads[id][1]
        if heads is None:
            raise Unavailable("the write was withdrawn before it arrived", "try again")
        return heads

    def keep(self, id: bytes, heads: list[int] | None, now_s: float) -> None:
        self._heads[id] = (now_s, heads)
        while next(iter(self._heads.values()))[0] < now_s - COMMIT_ID_KEPT_S:
            self._heads.popitem(last=False)

    def settle(self, id: bytes, now_s: float) -> list[int] | None:
        """Return the heads of a commit that was applied; otherwise refuse it from now on."""
        if id not in self._heads:
            self.keep(id, None, now_s)
        return self._heads[id][1]


# The write lock: while it is set, only the holder of its token writes. It is stored in the ledger,
# so every process and server obeys it, and a crash does not release it.

LOCK_LOG = "restore"
LOCK_KIND = "lock"
PLACE_KIND = "blobs"
"""The kind of a row in LOCK_LOG: the address of a store's blobs, if they are not in the ledger's
engine.
"""
UNLOCKED = b""
"""The lock token of an unlocked ledger."""

# The token is not an argument of commit, trim and drop, because only a restore has a token, and
# every view of a ledger would have to pass it on.
_token: ContextVar[bytes] = ContextVar("token", default=UNLOCKED)


@contextmanager
def lock_token(token: bytes) -> Generator[None]:
    """Do the writes in the block with a lock token."""
    before = _token.set(token)
    try:
        yield
    finally:
        _token.reset(before)


def current_token() -> bytes:
    """Return the caller's lock token. It is UNLOCKED except during a restore."""
    return _token.get()


class Reads(Protocol):
    """The read operations of a ledger."""

    def last(self, log: str) -> int:
        """Return the seq of the newest fact ever written to a log, trimmed or not; 0 for none."""
        ...

    def read(self, log: str, after: int, limit: int) -> list[Fact]:
        """Return at most `limit` facts with seq > after, in order."""
        ...

    def get(self, log: str, kind: str, key: str) -> bytes | None:
        """Return the body of one row, or None."""
        ...

    def get_each(self, logs: Sequence[str], kind: str, key: str) -> list[bytes | None]:
        """Return the body of the same row in each of several logs, in one read, or None."""
        ...

    def rows(self, log: str, kind: str, after: str, limit: int) -> list[Row]:
        """Return at most `limit` rows of a kind with key > after, ordered by UTF-8 bytes."""
        ...

    def kinds(self, log: str) -> list[str]:
        """Return the kinds of rows of a log, sorted."""
        ...

    def logs(self, prefix: str, after: str, limit: int) -> list[str]:
        """Return at most `limit` names of logs that start with `prefix` and are > after, ordered by
        UTF-8 bytes.

        A log is listed while it has facts, rows or a trimmed head.
        """
        ...

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        """Return at most `limit` rows with due_ms <= now_ms, each with its log, soonest first."""
        ...


class Ledger(Reads, Protocol):
    """The interface of an engine."""

    reads_wait: bool
    """Whether a read may wait for a network, so that an event loop must not call it inline."""
    may_lose: bool
    """Whether a fail-over may revert unconfirmed facts that were already read."""

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        """Apply all writes or none, durably; return the head of each write's log after the write.

        A write sees the writes before it in the same commit. With an `id`, which is remembered for
        COMMIT_ID_KEPT_S, a commit that is sent twice is applied once.

        Raises:
            Stale: a condition of a write did not hold; nothing was applied.
            Unavailable: no reply came in time; `applied` tells whether the commit was applied.
        """
        ...

    def applied(self, id: bytes) -> list[int] | None:
        """Return the heads of the commit with this id, or None if it was not applied.

        If None was returned, the commit is refused from then on, so that a request that arrives
        late changes nothing.
        """
        ...

    def confirm(self, log: str) -> None:
        """Wait until everything that can be read in a log is as durable as a commit.

        This is for a caller that answers with stored facts or rows instead of writing them. The
        caller must read them after this call, because a fail-over before the confirmation may have
        removed them.
        """
        ...

    def trim(self, log: str, before: int) -> None:
        """Delete facts with seq < before.

        The head of the log never moves back. If it is lower than before - 1, it moves there.
        """
        ...

    def drop(self, log: str, expect: int) -> None:
        """Delete a whole log, its rows and its head, if the head is `expect`.

        Raises:
            Stale: the head of the log is different.
        """
        ...

    def locked_by(self) -> bytes:
        """Return the token of the ledger's lock, or UNLOCKED.

        While the ledger is locked, `commit`, `trim` and `drop` raise Unavailable for callers
        without the token.
        """
        ...

    def swap_lock(self, old: bytes, new: bytes) -> bool:
        """Lock the ledger, take over its lock, or unlock it, if the current token is `old`.

        The change is durable. After it, writes with another token than `new` are refused. Return
        False, without a change, if the current token is different.
        """
        ...

    def tally(self, name: str) -> dict[str, int]:
        """Return the counters of a name. A commit adds to them (`Write.adds`)."""
        ...

    def tallies(self) -> Iterator[str]:
        """Yield the names that have counters, in arbitrary order; a name may occur twice."""
        ...

    def listen(self, callback: Callable[[str | None], None]) -> Callable[[], None]:
        """Call `callback(log)` after facts were written to a log, by this or another process.

        A call is only a hint: it may come late, twice, needlessly, or with None ("some log"), and
        from any thread. Return a function that ends the subscription.
        """
        ...

    def contention_lock(self) -> AbstractContextManager[None]:
        """Make other callers of this method wait during the block, if the engine can.

        This is for a writer that lost a race and tries again. Without the lock, many callers that
        read, change and write the same log make each other fail. Correctness depends on `expect`,
        not on this lock.
        """
        ...

    def failover_deadline(self) -> AbstractContextManager[None]:
        """Limit the total time for which all calls in the block hide a fail-over."""
        ...

    def snapshot(self) -> AbstractContextManager[Reads]:
        """Yield a snapshot, or a live view if the engine has no snapshots."""
        ...

    def check(self) -> list[str]:
        """Return problems that the engine finds in its own files."""
        ...

    def close(self) -> None:
        """Close the ledger and its connections; a second call does nothing."""
        ...
