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
"""How long an engine remembers a commit by its id."""

ONLY = "-"
"""The key of a row that is the only one of its kind. A key is never empty."""


class Fact(Struct, frozen=True, gc=False):
    """One entry of a log."""

    seq: int
    body: bytes


class Row(Struct, frozen=True, gc=False):
    """One named value of a log. A body of None deletes it; `due_ms` puts it on the due list."""

    kind: str
    key: str
    body: bytes | None
    due_ms: int | None = None


class Write(Struct, frozen=True):
    """Changes to one log, applied only if the log's head is `expect`.

    `after` is the newest fact of the log that the writer knows: an engine that may lose facts
    (`may_lose`) also refuses the changes if the newest fact differs.
    """

    log: str
    facts: tuple[bytes, ...] = ()
    rows: tuple[Row, ...] = ()
    expect: int | None = None
    after: bytes = b""


class Stale(Exception):
    """The head of a log was not the expected one; nothing of the commit was applied."""

    def __init__(self, log: str, head: int) -> None:
        super().__init__(f"the head of {log} is {head}")
        self.log = log
        self.head = head


def heads_after(writes: Sequence[Write], heads: Mapping[str, int]) -> list[int]:
    """Return the head of each write's log after it, given the heads before the first.

    Raises:
        Stale: a write's `expect` does not hold.
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


class RecentCommits:
    """The ids of recent commits, for engines that end with their process."""

    def __init__(self) -> None:
        self._heads: OrderedDict[bytes, tuple[float, list[int] | None]] = OrderedDict()

    def find(self, id: bytes) -> list[int] | None:
        """Return the heads of a commit that was applied, or None if it is new.

        Raises:
            Unavailable: `settle` has refused it.
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
        """Return the heads of a commit that was applied; refuse any other from now on."""
        if id not in self._heads:
            self.keep(id, None, now_s)
        return self._heads[id][1]


# The write lock: while it is set, only the holder of its token writes. It is stored in the ledger
# itself, so every process and server obeys it, and a crash does not release it.

LOCK_LOG = "restore"
LOCK_KIND = "lock"
PLACE_KIND = "blobs"
"""A row of the same log: the address of a store's blobs, if they are not in the ledger's engine."""
UNLOCKED = b""
"""The token of an unlocked ledger."""

# Not an argument of commit, trim and drop: only a restore has a token, and every view of a ledger
# would have to pass it on.
_token: ContextVar[bytes] = ContextVar("token", default=UNLOCKED)


@contextmanager
def lock_token(token: bytes) -> Generator[None]:
    """Write with this lock token during the block."""
    before = _token.set(token)
    try:
        yield
    finally:
        _token.reset(before)


def current_token() -> bytes:
    """Return the caller's lock token; UNLOCKED except during a restore."""
    return _token.get()


class Reads(Protocol):
    """The read operations of a ledger."""

    def last(self, log: str) -> int:
        """Return the seq of the newest fact ever written to a log, trimmed or not; 0 if none."""
        ...

    def read(self, log: str, after: int, limit: int) -> list[Fact]:
        """Return facts with seq > after, in order, at most `limit`."""
        ...

    def get(self, log: str, kind: str, key: str) -> bytes | None:
        """Return the body of one row, or None."""
        ...

    def get_each(self, logs: Sequence[str], kind: str, key: str) -> list[bytes | None]:
        """Return the same row of each of these logs in one read."""
        ...

    def rows(self, log: str, kind: str, after: str, limit: int) -> list[Row]:
        """Return rows of one kind with key > after ("" for all), ordered by UTF-8 bytes."""
        ...

    def kinds(self, log: str) -> list[str]:
        """Return the kinds of rows of a log, sorted."""
        ...

    def logs(self, prefix: str, after: str, limit: int) -> list[str]:
        """Return names of logs that start with `prefix` and are > after, ordered by UTF-8 bytes.

        A log is listed while it has facts, rows or a trimmed head.
        """
        ...

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        """Return rows with due_ms <= now_ms with their logs, soonest first."""
        ...


class Ledger(Reads, Protocol):
    """The interface of an engine."""

    reads_wait: bool
    """Whether a read may wait for a network, so that an event loop must not call it inline."""
    may_lose: bool
    """Whether a fail-over may revert unconfirmed facts that were already read."""

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        """Apply all writes or none, durably; return the head of each write's log after it.

        A write sees those before it in the same commit. With an `id`, which is kept for
        COMMIT_ID_KEPT_S, a commit that is sent twice is applied once.

        Raises:
            Stale: a write's `expect` did not hold; nothing was applied.
            Unavailable: no reply came in time; `applied` tells whether the commit was applied.
        """
        ...

    def applied(self, id: bytes) -> list[int] | None:
        """Return the heads of the commit with this id, or None if it was not applied.

        After None that commit is refused, so that a request still on its way changes nothing.
        """
        ...

    def confirm(self, log: str) -> None:
        """Wait until everything readable in a log is as durable as a commit.

        For a caller that answers with stored facts or rows instead of writing them. It must read
        them after this: a fail-over between the read and the confirmation may have removed them.
        """
        ...

    def trim(self, log: str, before: int) -> None:
        """Delete facts with seq < before.

        The head never moves back; if it is lower, it moves to before - 1.
        """
        ...

    def drop(self, log: str, expect: int) -> None:
        """Delete a whole log, its rows and its head, if its head is `expect`.

        Raises:
            Stale: its head is different.
        """
        ...

    def locked_by(self) -> bytes:
        """Return the token of the ledger's lock, or UNLOCKED.

        While it is locked, `commit`, `trim` and `drop` raise Unavailable for all others. Counters
        are not content: `tally` still works.
        """
        ...

    def swap_lock(self, old: bytes, new: bytes) -> bool:
        """Lock the ledger, take over its lock, or unlock it, if the current token is `old`.

        The change is durable. Once this returns, writes with another token than `new` are refused.
        Return False, without a change, if the token was different.
        """
        ...

    def tally(self, name: str, amounts: Mapping[str, int]) -> dict[str, int]:
        """Add amounts to the counters of that name and return all of them; {} only reads."""
        ...

    def tally_all(self, sums: Mapping[str, Mapping[str, int]]) -> None:
        """Add amounts to the counters of several names, to all or to none."""
        ...

    def tallies(self) -> Iterator[str]:
        """Yield the names that have counters, in no order; one may occur twice."""
        ...

    def listen(self, callback: Callable[[str | None], None]) -> Callable[[], None]:
        """Call `callback(log)` after facts were written to a log, by this or another process.

        A call is a hint: it may come late, twice, needlessly, or with None ("some log"), and from
        any thread. The returned function ends the subscription.
        """
        ...

    def contention_lock(self) -> AbstractContextManager[None]:
        """Make other callers of this method wait during the block, if the engine can.

        For a writer that lost a race and tries again: without it, many callers that read, change
        and write one log make each other fail. It is not a safeguard; `expect` is.
        """
        ...

    def failover_deadline(self) -> AbstractContextManager[None]:
        """Limit the time for hiding a fail-over to one period for all calls in the block."""
        ...

    def snapshot(self) -> AbstractContextManager[Reads]:
        """Yield a snapshot, if the engine has them; else a live view."""
        ...

    def check(self) -> list[str]:
        """Return problems that the engine finds in its own files."""
        ...

    def close(self) -> None:
        """Close everything; a second call does nothing."""
        ...
