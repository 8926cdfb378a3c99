"""Slices by rows and columns of a table (CSV and similar): header first, rows counted from 0.

Rule: rows are streamed, and only requested ones are kept. A line longer than TABLE_ROW_CHARS_MAX is
refused, and a row with too many columns is cut after the last that fits.
"""

from __future__ import annotations

import csv
import re
from codecs import getincrementaldecoder
from collections.abc import Iterator
from itertools import accumulate, chain, islice, takewhile
from typing import Any

from contextrelay.content.slicing.source import (
    FittedPiece,
    SliceRange,
    SliceSource,
    bytes_for,
    fit_lines,
    format_range,
    parse_range,
    printable,
)
from contextrelay.content.tokens import count_tokens
from contextrelay.errors import Invalid, NotFound, TooLarge

TABLE_ROW_CHARS_MAX = 1_000_000
TABLE_COLUMNS_MAX = 20_000
CELL_CHARS_SHOWN = 200

_DELIMITERS = ",\t;|"
_NAMES_SHOWN = 20
# A carriage return at the end of a chunk may be half of a line end.
_BEHIND_LINE = re.compile(r"(?<=\n)|(?<=\r)(?!\n|\Z)")


def slice_rows(
    source: SliceSource, span: SliceRange, tokens_max: int, columns: tuple[str, ...]
) -> FittedPiece:
    """Return the header and the rows of a span, as many as fit.

    Raises:
        Invalid: the body is not a table, or the span counts from the end.
        NotFound: a column does not exist.
        TooLarge: a row or the number of columns exceeds its limit.
    """
    if (span.start or 0) < 0 or (span.stop or 0) < 0:
        raise Invalid("rows cannot be counted from the end", "pass rows as 0:20")
    try:
        return _slice_rows(source, span.start or 0, span.stop, tokens_max, columns)
    except csv.Error as error:
        raise Invalid(f"invalid row: {error}", "read lines instead") from error


def _slice_rows(
    source: SliceSource, start: int, stop: int | None, tokens_max: int, columns: tuple[str, ...]
) -> FittedPiece:
    lines = _lines(source)
    first = next(lines, "").removeprefix("\ufeff")
    mark = max(_DELIMITERS, key=lambda each: (first.count(each), -_DELIMITERS.index(each)))
    if source.media_type.startswith("text/tab-separated-values"):
        mark = "\t"
    reader = csv.reader(chain((first,), lines), delimiter=mark)
    header = [printable(name) for name in next(reader, ())]
    if len(header) > TABLE_COLUMNS_MAX:
        limit = f"the limit is {TABLE_COLUMNS_MAX:,}"
        raise TooLarge(f"the table has {len(header):,} columns", limit)
    if not header or (source.type not in ("csv", "tool_output") and len(header) < 2):
        hint = f"read lines instead: relay get {source.ref[:8]} --lines 1:40"
        raise Invalid(f"{source.ref} is not a table (type {source.type})", hint)
    wanted = _chosen(header, columns)
    following = filter(None, reader)
    seen = sum(1 for _ in islice(following, start))
    rows: list[list[str]] = []
    room_bytes = bytes_for(tokens_max)
    while room_bytes > 0 and (stop is None or seen < stop) and (row := next(following, None)):
        rows.append(row)
        seen += 1
        room_bytes -= sum(map(len, row)) + len(row)
    is_read = seen < start or (stop is not None and seen >= stop) or next(following, None) is None

    kept = _columns_that_fit(header, wanted, rows, mark, tokens_max)
    notes: list[str] = []
    if rest := wanted[len(kept) :]:
        begin = f"--columns {rest[0]}:{rest[0] + max(1, len(kept))}"
        notes.append(f"{len(rest):,} of {len(wanted):,} columns left out, from {begin} on")
    lines = [_spelled([_cell(row, index) for index in kept], mark) for row in (header, *rows)]
    text, count = fit_lines(lines, tokens_max)
    end = start + max(0, count - 1)
    is_all = is_read and end == start + len(rows)
    if not rows and is_read and next(following, None) is None:
        notes.append(f"nothing in this range: the table has {seen:,} rows")
    next_args: dict[str, Any] = {} if is_all else {"rows": format_range(end, stop)}
    if next_args and columns:
        next_args["columns"] = list(columns)
    return FittedPiece(
        at=format_range(start, end),
        text=text,
        left_out="" if is_all else f"rows {end:,}{' on' if stop is None else f' to {stop:,}'}",
        next_args=next_args,
        notes=tuple(notes),
    )


def _lines(source: SliceSource) -> Iterator[str]:
    decoder = getincrementaldecoder("utf-8")("surrogateescape")
    rest = ""
    for chunk in chain(source.read_on(0), (b"",)):
        *lines, rest = _BEHIND_LINE.split(rest + decoder.decode(chunk, final=not chunk))
        for line in (*lines, rest):
            if len(line) > TABLE_ROW_CHARS_MAX:
                limit = f"the limit is {TABLE_ROW_CHARS_MAX:,} characters"
                raise TooLarge("line too long for a row", f"{limit}; read bytes or lines instead")
        yield from lines
    yield rest


def _chosen(header: list[str], columns: tuple[str, ...]) -> list[int]:
    """Return column indexes from names, numbers from 0 or number spans; all if none are given."""
    if not columns:
        return list(range(len(header)))
    places = {name.strip(): index for index, name in reversed(list(enumerate(header)))}
    wanted: list[int] = []
    for column in columns:
        name = column.strip()
        if name in places:
            wanted.append(places[name])
        elif name.isdecimal() and int(name) < len(header):
            wanted.append(int(name))
        elif ":" in name and set(name) <= set("0123456789:"):
            wanted.extend(range(*parse_range(name, "columns").within(0, len(header))))
        else:
            names = ", ".join(each[:40] for each in header[:_NAMES_SHOWN])
            more = f" and {len(header) - _NAMES_SHOWN:,} more" * (len(header) > _NAMES_SHOWN)
            raise NotFound(f"column {name[:80]!r} not found", f"columns: {names}{more}")
    return list(dict.fromkeys(wanted))


def _columns_that_fit(
    header: list[str], wanted: list[int], rows: list[list[str]], mark: str, tokens_max: int
) -> list[int]:
    """Return the columns for which the header and one row fit into half of the tokens."""
    first = rows[0] if rows else []
    left, tried = tokens_max // 2, wanted[: 4 * tokens_max]
    both = [f"{_cell(header, index)}{mark}{_cell(first, index)}{mark}" for index in tried]
    if count_tokens("".join(both)) <= left and len(tried) == len(wanted):
        return wanted
    costs = accumulate(map(count_tokens, both))
    return wanted[: max(1, sum(1 for _ in takewhile(left.__ge__, costs)))]


def _cell(row: list[str], index: int) -> str:
    text = printable(row[index]) if index < len(row) else ""
    return text if len(text) <= CELL_CHARS_SHOWN else f"{text[:CELL_CHARS_SHOWN]}…"


def _spelled(cells: list[str], mark: str) -> str:
    signs = {mark, '"', "\n", "\r"}
    spelled = ('"' + each.replace('"', '""') + '"' if signs & set(each) else each for each in cells)
    return mark.join(spelled) + "\n"
