"""Writes of the SQLite engine: gathered per transaction, and done in few statements.

After every statement other threads may run, and the next statement waits for them. With one
statement per row, a large commit would wait a hundred times.

Rule: a commit is refused before any of it is gathered, so that the others of its group remain
valid. A read of the database that has to see gathered writes calls `flush` first.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from typing import Any

from contextrelay.store.ledger import (
    LOCK_KIND,
    LOCK_LOG,
    ONLY,
    UNLOCKED,
    Write,
    check_totals,
    heads_after,
)
from contextrelay.store.ledger.sqlite_reads import GET, IS_INTEGER

# Each of these statements takes several entries at once.
APPEND = "INSERT INTO fact (log, seq, body) VALUES {}"
PUT = "INSERT OR REPLACE INTO row (log, kind, key, body, due_ms) VALUES {}"
ADD = """INSERT INTO tally (name, field, amount) VALUES {}
         ON CONFLICT DO UPDATE SET amount = amount + excluded.amount"""
TOTAL = "SELECT amount FROM tally WHERE name = ? AND field = ?"
DELETE = "DELETE FROM row WHERE log = ? AND kind = ? AND key = ?"
# Return the heads of those logs that have one; each is found by a seek, however long the log is.
HEADS = f"""WITH asked (log) AS (VALUES {{}})
            SELECT log, coalesce((SELECT max(seq) FROM fact
                                  WHERE fact.log = asked.log AND {IS_INTEGER}),
                                 (SELECT seq FROM trimmed WHERE trimmed.log = asked.log)) AS head
            FROM asked WHERE head IS NOT NULL"""

# The numbers of entries per statement. They are few, because each number is one more statement to
# prepare and cache.
_ENTRIES_MAX = 64
STATEMENTS_KEPT = 4 * _ENTRIES_MAX


class Transaction:
    """A write transaction and the heads of logs that were read in it."""

    __slots__ = (
        "_adds",
        "_facts",
        "_rows",
        "connection",
        "heads",
        "is_applied",
        "known_lock",
        "news",
    )

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.heads: dict[str, int] = {}
        self.news: dict[str, None] = {}
        self.known_lock: bytes | None = None
        self.is_applied = False
        self._facts: list[tuple[str, int, bytes]] = []
        self._rows: dict[tuple[str, str, str], tuple[bytes, int | None] | None] = {}
        self._adds: Counter[tuple[str, str]] = Counter()

    def locked_by(self) -> bytes:
        """Return the token of the ledger's lock, read once per transaction."""
        token = self.known_lock
        if token is None:
            found = self.connection.execute(GET, (LOCK_LOG, LOCK_KIND, ONLY)).fetchone()
            token = self.known_lock = found[0] if found else UNLOCKED
        return token

    def head(self, log: str) -> int:
        if log not in self.heads:
            self._learn_heads((log,))
        return self.heads[log]

    def write_each(self, writes: Sequence[Write]) -> list[int]:
        """Do writes in order and return the head of each write's log.

        Raises:
            Stale: a condition of a write does not hold; none of the writes is done.
        """
        self._learn_heads(dict.fromkeys(write.log for write in writes))
        heads = heads_after(writes, self.heads)
        check_totals(writes, self.heads, self._total)
        for write, head in zip(writes, heads, strict=True):
            self._write(write, head)
        return heads

    def _write(self, write: Write, head: int) -> None:
        log = write.log
        first = head - len(write.facts) + 1
        self._facts += [(log, seq, body) for seq, body in enumerate(write.facts, first)]
        for row in write.rows:
            value = None if row.body is None else (row.body, row.due_ms)
            self._rows[log, row.kind, row.key] = value
        if write.facts:
            self.heads[log] = head
            self.news[log] = None
        for field, amount in write.adds:
            self._adds[log, field] += amount

    def _total(self, name: str, field: str) -> int:
        found = self.connection.execute(TOTAL, (name, field)).fetchone()
        return (found[0] if found else 0) + self._adds[name, field]

    def _learn_heads(self, logs: Iterable[str]) -> None:
        unknown = [(log,) for log in logs if log not in self.heads]
        for sql, values in _statements(HEADS, unknown):
            self.heads.update(dict.fromkeys(values, 0))
            self.heads.update(self.connection.execute(sql, values))

    def flush(self) -> None:
        """Send the gathered writes to the database."""
        execute = self.connection.execute
        for sql, values in _statements(APPEND, self._facts):
            execute(sql, values)
        kept: list[tuple[str, str, str, bytes, int | None]] = []
        for place, value in self._rows.items():
            if value is None:
                execute(DELETE, place)
            else:
                kept.append((*place, *value))
        for sql, values in _statements(PUT, kept):
            execute(sql, values)
        adds = [(*place, amount) for place, amount in self._adds.items()]
        for sql, values in _statements(ADD, adds):
            execute(sql, values)
        self._facts.clear()
        self._rows.clear()
        self._adds.clear()


def _statements(
    template: str, entries: Sequence[tuple[Any, ...]]
) -> Generator[tuple[str, tuple[Any, ...]]]:
    """Yield the statements that write all entries, each with its values."""
    for start in range(0, len(entries), _ENTRIES_MAX):
        some = entries[start : start + _ENTRIES_MAX]
        yield _spelled(template, len(some[0]), len(some)), tuple(chain.from_iterable(some))


@cache
def _spelled(template: str, width: int, size: int) -> str:
    entry = f"({', '.join('?' * width)})"
    return template.format(", ".join([entry] * size))


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[Transaction]:
    """Yield a transaction that is committed after the block, or rolled back."""
    begun = Transaction(connection)
    is_ending = False
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield begun
        begun.flush()
        is_ending = True
        connection.execute("COMMIT")
        begun.is_applied = True
    except BaseException as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        else:
            # Ctrl-C during COMMIT is raised after it.
            begun.is_applied = is_ending and not isinstance(error, sqlite3.Error)
        raise
