"""The SQLite engine: one file in WAL mode; every commit is on disk before it is acknowledged.

Rule: readers never wait. Each read takes its own connection from a pool; writes of one process are
grouped (commit_queue.py), and processes take turns (write_lock.py).
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import Any
from weakref import WeakSet

from contextrelay.errors import RelayError, Unavailable
from contextrelay.limits import BUSY_MS_MAX
from contextrelay.store import file_errors
from contextrelay.store.commit_queue import CommitQueue, Ticket, interrupted
from contextrelay.store.durable_files import make_folder
from contextrelay.store.ledger import (
    LOCK_KIND,
    LOCK_LOG,
    ONLY,
    UNLOCKED,
    Reads,
    RecentCommits,
    Row,
    Stale,
    Write,
    current_token,
    sqlite_notifications,
)
from contextrelay.store.ledger.sqlite_read_only import ReadOnlyFile, is_writable
from contextrelay.store.ledger.sqlite_reads import (
    FOREIGN,
    SqliteReads,
    SqliteSnapshot,
    damaged_records,
    translate,
)
from contextrelay.store.ledger.sqlite_schema import (
    SCHEMA_VERSION,
    migrate,
    migrations,
    version_of,
)
from contextrelay.store.ledger.sqlite_writes import STATEMENTS_KEPT, Transaction, transaction
from contextrelay.store.write_lock import ContentionLock, Turns

# The number of pages of 4 KiB after which the write-ahead log is checkpointed. Keys are random, so
# a large number means that a page written several times is copied only once.
CHECKPOINT_PAGES = 4_000
# As many as SQLite's own check reports.
DAMAGED_LISTED_MAX = 100


TRIM = "DELETE FROM fact WHERE log = ? AND seq < ?"
KEEP_HEAD = "INSERT OR REPLACE INTO trimmed (log, seq) VALUES (?, ?)"
DROP = (
    "DELETE FROM fact WHERE log = ?",
    "DELETE FROM row WHERE log = ?",
    "DELETE FROM trimmed WHERE log = ?",
)
TALLIES = "SELECT DISTINCT name FROM tally"
TALLIED = "SELECT field, amount FROM tally WHERE name = ?"

LISTEN_POLL_S = 0.005

Connect = Callable[[Path], sqlite3.Connection]
Change = Callable[[Transaction], Any]


def connect(path: Path) -> sqlite3.Connection:
    """Open one connection with the settings that the engine relies on."""
    connection = sqlite3.connect(
        path,
        timeout=BUSY_MS_MAX / 1000,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS_KEPT,
    )
    try:
        # Use FULL, because with NORMAL a power loss can lose acknowledged commits.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    except BaseException:
        connection.close()
        raise
    return connection


class SqliteLedger(SqliteReads):
    """A ledger in one SQLite file."""

    reads_wait = may_lose = False
    failover_deadline = nullcontext

    def __init__(self, path: Path, connect: Connect = connect) -> None:
        self._path = path
        self._connect = connect
        self._idle: deque[sqlite3.Connection] = deque()
        self._queue = CommitQueue[Change](self._try_group)
        self._listeners: list[Callable[[str | None], None]] = []
        self._poller: threading.Thread | None = None
        self._writer_name = sqlite_notifications.new_writer()
        self._commits = RecentCommits()
        self._is_closed = False
        self._file: ReadOnlyFile | None = None
        """Says how to read the file if it cannot be written; None if it can."""
        self._generation = 0
        if path.exists() and path.stat().st_size and not is_writable(path):
            self._open_read_only()
        else:
            self._open_to_write()
        _ledgers.add(self)

    @property
    def is_read_only(self) -> bool:
        return self._file is not None

    def _open_to_write(self) -> None:
        path = self._path
        try:
            make_folder(path.parent)
            # Create the file here with private permissions, because SQLite gives its other files
            # the same permissions.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._turns: Turns | None = Turns(path.parent)
            self._contention_lock: ContentionLock | None = ContentionLock(path.parent)
        except OSError as error:
            raise file_errors.from_os(error, error.filename or path) from error
        try:
            self._writer = self._open(self._turns)
        except BaseException:
            self._turns.close()
            self._contention_lock.close()
            raise

    def _open_read_only(self) -> None:
        self._turns = self._contention_lock = None
        try:
            self._file = ReadOnlyFile(self._path)
            self._generation = self._file.refresh()
            self._writer = self._new_connection()
            version = version_of(self._writer)
            if version != SCHEMA_VERSION:
                # Upgrade a copy of the file. If its schema is too new, this raises an error.
                self._writer.close()
                # Keep the original open, because the copy exists as long as this object.
                self._original = self._file
                copied = self._original.copy()
                self._writer = self._connect(copied)
                migrate(self._writer, copied, migrations())
                self._file = ReadOnlyFile(copied)
                self._generation = self._file.refresh()
        except FOREIGN as error:
            raise translate(error, self._path) from error
        except OSError as error:
            raise file_errors.from_os(error, error.filename or self._path) from error

    # Reads

    def _ask(self, sql: str, values: tuple[object, ...]) -> list[Any]:
        if self._file is not None:
            self._leave_old_files(self._file)
        generation = self._generation
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._new_connection()
        try:
            return connection.execute(sql, values).fetchall()
        except FOREIGN as error:
            raise translate(error, self._path) from error
        finally:
            if generation == self._generation:
                self._idle.append(connection)
            else:
                connection.close()

    def _leave_old_files(self, file: ReadOnlyFile) -> None:
        """Close idle connections to files that have been replaced."""
        try:
            generation = file.refresh()
        except OSError as error:
            raise file_errors.from_os(error, self._path) from error
        if generation != self._generation:
            self._generation = generation
            while self._idle:
                with suppress(IndexError):
                    self._idle.pop().close()

    @contextmanager
    def snapshot(self) -> Generator[Reads]:
        connection = self._new_connection()
        try:
            connection.execute("BEGIN")
            view = SqliteSnapshot(connection, self._path)
            view.last("")  # The snapshot starts at the first read, not at BEGIN.
            yield view
        finally:
            connection.close()

    def contention_lock(self) -> AbstractContextManager[None]:
        return self._contention_lock or nullcontext()

    def check(self) -> list[str]:
        found = self._ask("PRAGMA integrity_check", ())
        if found != [("ok",)]:
            return [f"the database: {line}" for (line,) in found]
        with closing(self._new_connection()) as connection:
            try:
                return list(islice(damaged_records(connection), DAMAGED_LISTED_MAX))
            except FOREIGN as error:
                raise translate(error, self._path) from error

    # Writes

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        if not writes:
            return []
        if id and (before := self._commits.find(id)) is not None:
            return before
        heads = self._change(lambda transaction: transaction.write_each(writes))
        if id:
            self._commits.keep(id, heads, time.monotonic())
        if self._listeners:
            for log in {write.log for write in writes if write.facts}:
                self._announce(log)
        return heads

    def applied(self, id: bytes) -> list[int] | None:
        return self._commits.settle(id, time.monotonic())

    def trim(self, log: str, before: int) -> None:
        def change(transaction: Transaction) -> None:
            transaction.flush()
            head = transaction.head(log)
            transaction.connection.execute(TRIM, (log, before))
            if before > max(head, 1):
                head = transaction.heads[log] = max(head, before - 1)
                transaction.connection.execute(KEEP_HEAD, (log, head))

        self._change(change)

    def drop(self, log: str, expect: int) -> None:
        def change(transaction: Transaction) -> None:
            transaction.flush()
            if transaction.head(log) != expect:
                raise Stale(log, transaction.head(log))
            for sql in DROP:
                transaction.connection.execute(sql, (log,))
            transaction.heads[log] = 0

        self._change(change)

    def locked_by(self) -> bytes:
        return self.get(LOCK_LOG, LOCK_KIND, ONLY) or UNLOCKED

    def swap_lock(self, old: bytes, new: bytes) -> bool:
        def change(transaction: Transaction) -> bool:
            transaction.flush()
            if transaction.locked_by() != old:
                return False
            transaction.write_each([Write(LOCK_LOG, rows=(Row(LOCK_KIND, ONLY, new or None),))])
            transaction.known_lock = new
            return True

        return self._change(change, any_token=True)

    def tally(self, name: str) -> dict[str, int]:
        return dict(self._ask(TALLIED, (name,)))

    def tallies(self) -> Iterator[str]:
        return (name for (name,) in self._ask(TALLIES, ()))

    def _change(self, change: Change, any_token: bool = False) -> Any:
        if self._file is not None:
            raise file_errors.read_only(self._path, "the disk or its folder is read-only")
        return self._queue.run(change, None if any_token else current_token())

    def _try_group(self, group: list[Ticket[Change]]) -> bool:
        """Do a group's changes in one transaction.

        If that fails, set the error of each member and return False.
        """
        begun: Transaction | None = None
        try:
            assert self._turns is not None, "a read-only store cannot be changed"
            with self._turns, transaction(self._writer) as begun:
                for ticket in group:
                    ticket.error = None
                    # Read the token in the transaction, so that the ledger cannot be locked between
                    # this check and the write.
                    if ticket.token is not None and ticket.token != begun.locked_by():
                        ticket.error = file_errors.locked()
                        continue
                    try:
                        ticket.answer = ticket.change(begun)
                    except Stale as stale:
                        # A change is checked before any of it is gathered, so the other commits
                        # remain valid.
                        ticket.error = stale
                if begun.news:
                    sqlite_notifications.add(begun.connection, self._writer_name, begun.news)
        except BaseException as error:
            if begun is None or not begun.is_applied:
                trouble = error if isinstance(error, Exception) else interrupted()
                trouble = translate(error, self._path) if isinstance(error, FOREIGN) else trouble
                for ticket in group:
                    ticket.error = trouble
            if not isinstance(error, Exception):
                raise
        return begun is not None and begun.is_applied

    # Notifications of other processes

    def listen(self, callback: Callable[[str | None], None]) -> Callable[[], None]:
        self._listeners.append(callback)
        if self._poller is None:
            news = sqlite_notifications.NotificationReader(self._ask)
            self._poller = threading.Thread(
                target=self._poll, args=(news,), name="relay-listen", daemon=True
            )
            self._poller.start()

        def stop() -> None:
            with suppress(ValueError):
                self._listeners.remove(callback)

        return stop

    def _announce(self, log: str | None) -> None:
        for callback in tuple(self._listeners):
            callback(log)

    def _poll(self, news: sqlite_notifications.NotificationReader) -> None:
        """Detect commits of other processes, which change the data version of the writer
        connection.
        """
        seen: int | None = None
        while not self._is_closed:
            version = self._data_version()
            if version is not None and version != seen:
                # Either the store was closed, or other callers report the error.
                with suppress(RelayError):
                    for log in news.logs(self._writer_name):
                        self._announce(log)
                    seen = version
            time.sleep(LISTEN_POLL_S if self._listeners else LISTEN_POLL_S * 20)

    def _data_version(self) -> int | None:
        # If a commit is running, skip this check; the next one follows soon.
        with self._queue.between_commits(wait=False) as is_free, suppress(sqlite3.Error):
            if is_free and not self._is_closed:
                return self._writer.execute("PRAGMA data_version").fetchone()[0]
        return None

    # Opening and closing

    def _new_connection(self) -> sqlite3.Connection:
        if self._is_closed:
            raise Unavailable("the store was closed", "open the relay again", place=self._path)
        try:
            return self._connect(self._path) if self._file is None else self._file.connect()
        except FOREIGN as error:
            raise translate(error, self._path) from error
        except OSError as error:
            raise file_errors.from_os(error, self._path) from error

    def _open(self, turns: Turns) -> sqlite3.Connection:
        writer = self._new_connection()
        try:
            if version_of(writer) != SCHEMA_VERSION:
                with turns:
                    migrate(writer, self._path, migrations())
            # A statement that inserts several rows copies the pages that it changes, to be able to
            # undo itself. A file for that, by default, is created and written in every commit.
            writer.execute("PRAGMA temp_store = MEMORY")
        except FOREIGN as error:
            writer.close()
            raise translate(error, self._path) from error
        except RelayError:
            writer.close()
            raise
        return writer

    def close(self) -> None:
        with self._queue.between_commits():
            if self._is_closed:
                return
            self._is_closed = True
            while self._idle:
                self._idle.pop().close()
            self._writer.close()
            self._close_turns()

    def _close_turns(self) -> None:
        if self._turns is not None and self._contention_lock is not None:
            self._turns.close()
            self._contention_lock.close()

    def reopen_after_fork(self) -> None:
        """Abandon the connections of the parent process and open new ones, because SQLite forbids
        sharing them.
        """
        # Keep these connections forever. Dropping them would close them, which may checkpoint while
        # the parent uses the file.
        _parents_connections.extend((self._writer, *self._idle))
        self._queue = CommitQueue[Change](self._try_group)
        self._idle = deque()
        self._poller = None
        self._listeners = []
        self._writer_name = sqlite_notifications.new_writer()
        if not self._is_closed:
            # Close the lock files. While the parent's files are open in this process, the parent's
            # locks outlive the parent.
            self._close_turns()
            if self._file is not None:
                self._writer = self._new_connection()
                return
            self._turns = Turns(self._path.parent)
            self._contention_lock = ContentionLock(self._path.parent)
            self._writer = self._open(self._turns)


# Forks

_ledgers: WeakSet[SqliteLedger] = WeakSet()
_parents_connections: list[sqlite3.Connection] = []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        after_in_child=lambda: [ledger.reopen_after_fork() for ledger in tuple(_ledgers)]
    )
