"""News of the SQLite engine: which logs got facts, for other processes that listen.

Rule: news is written in the transaction that it is about, one entry for all of it, so it is never
missing, and costs little. Only the newest is kept: who looks too late hears "some log".
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from contextrelay.limits import KIB

# The logs of one transaction that got facts, and who wrote them.
ADD = "INSERT INTO news (writer, logs) VALUES (?, ?)"
FORGET = "DELETE FROM news WHERE id <= ?"
LAST = "SELECT coalesce(max(id), 0) FROM news"
SINCE = "SELECT id, writer, logs FROM news WHERE id > ? ORDER BY id"

KEPT = 500
CHARS_MAX = 64 * KIB
SOME_LOG = ""
"""Stands for more logs than an entry may name. No log has an empty name."""

Ask = Callable[[str, tuple[object, ...]], list[Any]]


def new_writer() -> int:
    """A name by which a ledger knows its own news; chance enough for those open at a time."""
    return int.from_bytes(os.urandom(6))


def add(connection: sqlite3.Connection, writer: int, logs: Iterable[str]) -> None:
    """Leave word of logs, in the transaction that wrote to them."""
    # No name of a log that every engine can have holds a NUL.
    names = "\0".join(logs)
    names = names if len(names) <= CHARS_MAX else SOME_LOG
    added = connection.execute(ADD, (writer, names)).lastrowid
    if added is not None and added % KEPT == 0:
        connection.execute(FORGET, (added - KEPT,))


class News:
    """What others write from now on, each entry once."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._seen: int = ask(LAST, ())[0][0]

    def logs(self, writer: int) -> list[str | None]:
        """The logs others than a writer wrote to since the last look, in order; None: some log."""
        found = self._ask(SINCE, (self._seen,))
        if not found:
            return []
        is_whole = found[0][0] == self._seen + 1
        self._seen = found[-1][0]
        if not is_whole:
            return [None]
        others = (log for _, by, logs in found if by != writer for log in logs.split("\0"))
        return [log or None for log in dict.fromkeys(others)]
