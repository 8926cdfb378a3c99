"""Limits of time and memory for parsing untrusted bodies.

A small body is parsed in this process, unless a grammar reads it. Any other body is sent to a child
process (bounded/parser_pool.py). If the child exceeds its limits, only the first part of the body
is parsed. If that fails too, the lines of the body are shown. The reply notes what was done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.msgpack import Decoder, decode
from msgspec.structs import replace

from contextrelay.bounded.parser_pool import TaskOutcome, run
from contextrelay.content.grep.records import RecordQuery, Records, is_quick, records
from contextrelay.content.outline import needs_grammar
from contextrelay.content.overview import (
    BodyOverview,
    OutlineRequest,
    make_overview,
    make_overview_by_lines,
)
from contextrelay.content.search.passages import IndexedText, IndexRequest, index_body
from contextrelay.content.slicing.slice import SliceRequest, slice_body
from contextrelay.errors import Broken, RelayError, TooLarge, Unavailable
from contextrelay.limits import (
    INDEX_CPU_S_MAX,
    INDEX_PART_CPU_S_MAX,
    KIB,
    LOOK_CPU_S_MAX,
    LOOK_INLINE_BYTES_MAX,
    LOOK_PART_CPU_S_MAX,
    MIB,
    OUTLINE_BYTES_MAX,
    PARSER_REAL_S_MAX,
    PARSER_ROOM_BYTES_MAX,
)
from contextrelay.model.inspect import Piece

if TYPE_CHECKING:
    from contextrelay.content.diff import DiffRequest, TextDifference

LOOK_PART_BYTES_MAX = 512 * KIB
LOOK_PLAIN_BYTES_MAX = 64 * KIB
SLICE_CPU_S_MAX = 1.4
# The maximum CPU time in seconds: a base, and an addition for each further MiB.
GREP_RECORDS_CPU_S_MAX = 1.0
GREP_RECORDS_CPU_S_A_MIB = 0.15
# The maximum number of steps to compare texts in this process: at worst 80 lines with 80 lines.
# A child process compares longer texts.
DIFF_INLINE_STEPS_MAX = 512_000
# The maximum CPU time in seconds for comparing two bodies.
DIFF_CPU_S_MAX = 1.8

Read = Callable[[int, int], Iterator[bytes]]
"""A function that returns the bytes from start to stop, in chunks."""

_seen = Decoder(BodyOverview)
_piece = Decoder(Piece)
_indexing = Decoder(IndexedText)
_records = Decoder(Records)
# Lines are read in this process, which blocks its other threads, so only one body is read at a
# time.
_lines_lock = threading.Lock()


def overview_within_bounds(asked: OutlineRequest, read: Read) -> tuple[BodyOverview, bool]:
    """Return an overview of a body, and True if it is reproducible and so worth caching."""
    size_bytes = min(asked.size_bytes, OUTLINE_BYTES_MAX)
    if size_bytes <= LOOK_INLINE_BYTES_MAX and not needs_grammar(asked.media_type):
        return make_overview(asked, b"".join(read(0, size_bytes))), True
    outcome = _run_on_head("look", asked, read, size_bytes, LOOK_CPU_S_MAX)
    if outcome.stopped is None:
        return _seen.decode(outcome.value), True
    note = _why(outcome, LOOK_CPU_S_MAX)
    if outcome.stopped in ("time", "memory") and size_bytes > LOOK_PART_BYTES_MAX:
        part = _run_on_head("look", asked, read, LOOK_PART_BYTES_MAX, LOOK_PART_CPU_S_MAX)
        if part.stopped is None:
            seen = _seen.decode(part.value)
            note = f"{note}; shown: its first {LOOK_PART_BYTES_MAX:,} bytes"
            cached = None if seen.cached is None else replace(seen.cached, note=note)
            return replace(seen, cached=cached, note=note), outcome.is_certain
    return overview_by_lines(asked, read, note), outcome.is_certain


def overview_by_lines(asked: OutlineRequest, read: Read, note: str) -> BodyOverview:
    """Return an overview of a body made from its first lines only; `note`, in it, says why."""
    with _lines_lock:
        head = b"".join(read(0, min(asked.size_bytes, LOOK_PLAIN_BYTES_MAX)))
        return make_overview_by_lines(asked, head, f"{note}; shown by lines")


def _run_on_head(
    task: str, asked: object, read: Read, size_bytes: int, cpu_s: float
) -> TaskOutcome:
    return run(task, asked, [(size_bytes, lambda: read(0, size_bytes))], cpu_s)


def slice_within_bounds(asked: SliceRequest, read: Read) -> Piece:
    """Return a piece of a body.

    Raises:
        TooLarge: finding the piece exceeds the limits of time or memory.
        Unavailable: there are too many concurrent requests.
        Broken: the parser failed.
        RelayError: as `take` does.
    """
    way = asked.selector.way
    needs_child = way == "json_path" or (way == "symbol" and needs_grammar(asked.media_type))
    if asked.size_bytes <= LOOK_INLINE_BYTES_MAX and not needs_child:
        return slice_body(asked, b"".join(read(0, asked.size_bytes)))
    outcome = _run_on_head("take", asked, read, asked.size_bytes, SLICE_CPU_S_MAX)
    if outcome.stopped is None:
        return _piece.decode(outcome.value)
    message = f"{_why(outcome, SLICE_CPU_S_MAX)}: no {asked.selector.way} of {asked.ref}"
    hint = f"request lines or bytes: relay get {asked.ref[:8]} --lines 1:40"
    raise _error(outcome, message, hint)


def records_within_bounds(asked: RecordQuery, body: bytes) -> Records:
    """Return the matches in the records of a body; no matches if the search takes too long."""
    if len(body) <= LOOK_INLINE_BYTES_MAX and is_quick(asked):
        return records(asked, body)
    opened = [(len(body), partial(iter, (body,)))]
    cpu_s = round(GREP_RECORDS_CPU_S_MAX + GREP_RECORDS_CPU_S_A_MIB * len(body) / MIB, 1)
    outcome = run("records", asked, opened, cpu_s)
    if outcome.stopped is None:
        return _records.decode(outcome.value)
    return Records(None, why=_why(outcome, cpu_s))


def diff_within_bounds(asked: DiffRequest, bodies: Sequence[bytes]) -> TextDifference:
    """Compare two texts; return their differences.

    Raises:
        TooLarge: comparing the texts exceeds the limits of time or memory.
        Unavailable: there are too many concurrent requests.
        Broken: the parser failed.
    """
    from contextrelay.content.diff import TextDifference, diff_texts

    # The time grows with up to the third power of the number of lines.
    few, many = sorted(each.count(b"\n") + 1 for each in bodies[:2])
    is_short = few * few * many <= DIFF_INLINE_STEPS_MAX
    if sum(map(len, bodies)) <= LOOK_INLINE_BYTES_MAX and is_short:
        return diff_texts(asked, bodies)
    opened = [(len(body), partial(iter, (body,))) for body in bodies]
    outcome = run("diff", asked, opened, DIFF_CPU_S_MAX)
    if outcome.stopped is None:
        return decode(outcome.value, type=TextDifference)
    message = f"{_why(outcome, DIFF_CPU_S_MAX)}: no diff of {' and '.join(asked.labels)}"
    raise _error(outcome, message, "compare parts of them: relay get REF --lines 1:1000")


def _error(outcome: TaskOutcome, message: str, hint: str) -> RelayError:
    if outcome.stopped == "failed":
        return Broken(message, hint)
    if outcome.is_certain:
        return TooLarge(message, hint)
    return Unavailable(message, f"try again later, or {hint}")


def index_within_bounds(asked: IndexRequest, size_bytes: int, read: Read) -> IndexedText | None:
    """Return what the search index stores for the start of a body; None if there is no time now.

    If the start of the body exceeds the limits, a shorter part is tried.
    """
    if size_bytes <= LOOK_INLINE_BYTES_MAX:
        return index_body(asked, b"".join(read(0, size_bytes)))
    outcome = _run_on_head("index", asked, read, size_bytes, INDEX_CPU_S_MAX)
    if outcome.stopped is None:
        return _indexing.decode(outcome.value)
    if outcome.stopped != "failed" and not outcome.is_certain:
        return None
    if size_bytes > LOOK_PART_BYTES_MAX:
        part = _run_on_head("index", asked, read, LOOK_PART_BYTES_MAX, INDEX_PART_CPU_S_MAX)
        if part.stopped is None:
            return replace(_indexing.decode(part.value), is_cut=True)
    with _lines_lock:
        head = b"".join(read(0, min(size_bytes, LOOK_PLAIN_BYTES_MAX)))
        return replace(index_body(asked, head), is_cut=True)


def _why(outcome: TaskOutcome, cpu_s: float) -> str:
    match outcome.stopped:
        case "time":
            took_s = cpu_s if outcome.is_certain else PARSER_REAL_S_MAX
            return f"its parser was stopped after {took_s:g} s"
        case "memory":
            return f"its parser was stopped at {PARSER_ROOM_BYTES_MAX // MIB} MiB of memory"
        case "busy":
            return "the parsers are busy"
        case _:
            return "its parser failed"
