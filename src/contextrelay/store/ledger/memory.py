"""The ledger in memory: dictionaries, sorted lists and one lock. It is lost when the process ends.

Rule: a snapshot is a shallow copy. A log is copied only when it is first written after a snapshot
was taken (`born` tells), so that a snapshot is cheap and blocks no writer.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import RLock

from contextrelay.store.file_errors import locked
from contextrelay.store.ledger import (
    UNLOCKED,
    Fact,
    Reads,
    RecentCommits,
    Row,
    Stale,
    Write,
    check_totals,
    current_token,
    heads_after,
)


class _MemoryReads:
    """The read operations, which run one at a time."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._tables = _Tables({}, [], [])

    def last(self, log: str) -> int:
        with self._lock:
            return self._tables.last(log)

    def read(self, log: str, after: int, limit: int) -> list[Fact]:
        with self._lock:
            return self._tables.read(log, after, limit)

    def get(self, log: str, kind: str, key: str) -> bytes | None:
        with self._lock:
            return self._tables.get(log, kind, key)

    def get_each(self, logs: Sequence[str], kind: str, key: str) -> list[bytes | None]:
        with self._lock:
            return self._tables.get_each(logs, kind, key)

    def rows(self, log: str, kind: str, after: str, limit: int) -> list[Row]:
        with self._lock:
            return self._tables.rows(log, kind, after, limit)

    def kinds(self, log: str) -> list[str]:
        with self._lock:
            return self._tables.kinds(log)

    def logs(self, prefix: str, after: str, limit: int) -> list[str]:
        with self._lock:
            return self._tables.logs(prefix, after, limit)

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        with self._lock:
            return self._tables.due(now_ms, limit)


class MemoryLedger(_MemoryReads):
    """Logs and rows as Python values, for tests and temporary stores."""

    reads_wait = False
    may_lose = False
    failover_deadline = nullcontext

    def __init__(self) -> None:
        super().__init__()
        self._views_taken = 0
        self._locked_by = UNLOCKED
        self._commits = RecentCommits()
        self._tallies: dict[str, dict[str, int]] = {}
        self._listeners: dict[object, Callable[[str | None], None]] = {}

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        with self._lock:
            if id and (applied := self._commits.find(id)) is not None:
                return applied
            self._refuse_locked()
            before = {each.log: self._tables.last(each.log) for each in writes}
            heads = heads_after(writes, before)
            check_totals(
                writes, before, lambda name, field: self._tallies.get(name, {}).get(field, 0)
            )
            for write in writes:
                self._write(write)
            if id:
                self._commits.keep(id, heads, time.monotonic())
        self._announce({write.log: None for write in writes if write.facts})
        return heads

    def applied(self, id: bytes) -> list[int] | None:
        with self._lock:
            return self._commits.settle(id, time.monotonic())

    def confirm(self, log: str) -> None:
        """Do nothing, because facts that can be read are durable."""

    def trim(self, log: str, before: int) -> None:
        with self._lock:
            self._refuse_locked()
            self._open(log).trim(before)
            self._shut(log)

    def drop(self, log: str, expect: int) -> None:
        with self._lock:
            self._refuse_locked()
            head = self._tables.last(log)
            if head != expect:
                raise Stale(log, head)
            entry = self._tables.by_name.get(log)
            if entry is None:
                return
            for row in entry.all_rows():
                self._forget_due(log, row)
            self._forget_log(log)

    def locked_by(self) -> bytes:
        return self._locked_by

    def swap_lock(self, old: bytes, new: bytes) -> bool:
        with self._lock:
            is_same = self._locked_by == old
            self._locked_by = new if is_same else self._locked_by
            return is_same

    def _refuse_locked(self) -> None:
        if self._locked_by != current_token():
            raise locked()

    def tally(self, name: str) -> dict[str, int]:
        with self._lock:
            return dict(self._tallies.get(name, {}))

    def tallies(self) -> Iterator[str]:
        with self._lock:
            return iter(list(self._tallies))

    def listen(self, callback: Callable[[str | None], None]) -> Callable[[], None]:
        token = object()
        with self._lock:
            self._listeners[token] = callback

        def stop() -> None:
            with self._lock:
                self._listeners.pop(token, None)

        return stop

    @contextmanager
    def snapshot(self) -> Generator[Reads]:
        with self._lock:
            self._views_taken += 1
            view = self._tables.copy()
        yield view

    def contention_lock(self) -> AbstractContextManager[None]:
        return nullcontext()

    def check(self) -> list[str]:
        return []

    def close(self) -> None:
        with self._lock:
            self._listeners.clear()

    def _write(self, write: Write) -> None:
        entry = self._open(write.log)
        entry.append(write.facts)
        for row in write.rows:
            old = entry.put(row)
            if old is not None:
                self._forget_due(write.log, old)
            if row.body is not None and row.due_ms is not None:
                insort(self._tables.by_due, (row.due_ms, write.log, row.kind, row.key))
        self._shut(write.log)
        for field, amount in write.adds:
            totals = self._tallies.setdefault(write.log, {})
            totals[field] = totals.get(field, 0) + amount

    def _open(self, log: str) -> _Log:
        """Return a log for writing: a new log, or a copy if a snapshot uses the existing one."""
        entry = self._tables.by_name.get(log)
        if entry is None:
            entry = _Log(self._views_taken)
            self._tables.by_name[log] = entry
            insort(self._tables.names, log)
        elif entry.born != self._views_taken:
            entry = entry.copy(self._views_taken)
            self._tables.by_name[log] = entry
        return entry

    def _shut(self, log: str) -> None:
        """Delete a log if it is empty."""
        entry = self._tables.by_name[log]
        if entry.head == 0 and not entry.kinds:
            self._forget_log(log)

    def _forget_log(self, log: str) -> None:
        del self._tables.by_name[log]
        del self._tables.names[bisect_left(self._tables.names, log)]

    def _forget_due(self, log: str, row: Row) -> None:
        if row.due_ms is not None:
            place = (row.due_ms, log, row.kind, row.key)
            del self._tables.by_due[bisect_left(self._tables.by_due, place)]

    def _announce(self, logs: Mapping[str, None]) -> None:
        # Call listeners outside the lock, because a listener may read, or wait for another thread
        # that does.
        with self._lock:
            listeners = list(self._listeners.values())
        for log in logs:
            for callback in listeners:
                callback(log)


