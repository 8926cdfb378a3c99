"""A ledger that stops: it does a number of commits and then dies, as a crash would leave it.

Rule: a verb of several commits has to be right after each of them, and this shows it every prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from contextrelay.store.ledger import Fact, Ledger, Reads, Row, Write


class Stopped(BaseException):
    """The end of the process, as far as core can tell: it must not be caught as an error."""


class StutterLedger:
    """Any ledger, with an end after `stops_after` commits.

    After the end every call raises Stopped: the dead do not read either. `trim`, `drop`
    and `swap_lock` count as one commit each.
    """

    def __init__(self, inner: Ledger, stops_after: int) -> None:
        self.reads_wait = inner.reads_wait
        self.may_lose = inner.may_lose
        self.writes_done = 0
        self._inner = inner
        self._stops_after = stops_after
        self._is_over = False

    def last(self, log: str) -> int:
        return self._alive().last(log)

    def read(self, log: str, after: int, limit: int) -> list[Fact]:
        return self._alive().read(log, after, limit)

    def get(self, log: str, kind: str, key: str) -> bytes | None:
        return self._alive().get(log, kind, key)

    def get_each(self, logs: Sequence[str], kind: str, key: str) -> list[bytes | None]:
        return self._alive().get_each(logs, kind, key)

    def rows(self, log: str, kind: str, after: str, limit: int) -> list[Row]:
        return self._alive().rows(log, kind, after, limit)

    def kinds(self, log: str) -> list[str]:
        return self._alive().kinds(log)

    def logs(self, prefix: str, after: str, limit: int) -> list[str]:
        return self._alive().logs(prefix, after, limit)

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        return self._alive().due(now_ms, limit)

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        heads = self._writer().commit(*writes, id=id)
        self.writes_done += bool(writes)
        return heads

    def applied(self, id: bytes) -> list[int] | None:
        return self._alive().applied(id)

    def confirm(self, log: str) -> None:
        self._alive().confirm(log)

    def trim(self, log: str, before: int) -> None:
        self._writer().trim(log, before)
        self.writes_done += 1

    def drop(self, log: str, expect: int) -> None:
        self._writer().drop(log, expect)
        self.writes_done += 1

    def locked_by(self) -> bytes:
        return self._alive().locked_by()

    def swap_lock(self, old: bytes, new: bytes) -> bool:
        is_swapped = self._writer().swap_lock(old, new)
        self.writes_done += 1
        return is_swapped

    def tally(self, name: str) -> dict[str, int]:
        return self._alive().tally(name)

    def tallies(self) -> Iterator[str]:
        return self._alive().tallies()

    def listen(self, callback: Callable[[str | None], None]) -> Callable[[], None]:
        return self._alive().listen(callback)

    def failover_deadline(self) -> AbstractContextManager[None]:
        return self._alive().failover_deadline()

    def contention_lock(self) -> AbstractContextManager[None]:
        return self._alive().contention_lock()

    def snapshot(self) -> AbstractContextManager[Reads]:
        return self._alive().snapshot()

    def check(self) -> list[str]:
        return self._alive().check()

    def close(self) -> None:
        """Leave the inner ledger open: what survived is read through it."""

    def _alive(self) -> Ledger:
        if self._is_over:
            raise Stopped(f"stopped after {self.writes_done} writes")
        return self._inner

    def _writer(self) -> Ledger:
        self._is_over = self._is_over or self.writes_done >= self._stops_after
        return self._alive()
