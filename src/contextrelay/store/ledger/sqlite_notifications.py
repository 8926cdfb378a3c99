"""Notifications of the SQLite engine: tell other processes which logs got new facts.

Rule: a notification is written in the transaction that it is about, as one entry for the whole
transaction. So it is never missing, and cheap. Only the newest entries are kept: a process that
reads too late gets "some log".
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from contextrelay.limits import KIB

# An entry contains the logs that got facts in one transaction, and the writer of the transaction.
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
    """Return a random id by which a ledger recognizes its own notifications."""
    return int.from_bytes(os.urandom(6))


def add(connection: sqlite3.Connection, writer: int, logs: Iterable[str]) -> None:
    """Add a notification about logs, in the transaction that wrote to them."""
    # NUL separates the names, because no log name that all engines support contains a NUL.
    names = "\0".join(logs)
    names = names if len(names) <= CHARS_MAX else SOME_LOG
    added = connection.execute(ADD, (writer, names)).lastrowid
    if added is not None and added % KEPT == 0:
        connection.execute(FORGET, (added - KEPT,))


class NotificationReader:
    """Reads the notifications of other writers that are written from now on, each once."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._seen: int = ask(LAST, ())[0][0]

    def logs(self, writer: int) -> list[str | None]:
        """Return the logs that others have written to since the last call; None for some log."""
        found = self._ask(SINCE, (self._seen,))
        if not found:
            return []
        is_whole = found[0][0] == self._seen + 1
        self._seen = found[-1][0]
        if not is_whole:
            return [None]
        others = (log for _, by, logs in found if by != writer for log in logs.split("\0"))
        return [log or None for log in dict.fromkeys(others)]
