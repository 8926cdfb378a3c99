"""The search index: words, and the passages of texts that contain them.

Passages are numbered in the order of their addition, in chunks of CHUNK. A chunk has one row with
the lengths of its passages, and one row per word with the positions of the word. So additions are
written at one end, and removed content is dropped by the chunk. A length of 0 marks a removed
passage.

Rule: the index is not part of the ledger. It has its own file, or is in memory, and can be rebuilt
from the ledger. So every result is looked up in the ledger, and a damaged index file is deleted.
The index survives a kill at any moment, because a change is a transaction; a lost change is made
again.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from array import array
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path

from contextrelay.store import file_errors
from contextrelay.store.ledger.sqlite_read_only import ReadOnlyFile, is_writable
from contextrelay.store.ledger.sqlite_reads import FOREIGN, translate
from contextrelay.store.search.reads import (
    CHUNK,
    IS_BIG_ENDIAN,
    TEXT_COLUMNS,
    Text,
    lengths_of,
    mark,
    text_by_ref,
)

SEARCH_WAIT_MS_MAX = 2_000


FORMAT = 2
"""The version of the tables and their content. An index of another version is rebuilt."""

TABLES = """
    CREATE TABLE mark (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE text (ref TEXT PRIMARY KEY, created_ms INTEGER NOT NULL, expires_ms INTEGER,
                       name TEXT, thread TEXT, channel TEXT, start INTEGER NOT NULL,
                       count INTEGER NOT NULL, is_cut INTEGER NOT NULL, places BLOB NOT NULL,
                       pointers BLOB);
    CREATE UNIQUE INDEX text_by_start ON text (start);
    CREATE INDEX text_by_name ON text (name, created_ms) WHERE name IS NOT NULL;
    CREATE INDEX text_by_channel ON text (channel) WHERE channel IS NOT NULL;
    CREATE INDEX text_by_end ON text (expires_ms) WHERE expires_ms IS NOT NULL;
    CREATE TABLE waiting (created_ms INTEGER, ref TEXT,
                          PRIMARY KEY (created_ms, ref)) WITHOUT ROWID;
    CREATE UNIQUE INDEX waiting_by_ref ON waiting (ref);
    CREATE TABLE chunk (number INTEGER PRIMARY KEY, there INTEGER NOT NULL,
                        words INTEGER NOT NULL, lengths BLOB NOT NULL);
    CREATE TABLE posting (chunk INTEGER, word TEXT, body BLOB NOT NULL,
                          PRIMARY KEY (chunk, word)) WITHOUT ROWID;
"""
# SQLite treats concatenated blobs as text until they are cast; their bytes do not change.
ADD_POSTING = """INSERT INTO posting VALUES (?, ?, ?)
                 ON CONFLICT DO UPDATE SET body = CAST(body || excluded.body AS BLOB)"""
ADD_LENGTHS = """INSERT INTO chunk VALUES (?, ?, ?, ?)
                 ON CONFLICT DO UPDATE SET lengths = CAST(lengths || excluded.lengths AS BLOB),
                   there = there + excluded.there, words = words + excluded.words"""
ADD_TEXT = f"""INSERT INTO text ({TEXT_COLUMNS}, places, pointers)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

# Errors of a file that is not a database, is damaged, or has other tables than its format says.
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


class Damaged(Exception):
    """Raised if the index cannot be read and has to be rebuilt."""


class SearchIndex:
    """The search index of a store. Only one OS thread uses it at a time: see `changing`."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None

    # Transactions

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Yield a connection that reads a snapshot of the index."""
        with self._lock, self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def changing(self) -> Generator[IndexChange]:
        """Yield a transaction for a change, while other writers wait.

        Raises:
            Unavailable: another process keeps changing the index for too long.
        """
        with self._lock, self._transaction("BEGIN IMMEDIATE") as connection:
            change = IndexChange(connection)
            yield change
            change.write()

    @contextmanager
    def _transaction(self, begin: str) -> Generator[sqlite3.Connection]:
        try:
            connection = self._opened()
            connection.execute(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except FOREIGN as error:
            if getattr(error, "sqlite_errorcode", _DAMAGED[0]) & 0xFF in _DAMAGED:
                raise Damaged(f"the search index is damaged: {error}") from error
            raise translate(error, self.path or Path("search index")) from error
        except OSError as error:
            raise file_errors.from_os(error, self.path or "search index") from error

    def _opened(self) -> sqlite3.Connection:
        if self._pid != os.getpid() and self.path is not None:
            # A child process must neither use nor close the connection of its parent.
            _parents.append(self._connection)
            self._connection = None
        self._pid = os.getpid()
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        if self.path is not None and not is_writable(self.path):
            return _copied(self.path)
        if self.path is not None:
            # Create the file here with private permissions, because it reveals the words in the
            # store.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(
            self.path or ":memory:",
            timeout=SEARCH_WAIT_MS_MAX / 1000,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            # Use NORMAL: a power loss may lose the last changes, which are then made again.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def start_over(self) -> None:
        """Delete all content of the index.

        A damaged file is deleted, and other processes notice that.
        """
        with self._lock:
            try:
                with self._transaction("BEGIN IMMEDIATE") as connection:
                    _make(connection)
                return
            except Damaged:
                self.close()
            if self.path is not None:
                for end in ("", "-wal", "-shm"):
                    self.path.with_name(self.path.name + end).unlink(missing_ok=True)


def _copied(path: Path) -> sqlite3.Connection:
    """Return an index in memory for a read-only folder, with the content of the index file if
    possible.

    Each process that searches such a folder updates an index of its own.
    """
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    if path.exists():
        try:
            source = ReadOnlyFile(path).connect()
            try:
                source.backup(connection)
            finally:
                source.close()
        except (*FOREIGN, OSError):
            connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _prepare(connection)
    return connection


_parents: list[sqlite3.Connection | None] = []


def _prepare(connection: sqlite3.Connection) -> None:
    """Create the tables, unless tables of this format exist."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == FORMAT:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
            _make(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _make(connection: sqlite3.Connection) -> None:
    named = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    for (name,) in named:
        connection.execute(f'DROP TABLE "{name}"')
    for statement in TABLES.split(";"):
        connection.execute(statement)
    connection.execute("INSERT INTO mark VALUES ('made', hex(randomblob(8)))")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


class IndexChange:
    """A change of the index: additions are gathered, and written at the end of the change."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._postings: dict[int, defaultdict[str, list[int]]] = {}
        self._lengths: dict[int, array[int]] = {}
        self._next: int | None = None
        self._texts = 0

    def add(
        self,
        text: Text,
        passages: Iterable[tuple[int, Mapping[str, int]]],
        places: bytes,
        pointers: bytes | None,
    ) -> None:
        """Add a new text, with the length and the words of each passage.

        `places`: PLACE_BYTES for each passage, in the format that `place` returns. `pointers` are
        stored unchanged.
        """
        number = text.start
        for length, words in passages:
            chunk, offset = divmod(number, CHUNK)
            if chunk not in self._lengths:
                self._lengths[chunk], self._postings[chunk] = array("H"), defaultdict(list)
            self._lengths[chunk].append(length)
            postings = self._postings[chunk]
            for word, count in words.items():
                postings[word].append(offset | min(count, _COUNT_MAX) << 16)
            number += 1
        self._next = number
        self._texts += 1
        self.connection.execute(
            ADD_TEXT,
            (*(getattr(text, field) for field in text.__struct_fields__), places, pointers),
        )

    def next_number(self) -> int:
        """Return the number of the next passage."""
        if self._next is None:
            self._next = int(mark(self.connection, "next") or 0)
        return self._next

    def write(self) -> None:
        """Write the gathered additions to the database."""
        execute = self.connection.executemany
        execute(
            ADD_LENGTHS,
            [
                (chunk, len(lengths), sum(lengths), lengths.tobytes())
                for chunk, lengths in self._lengths.items()
            ],
        )
        execute(
            ADD_POSTING,
            [
                (chunk, word, _packed(postings[word]))
                for chunk, postings in self._postings.items()
                for word in sorted(postings)
            ],
        )
        self._postings, self._lengths = {}, {}
        if self._next is not None:
            self.set_mark("next", str(self._next))
        if self._texts:
            texts = int(mark(self.connection, "texts") or 0) + self._texts
            self.set_mark("texts", str(texts))
            self._texts = 0

    def remove(self, ref: str) -> None:
        """Mark the passages of a text as removed; their words go with their chunk."""
        self.connection.execute("DELETE FROM waiting WHERE ref = ?", (ref,))
        text = text_by_ref(self.connection, ref)
        if text is None:
            return
        self.write()
        self.connection.execute("DELETE FROM text WHERE ref = ?", (ref,))
        self._texts -= 1
        for chunk in range(text.start // CHUNK, (text.stop - 1) // CHUNK + 1):
            lengths = lengths_of(self.connection, chunk)
            start, stop = max(0, text.start - chunk * CHUNK), min(CHUNK, text.stop - chunk * CHUNK)
            gone = lengths[start:stop]
            there = sum(map(bool, gone))
            lengths[start:stop] = array("H", bytes(2 * len(gone)))
            self.connection.execute(
                "UPDATE chunk SET lengths = ?, there = there - ?, words = words - ? "
                "WHERE number = ?",
                (lengths.tobytes(), there, sum(gone), chunk),
            )

    def drop_chunk(self, chunk: int) -> None:
        """Delete a chunk that has no remaining passages."""
        self.connection.execute("DELETE FROM posting WHERE chunk = ?", (chunk,))
        self.connection.execute("DELETE FROM chunk WHERE number = ?", (chunk,))

    def set_mark(self, name: str, value: str) -> None:
        self.connection.execute("INSERT OR REPLACE INTO mark VALUES (?, ?)", (name, value))

    def await_texts(self, texts: Iterable[tuple[int, str]]) -> None:
        """Note texts, given as (created_ms, ref), that are waiting to be added."""
        self.connection.executemany("INSERT OR IGNORE INTO waiting VALUES (?, ?)", texts)

    def added(self, refs: Iterable[str]) -> None:
        """Remove texts from the list of those that are waiting to be added."""
        self.connection.executemany("DELETE FROM waiting WHERE ref = ?", [(ref,) for ref in refs])


_COUNT_MAX = 0xFFFF


def _packed(places: list[int]) -> bytes:
    """Pack the positions of a word: offset and, in the upper 16 bits, count."""
    packed = array("I", places)
    if IS_BIG_ENDIAN:
        packed.byteswap()
    return packed.tobytes()
