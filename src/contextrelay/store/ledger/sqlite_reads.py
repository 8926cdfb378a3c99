"""Reads and errors of the SQLite engine, shared by the live ledger and a snapshot."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.json import encode

from contextrelay.errors import RelayError
from contextrelay.store import file_errors
from contextrelay.store.ledger import Fact, Row

# SQLite stores the type with each value, so a changed bit can turn a body into text or a number.
# Its reader gets bytes instead that are neither UTF-8 nor JSON, and reports the damage. In SQLite's
# order every number and text is less than the empty blob; asking for the type takes longer.
BODY = "CASE WHEN body >= x'' THEN body ELSE x'FF00' END"
# Every text and blob is greater than this number.
IS_INTEGER = "seq <= 9223372036854775807"
LAST = f"""SELECT coalesce((SELECT max(seq) FROM fact WHERE log = ?1 AND {IS_INTEGER}),
                           (SELECT seq FROM trimmed WHERE log = ?1), 0)"""
READ = f"""SELECT seq, {BODY} FROM fact
           WHERE log = ? AND seq > ? AND {IS_INTEGER} ORDER BY seq LIMIT ?"""
GET = f"SELECT {BODY} FROM row WHERE log = ? AND kind = ? AND key = ?"
GET_EACH = f"""SELECT log, {BODY} FROM row
               WHERE log IN (SELECT value FROM json_each(?)) AND kind = ? AND key = ?"""
# Names are read as bytes where several are: one that is not UTF-8 would end the whole read.
ROWS = f"""SELECT CAST(key AS BLOB), {BODY}, due_ms FROM row
           WHERE log = ? AND kind = ? AND key > CAST(? AS TEXT) ORDER BY key LIMIT ?"""
# Seek from one kind to the next, so that the time does not depend on the number of rows.
NEXT_KIND = "SELECT CAST(min(kind) AS BLOB) FROM row WHERE log = ? AND kind > CAST(? AS TEXT)"
NEXT_LOG = """SELECT CAST(min(log) AS BLOB) FROM (
                  SELECT min(log) AS log FROM fact WHERE log >= CAST(?1 AS TEXT)
                  UNION ALL SELECT min(log) FROM row WHERE log >= CAST(?1 AS TEXT)
                  UNION ALL SELECT min(log) FROM trimmed WHERE log >= CAST(?1 AS TEXT))"""
DUE = f"""SELECT CAST(log AS BLOB), CAST(kind AS BLOB), CAST(key AS BLOB), {BODY}, due_ms FROM row
          WHERE due_ms <= ? ORDER BY due_ms LIMIT ?"""
# Records whose values have another type than the schema says, or whose names are not ASCII and so
# may not be UTF-8.
DOUBTFUL = """SELECT CAST(log AS BLOB), CAST(seq AS BLOB),
                     typeof(log) = 'text' AND typeof(seq) = 'integer' AND typeof(body) = 'blob'
              FROM fact
              WHERE typeof(log) <> 'text' OR typeof(seq) <> 'integer' OR typeof(body) <> 'blob'
                    OR log GLOB '*[^ -~]*'
              UNION ALL
              SELECT CAST(log AS BLOB), CAST(kind || ' ' || key AS BLOB),
                     typeof(log) = 'text' AND typeof(kind) = 'text' AND typeof(key) = 'text'
                     AND typeof(body) = 'blob' AND typeof(due_ms) IN ('integer', 'null')
              FROM row
              WHERE typeof(log) <> 'text' OR typeof(kind) <> 'text' OR typeof(key) <> 'text'
                    OR typeof(body) <> 'blob' OR typeof(due_ms) NOT IN ('integer', 'null')
                    OR log || kind || key GLOB '*[^ -~]*'"""

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
        rows: list[Row] = []
        start = after.encode()
        while left := limit - len(rows):
            found = self._ask(ROWS, (log, kind, start, left))
            for start, body, due_ms in found:
                with suppress(UnicodeDecodeError):  # `check` reports it.
                    rows.append(Row(kind, start.decode(), body, due_ms))
            if len(found) < left:
                break
        return rows

    def confirm(self, log: str) -> None:
        """Do nothing, because facts that can be read are durable."""

    def kinds(self, log: str) -> list[str]:
        kinds: list[str] = []
        start = b""
        # A kind that is not text comes after all others, and would be found again and again.
        while (kind := self._ask(NEXT_KIND, (log, start))[0][0]) is not None and kind > start:
            with suppress(UnicodeDecodeError):  # `check` reports it.
                kinds.append(kind.decode())
            start = kind
        return kinds

    def logs(self, prefix: str, after: str, limit: int) -> list[str]:
        names: list[str] = []
        # The first text after `after` in byte order is `after` with a NUL appended.
        start = (prefix if after < prefix else after + "\0").encode()
        while len(names) < limit:
            name: bytes | None = self._ask(NEXT_LOG, (start,))[0][0]
            # A name that is not text comes after all others, and would be found again and again.
            if name is None or name < start or not name.startswith(prefix.encode()):
                break
            with suppress(UnicodeDecodeError):  # `check` reports it.
                names.append(name.decode())
            start = name + b"\0"
        return names

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        due: list[tuple[str, Row]] = []
        for log, kind, key, body, due_ms in self._ask(DUE, (now_ms, limit)):
            with suppress(UnicodeDecodeError):  # `check` reports it.
                row = Row(kind.decode(), key.decode(), body, due_ms)
                due.append((log.decode(), row))
        return due


def damaged_records(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield a line about each record that the engine could not have written."""
    for log, name, is_typed in connection.execute(DOUBTFUL):
        try:
            is_text = bool((log + (name or b"")).decode())
        except UnicodeDecodeError:
            is_text = False
        if not is_typed or not is_text:
            where = b"%s %s" % (log, name or b"")
            yield f"the record {where.decode(errors='backslashreplace')} is damaged"


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
    """Convert an error of SQLite, with the path of the file and the next step."""
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
