"""Reads of the PostgreSQL engine, for the live ledger and a snapshot: one statement each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from contextrelay.store.ledger import Fact, Row

LAST = "SELECT head FROM {store}.log WHERE name = %b"
READ = """SELECT seq, body FROM {store}.fact WHERE log = %b AND seq > %b::bigint
          ORDER BY seq LIMIT %b::bigint"""
GET = "SELECT body FROM {store}.item WHERE log = %b AND kind = %b AND key = %b"
GET_EACH = "SELECT log, body FROM {store}.item WHERE log = ANY(%b) AND kind = %b AND key = %b"
ROWS = """SELECT key, body, due_ms FROM {store}.item WHERE log = %b AND kind = %b AND key > %b
          ORDER BY key LIMIT %b::bigint"""
# Seek from one kind to the next, so that the time does not depend on the number of rows.
KINDS = """WITH RECURSIVE found (kind) AS (
               (SELECT kind FROM {store}.item WHERE log = %b ORDER BY kind LIMIT 1)
               UNION ALL SELECT (SELECT kind FROM {store}.item
                                 WHERE log = %b AND kind > found.kind ORDER BY kind LIMIT 1)
               FROM found WHERE found.kind IS NOT NULL)
           SELECT kind FROM found WHERE kind IS NOT NULL"""
LOGS = "SELECT name FROM {store}.log WHERE name >= %b AND name > %b ORDER BY name LIMIT %b::bigint"
DUE = """SELECT log, kind, key, body, due_ms FROM {store}.item WHERE due_ms <= %b::bigint
         ORDER BY due_ms LIMIT %b::bigint"""


class PostgresReads:
    """The read operations, over any function that sends statements."""

    def __init__(self, ask: Callable[..., list[Any]]) -> None:
        self._ask = ask

    def last(self, log: str) -> int:
        found = self._ask(LAST, (log,))
        return found[0][0] if found else 0

    def read(self, log: str, after: int, limit: int) -> list[Fact]:
        return [Fact(seq, body) for seq, body in self._ask(READ, (log, after, limit))]

    def get(self, log: str, kind: str, key: str) -> bytes | None:
        found = self._ask(GET, (log, kind, key.encode()))
        return found[0][0] if found else None

    def get_each(self, logs: Sequence[str], kind: str, key: str) -> list[bytes | None]:
        found = dict(self._ask(GET_EACH, (list(logs), kind, key.encode())))
        return [found.get(log) for log in logs]

    def rows(self, log: str, kind: str, after: str, limit: int) -> list[Row]:
        found = self._ask(ROWS, (log, kind, after.encode(), limit))
        return [Row(kind, key.decode(), body, due_ms) for key, body, due_ms in found]

    def kinds(self, log: str) -> list[str]:
        return [kind for (kind,) in self._ask(KINDS, (log, log))]

    def logs(self, prefix: str, after: str, limit: int) -> list[str]:
        found = [name for (name,) in self._ask(LOGS, (prefix, after, limit))]
        return [name for name in found if name.startswith(prefix)]

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        found = self._ask(DUE, (now_ms, limit))
        return [
            (log, Row(kind, key.decode(), body, due_ms)) for log, kind, key, body, due_ms in found
        ]