class _Log:
    """A log: facts numbered from `trimmed` + 1, and rows with their sorted keys, by kind."""

    __slots__ = ("born", "facts", "keys", "kinds", "trimmed")

    def __init__(self, born: int) -> None:
        self.born = born
        self.trimmed = 0
        self.facts: list[Fact] = []
        self.kinds: dict[str, dict[str, Row]] = {}
        self.keys: dict[str, list[str]] = {}

    @property
    def head(self) -> int:
        return self.trimmed + len(self.facts)

    def copy(self, born: int) -> _Log:
        other = _Log(born)
        other.trimmed = self.trimmed
        other.facts = self.facts.copy()
        other.kinds = {kind: rows.copy() for kind, rows in self.kinds.items()}
        other.keys = {kind: keys.copy() for kind, keys in self.keys.items()}
        return other

    def append(self, bodies: tuple[bytes, ...]) -> None:
        self.facts += [Fact(seq, body) for seq, body in enumerate(bodies, self.head + 1)]

    def trim(self, before: int) -> None:
        cut = before - 1 - self.trimmed
        if cut > 0:
            del self.facts[:cut]
            self.trimmed = before - 1

    def put(self, row: Row) -> Row | None:
        """Set or delete a row; return the previous one."""
        rows = self.kinds.get(row.kind)
        old = rows.get(row.key) if rows is not None else None
        if row.body is None:
            if rows is not None and old is not None:
                self._remove(rows, row)
            return old
        if rows is None:
            rows = self.kinds[row.kind] = {}
            self.keys[row.kind] = []
        if old is None:
            insort(self.keys[row.kind], row.key)
        rows[row.key] = row
        return old

    def all_rows(self) -> Iterator[Row]:
        for rows in self.kinds.values():
            yield from rows.values()

    def _remove(self, rows: dict[str, Row], row: Row) -> None:
        keys = self.keys[row.kind]
        del rows[row.key]
        del keys[bisect_left(keys, row.key)]
        if not rows:
            del self.kinds[row.kind], self.keys[row.kind]


class _Tables:
    """All logs, their names in order, and the due list in order; the read part of the ledger.

    Python orders text by code point, which is the order of its UTF-8 bytes.
    """

    __slots__ = ("by_due", "by_name", "names")

    def __init__(
        self, by_name: dict[str, _Log], names: list[str], by_due: list[tuple[int, str, str, str]]
    ) -> None:
        self.by_name = by_name
        self.names = names
        self.by_due = by_due

    def copy(self) -> _Tables:
        return _Tables(self.by_name.copy(), self.names.copy(), self.by_due.copy())

    def last(self, log: str) -> int:
        entry = self.by_name.get(log)
        return entry.head if entry else 0

    def read(self, log: str, after: int, limit: int) -> list[Fact]:
        entry = self.by_name.get(log)
        if entry is None or limit <= 0:
            return []
        start = max(0, after - entry.trimmed)
        return entry.facts[start : start + limit]

    def get(self, log: str, kind: str, key: str) -> bytes | None:
        entry = self.by_name.get(log)
        row = entry.kinds.get(kind, {}).get(key) if entry else None
        return row.body if row else None

    def get_each(self, logs: Sequence[str], kind: str, key: str) -> list[bytes | None]:
        return [self.get(log, kind, key) for log in logs]

    def rows(self, log: str, kind: str, after: str, limit: int) -> list[Row]:
        entry = self.by_name.get(log)
        if entry is None or kind not in entry.kinds or limit <= 0:
            return []
        keys = entry.keys[kind]
        start = bisect_right(keys, after)
        return [entry.kinds[kind][key] for key in keys[start : start + limit]]

    def kinds(self, log: str) -> list[str]:
        entry = self.by_name.get(log)
        return sorted(entry.kinds) if entry else []

    def logs(self, prefix: str, after: str, limit: int) -> list[str]:
        start = max(bisect_left(self.names, prefix), bisect_right(self.names, after))
        found: list[str] = []
        for name in self.names[start : start + max(limit, 0)]:
            if not name.startswith(prefix):
                break
            found.append(name)
        return found

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        stop = bisect_left(self.by_due, (now_ms + 1,))
        return [
            (log, self.by_name[log].kinds[kind][key])
            for _, log, kind, key in self.by_due[: min(stop, max(limit, 0))]
        ]
