"""Queries of the search index, within a transaction."""

from __future__ import annotations

import sqlite3
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.json import encode

CHUNK = 4_096
"""The number of passages per chunk."""
PLACE_BYTES = 16
"""The number of bytes stored for the position of each passage in its text."""
# CROSS makes SQLite search chunk by chunk; otherwise it scans every posting.
POSTINGS = """SELECT chunk.number, posting.body FROM chunk
              CROSS JOIN posting ON posting.chunk = chunk.number AND posting.word = ?"""
TEXT_COLUMNS = "ref, created_ms, expires_ms, name, thread, channel, start, count, is_cut"
TEXTS_OF = f"""SELECT {TEXT_COLUMNS} FROM text WHERE start IN
               (SELECT (SELECT max(start) FROM text WHERE start <= asked.value)
                FROM json_each(?) AS asked) ORDER BY start"""
TEXT_BY_REF = f"SELECT {TEXT_COLUMNS} FROM text WHERE ref = ?"
PLACE = "SELECT substr(places, ?, ?), pointers FROM text WHERE ref = ?"
TEXTS_BY_CHANNEL = f"""SELECT {TEXT_COLUMNS} FROM text
                       WHERE channel >= ?1 AND substr(channel, 1, length(?1)) = ?1"""
POSTINGS_IN = "SELECT body FROM posting WHERE chunk = ? AND word = ?"
NEWER = """SELECT ref, start FROM text WHERE name = ? AND thread IS ? AND created_ms > ?
           ORDER BY created_ms DESC"""


class Text(Struct, frozen=True, gc=False):
    """An artifact in the index, and the numbers of its passages."""

    ref: str
    created_ms: int
    expires_ms: int | None
    name: str | None
    thread: str | None
    channel: str | None
    start: int
    """The number of the first passage of this text."""
    count: int
    is_cut: bool
    """Whether only the first part of the text is indexed."""

    @property
    def stop(self) -> int:
        return self.start + self.count


def mark(connection: sqlite3.Connection, name: str) -> str | None:
    found = connection.execute("SELECT value FROM mark WHERE name = ?", (name,)).fetchone()
    return None if found is None else found[0]


def unknown(connection: sqlite3.Connection, refs: Sequence[str]) -> set[str]:
    """Return the refs that are neither indexed nor waiting."""
    known: set[str] = set()
    for start in range(0, len(refs), _ASKED_AT_ONCE):
        part = refs[start : start + _ASKED_AT_ONCE]
        places = ", ".join("?" * len(part))
        for table in ("text", "waiting"):
            sql = f"SELECT ref FROM {table} WHERE ref IN ({places})"
            known.update(ref for (ref,) in connection.execute(sql, part))
    return set(refs) - known


_ASKED_AT_ONCE = 500


def waiting(
    connection: sqlite3.Connection, before: tuple[int, str], limit: int
) -> list[tuple[int, str]]:
    """Return waiting texts as (created_ms, ref), newest first, starting after the text `before`."""
    sql = """SELECT created_ms, ref FROM waiting WHERE (created_ms, ref) < (?, ?)
             ORDER BY created_ms DESC, ref DESC LIMIT ?"""
    return connection.execute(sql, (*before, limit)).fetchall()


def counts(connection: sqlite3.Connection) -> tuple[int, int, int, int]:
    """Return the numbers of texts, waiting texts, passages, and words."""
    sql = """SELECT (SELECT count(*) FROM waiting), coalesce(sum(there), 0),
                    coalesce(sum(words), 0) FROM chunk"""
    return int(mark(connection, "texts") or 0), *connection.execute(sql).fetchone()


def texts_of(connection: sqlite3.Connection, numbers: Iterable[int]) -> list[Text]:
    """Return the texts that contain passages with these numbers, in order."""
    found = connection.execute(TEXTS_OF, (encode(list(numbers)).decode(),))
    return [_text(row) for row in found]


def text_by_ref(connection: sqlite3.Connection, ref: str) -> Text | None:
    found = connection.execute(TEXT_BY_REF, (ref,)).fetchone()
    return None if found is None else _text(found)


def texts_by_channel(connection: sqlite3.Connection, start: str) -> list[Text]:
    """Return the texts that were sent to channels whose names start with a prefix."""
    return [_text(row) for row in connection.execute(TEXTS_BY_CHANNEL, (start,))]


def _text(row: tuple[object, ...]) -> Text:
    return Text(*row[:-1], is_cut=bool(row[-1]))  # pyright: ignore[reportArgumentType]


