"""Reads and errors of the SQLite engine, shared by the live ledger and a snapshot."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.json import encode

from contextrelay.errors import RelayError
from contextrelay.store import file_errors
from contextrelay.store.ledger import Fact, Row

LAST = """SELECT coalesce((SELECT max(seq) FROM fact WHERE log = ?1),
                          (SELECT seq FROM trimmed WHERE log = ?1), 0)"""
READ = "SELECT seq, body FROM fact WHERE log = ? AND seq > ? ORDER BY seq LIMIT ?"
GET = "SELECT body FROM row WHERE log = ? AND kind = ? AND key = ?"
GET_EACH = """SELECT log, body FROM row
              WHERE log IN (SELECT value FROM json_each(?)) AND kind = ? AND key = ?"""
ROWS = """SELECT key, body, due_ms FROM row
          WHERE log = ? AND kind = ? AND key > ? ORDER BY key LIMIT ?"""
# Seek from one kind to the next, so that the time does not depend on the number of rows.
NEXT_KIND = "SELECT min(kind) FROM row WHERE log = ? AND kind > ?"
NEXT_LOG = """SELECT min(log) FROM (SELECT min(log) AS log FROM fact WHERE log >= ?1
                                    UNION ALL SELECT min(log) FROM row WHERE log >= ?1
                                    UNION ALL SELECT min(log) FROM trimmed WHERE log >= ?1)"""
DUE = "SELECT log, kind, key, body, due_ms FROM row WHERE due_ms <= ? ORDER BY due_ms LIMIT ?"

# Python cannot decode every error text of SQLite: a text that quotes a damaged schema may not be
# UTF-8.
FOREIGN = (sqlite3.Error, UnicodeDecodeError)


class SqliteReads:
    """The read operations, over any connection that `_ask` finds."""

    def _ask(self, sql: str, values: tuple[object, ...]) -> list[Any]:
        raise NotImplementedError

    def last(self, log: str) -> int:
        return self._ask(LAST, (log,))[0][0]

    def read(self, log: str, after: int, limit: int) -> list[Fact]:
        return [Fact(seq, body) for seq, body in self._ask(READ, (log, after, limit))]

    def get(self, log: str, kind: str, key: str) -> bytes | None:
        found = self._ask(GET, (log, kind, key))
        return found[0][0] if found else None

    def get_each(self, logs: Sequence[str], kind: str, key: str) -> list[bytes | None]:
        found = dict(self._ask(GET_EACH, (encode(logs).decode(), kind, key)))
        return [found.get(log) for log in logs]

    def rows(self, log: str, kind: str, after: str, limit: int) -> list[Row]:
        found = self._ask(ROWS, (log, kind, after, limit))
        return [Row(kind, key, body, due_ms) for key, body, due_ms in found]

    def confirm(self, log: str) -> None:
        """Do nothing, because facts that can be read are durable."""

    def kinds(self, log: str) -> list[str]:
        kinds: list[str] = []
        while (kind := self._ask(NEXT_KIND, (log, kinds[-1] if kinds else ""))[0][0]) is not None:
            kinds.append(kind)
        return kinds

    def logs(self, prefix: str, after: str, limit: int) -> list[str]:
        names: list[str] = []
        # The first text after `after` in byte order is `after` with a NUL appended.
        start = prefix if after < prefix else after + "\0"
        while len(names) < limit:
            name: str | None = self._ask(NEXT_LOG, (start,))[0][0]
            if name is None or not name.startswith(prefix):
                break
            names.append(name)
            start = name + "\0"
        return names

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        found = self._ask(DUE, (now_ms, limit))
        return [(log, Row(kind, key, body, due_ms)) for log, kind, key, body, due_ms in found]


class SqliteSnapshot(SqliteReads):
    """A snapshot of the ledger: a read transaction on its own connection."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def _ask(self, sql: str, values: tuple[object, ...]) -> list[Any]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except FOREIGN as error:
            raise translate(error, self._path) from error


# Foreign errors


def translate(error: Exception, path: Path) -> RelayError:
    """Convert an error of SQLite to a Context Relay error with the path of the file and the next
    step.
    """
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:  # There is no room for SQLite's shared memory file.
        return file_errors.no_room(path, error)
    # The primary code is the low byte of an extended code of SQLite.
    return _BY_CODE.get(code & 0xFF, file_errors.damaged)(path, error)


_BY_CODE = {
    sqlite3.SQLITE_FULL: file_errors.no_room,
    sqlite3.SQLITE_READONLY: file_errors.read_only,
    sqlite3.SQLITE_PERM: file_errors.read_only,
    sqlite3.SQLITE_CANTOPEN: file_errors.cannot_open,
    sqlite3.SQLITE_IOERR: file_errors.cannot_open,
    sqlite3.SQLITE_BUSY: file_errors.busy,
    sqlite3.SQLITE_LOCKED: file_errors.busy,
}
