"""Ledgers that delegate to another ledger; a view overrides the methods that it changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from contextrelay.errors import Unavailable
from contextrelay.store.ledger import Fact, Ledger, Reads, Row, Write


class ReadsView:
    """Delegates every read to the wrapped ledger."""

    def __init__(self, inner: Reads) -> None:
        self._reads = inner

    def last(self, log: str) -> int:
        return self._reads.last(log)

    def read(self, log: str, after: int, limit: int) -> list[Fact]:
        return self._reads.read(log, after, limit)

    def get(self, log: str, kind: str, key: str) -> bytes | None:
        return self._reads.get(log, kind, key)

    def get_each(self, logs: Sequence[str], kind: str, key: str) -> list[bytes | None]:
        return self._reads.get_each(logs, kind, key)

    def rows(self, log: str, kind: str, after: str, limit: int) -> list[Row]:
        return self._reads.rows(log, kind, after, limit)

    def kinds(self, log: str) -> list[str]:
        return self._reads.kinds(log)

    def logs(self, prefix: str, after: str, limit: int) -> list[str]:
        return self._reads.logs(prefix, after, limit)

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        return self._reads.due(now_ms, limit)


class LedgerView(ReadsView):
    """Delegates every method to the wrapped ledger."""

    def __init__(self, inner: Ledger) -> None:
        super().__init__(inner)
        self._inner = inner
        self.reads_wait = inner.reads_wait
        self.may_lose = inner.may_lose
        self.failover_deadline = inner.failover_deadline

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        return self._inner.commit(*writes, id=id)

    def applied(self, id: bytes) -> list[int] | None:
        return self._inner.applied(id)

    def confirm(self, log: str) -> None:
        self._inner.confirm(log)

    def trim(self, log: str, before: int) -> None:
        self._inner.trim(log, before)

    def drop(self, log: str, expect: int) -> None:
        self._inner.drop(log, expect)

    def locked_by(self) -> bytes:
        return self._inner.locked_by()

    def swap_lock(self, old: bytes, new: bytes) -> bool:
        return self._inner.swap_lock(old, new)

    def tally(self, name: str) -> dict[str, int]:
        return self._inner.tally(name)

    def tallies(self) -> Iterator[str]:
        return self._inner.tallies()

    def listen(self, callback: Callable[[str | None], None]) -> Callable[[], None]:
        return self._inner.listen(callback)

    def contention_lock(self) -> AbstractContextManager[None]:
        return self._inner.contention_lock()

    def snapshot(self) -> AbstractContextManager[Reads]:
        return self._inner.snapshot()

    def check(self) -> list[str]:
        return self._inner.check()

    def close(self) -> None:
        self._inner.close()


class SettledLedger(LedgerView):
    """A ledger whose commits have a known outcome: after a lost reply, it asks the engine."""

    @property
    def inner(self) -> Ledger:
        return self._inner

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        id = id or os.urandom(16)
        try:
            return self._inner.commit(*writes, id=id)
        except Unavailable:
            try:
                heads = self._inner.applied(id)
            except Unavailable as error:
                error.may_be_done = True
                raise
            if heads is None:
                raise
            return heads