def place(
    connection: sqlite3.Connection, ref: str, start: int, stop: int
) -> tuple[bytes, bytes | None]:
    """Return the positions of the passages start:stop of a text, and the pointers of the text."""
    first, size = start * PLACE_BYTES + 1, (stop - start) * PLACE_BYTES
    found = connection.execute(PLACE, (first, size, ref)).fetchone()
    return (b"", None) if found is None else found


def texts_with(connection: sqlite3.Connection, numbers: Iterable[int]) -> int:
    """Return the number of texts that contain passages with these numbers."""
    found = sorted(numbers)
    if not found:
        return 0
    starts = [start for (start,) in connection.execute("SELECT start FROM text ORDER BY start")]
    return len({bisect_right(starts, number) for number in found})


def count_in(connection: sqlite3.Connection, words: Iterable[str], text: Text) -> int:
    """Return how often words occur in a text, in total."""
    total = 0
    sql = "SELECT body FROM posting WHERE chunk = ? AND word = ?"
    for chunk in range(text.start // CHUNK, (text.stop - 1) // CHUNK + 1):
        start, stop = text.start - chunk * CHUNK, text.stop - chunk * CHUNK
        for word in words:
            for (body,) in connection.execute(sql, (chunk, word)):
                places = _unpacked(body)
                first = 2 * bisect_left(places[::2], start)
                last = 2 * bisect_left(places[::2], stop)
                total += sum(places[first + 1 : last : 2])
    return total


def newer(connection: sqlite3.Connection, text: Text) -> Iterator[tuple[str, int]]:
    """Yield newer texts of the same name and thread as (ref, start), newest first."""
    if text.name is not None:
        yield from connection.execute(NEWER, (text.name, text.thread, text.created_ms))


def ended(connection: sqlite3.Connection, now_ms: int, limit: int) -> list[str]:
    """Return the refs of texts that have expired, by the expiry time that the index knows."""
    sql = "SELECT ref FROM text WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?"
    return [ref for (ref,) in connection.execute(sql, (now_ms, limit))]


def refs(connection: sqlite3.Connection, after: str, limit: int) -> list[str]:
    """Return at most `limit` refs of texts that follow `after`, in order."""
    sql = "SELECT ref FROM text WHERE ref > ? ORDER BY ref LIMIT ?"
    return [ref for (ref,) in connection.execute(sql, (after, limit))]


def thin_chunks(connection: sqlite3.Connection, there_max: int) -> list[int]:
    """Return the numbers of full chunks that have at most `there_max` passages left."""
    sql = """SELECT number FROM chunk WHERE there <= ?
             AND number < (SELECT max(number) FROM chunk) ORDER BY number"""
    return [number for (number,) in connection.execute(sql, (there_max,))]


def texts_in(connection: sqlite3.Connection, chunk: int) -> list[tuple[int, str]]:
    """Return the texts that have passages in a chunk, as (created_ms, ref)."""
    sql = """SELECT created_ms, ref FROM text WHERE start < ?
             AND start >= (SELECT coalesce(max(start), 0) FROM text WHERE start <= ?)
             AND start + count > ?"""
    start = chunk * CHUNK
    return connection.execute(sql, (start + CHUNK, start, start)).fetchall()


def lengths_of(connection: sqlite3.Connection, chunk: int) -> array[int]:
    found = connection.execute("SELECT lengths FROM chunk WHERE number = ?", (chunk,)).fetchone()
    return array("H", found[0] if found else b"")


def all_lengths(connection: sqlite3.Connection) -> tuple[dict[int, array[int]], set[int]]:
    """Return the lengths of all passages by chunk, and the chunks with removed ones."""
    lengths: dict[int, array[int]] = {}
    holed: set[int] = set()
    for number, there, packed in connection.execute("SELECT number, there, lengths FROM chunk"):
        lengths[number] = array("H", packed)
        if there < len(lengths[number]):
            holed.add(number)
    return lengths, holed


def postings(connection: sqlite3.Connection, word: str) -> list[tuple[int, array[int]]]:
    """Return the positions of a word, by chunk: offset in the chunk, count, offset, count, ..."""
    return [(chunk, _unpacked(body)) for chunk, body in connection.execute(POSTINGS, (word,))]


def postings_in(
    connection: sqlite3.Connection, word: str, chunks: Iterable[int]
) -> list[tuple[int, array[int]]]:
    """Return the positions of a word in some chunks, without reading the other chunks."""
    found = ((chunk, connection.execute(POSTINGS_IN, (chunk, word)).fetchone()) for chunk in chunks)
    return [(chunk, _unpacked(row[0])) for chunk, row in found if row is not None]


IS_BIG_ENDIAN = sys.byteorder == "big"


def _unpacked(body: bytes) -> array[int]:
    places = array("H", body)
    if IS_BIG_ENDIAN:
        places.byteswap()
    return places
