"""Rows and columns of a table: csv and its like, header first, rows counted from 0.

Rule: rows are read one by one and only those that are asked for are taken apart; a row beyond
TABLE_ROW_BYTES_MAX is refused, and one with more columns than fit is cut behind the last that does.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any

from contextrelay.errors import Invalid, NotFound, TooLarge
from contextrelay.limits import (
    CELL_CHARS_SHOWN,
    TABLE_COLUMNS_MAX,
    TABLE_ROW_BYTES_MAX,
    TABLE_ROWS_AT_ONCE,
)
from contextrelay.logic.slicing.fit import Taken, bytes_for, fit_lines
from contextrelay.logic.slicing.lines import lines_in
from contextrelay.logic.slicing.source import Source, shown, text_of
from contextrelay.logic.slicing.span import Span, read_span, spell
from contextrelay.logic.tokens import count_tokens

_DELIMITERS = ",\t;|"
_NAMES_SHOWN = 20


def take_rows(source: Source, span: Span, columns: tuple[str, ...], tokens_max: int) -> Taken:
    """The header and the rows of a span, as many as fit.

    Raises:
        Invalid: it is no table, or the span counts from the end.
        NotFound: there is no such column.
        TooLarge: a row or the number of columns is over its limit.
    """
    if (span.start or 0) < 0 or (span.stop or 0) < 0:
        raise Invalid("rows cannot be counted from the end", "give rows like 0:20")
    lines = _Lines(source, 0)
    first = next(lines, "")
    mark = _delimiter(source, first)
    reader = csv.reader(chain((first,), lines) if '"' in first else [first], delimiter=mark)
    header = _next_row(reader) or []
    if len(header) > TABLE_COLUMNS_MAX:
        raise TooLarge(
            f"the table has {len(header):,} columns", f"the limit is {TABLE_COLUMNS_MAX:,}"
        )
    if not header or (source.type not in ("csv", "tool_output") and len(header) < 2):
        raise Invalid(
            f"{source.ref} is no table, but {source.type}",
            f"take lines of it: relay get {source.ref[:8]} --lines 1:40",
        )
    wanted = _chosen(header, columns)
    start, stop = span.start or 0, span.stop
    skipped = _Skipping(source, lines.offset, mark)
    seen = skipped.skip(start)
    if seen < start:
        rows, is_end = [], True
    else:
        lines = _Lines(source, skipped.offset)
        rows, seen, is_end = _rows(lines, mark, start, stop, bytes_for(tokens_max))
    return _fitted(header, wanted, rows, mark, start, stop, seen, is_end, columns, tokens_max)


class _Lines(Iterator[str]):
    """The lines of a body from a place on, which is where one begins."""

    def __init__(self, source: Source, offset: int) -> None:
        self.offset = offset
        """Behind the last line that was given out."""
        self._is_first = offset == 0
        self._lines = lines_in(source.read_on(offset), 1, offset, TABLE_ROW_BYTES_MAX)

    def __next__(self) -> str:
        line = next(self._lines)
        if line.size_bytes > TABLE_ROW_BYTES_MAX:
            raise TooLarge(
                f"a line has {line.size_bytes:,} bytes, too many for a row (at {line.offset:,})",
                f"the limit is {TABLE_ROW_BYTES_MAX:,}; take bytes of it, or lines",
            )
        self.offset = line.offset + line.size_bytes
        text = shown(text_of(line.head))
        is_first, self._is_first = self._is_first, False
        return text.removeprefix("\ufeff") if is_first else text


_BLANK = re.compile(rb"\s*+")


@cache
def _many_rows(mark: str) -> re.Pattern[bytes]:
    """Rows as csv reads them, so many of them: a quote means something where a field begins."""
    delimiter = re.escape(mark.encode())
    quoted = rb'"(?:[^"]++|"")*+"(?:[^"\n' + delimiter + rb"][^\n" + delimiter + rb"]*+)?+"
    plain = rb'[^"\n' + delimiter + rb"][^\n" + delimiter + rb"]*+"
    field = rb"(?:" + quoted + rb"|" + plain + rb")?+"
    row = rb"(?:[^\S\n]*+\n)*+" + field + rb"(?:" + delimiter + field + rb")*+\n"
    return re.compile(rb"(?:" + row + rb"){%d}" % TABLE_ROWS_AT_ONCE)


class _Skipping:
    """Goes over rows that are not asked for: many at once, else a line, else a row of several."""

    def __init__(self, source: Source, offset: int, mark: str) -> None:
        self._source = source
        self._mark = mark
        self._window = b""
        self._start, self._place = offset, 0

    @property
    def offset(self) -> int:
        """Behind the last row that was passed, in the body."""
        return self._start + self._place

    def skip(self, count: int) -> int:
        """Pass so many rows, or all there are; how many they were."""
        seen = singles = 0
        many_rows = _many_rows(self._mark)
        while seen < count and self._finds_row():
            is_far = count - seen >= TABLE_ROWS_AT_ONCE and not singles
            many = many_rows.match(self._window, self._place) if is_far else None
            if many:
                self._place = many.end()
                seen += TABLE_ROWS_AT_ONCE
                continue
            # Where so many cannot be passed at once, as many are one by one, before the next try.
            singles = (singles or TABLE_ROWS_AT_ONCE) - 1
            self._pass_one()
            seen += 1
        return seen

    def _finds_row(self) -> bool:
        """Go to the next line that is not blank; whether there is one."""
        while True:
            is_last = self._start + len(self._window) >= self._source.size_bytes
            if len(self._window) - self._place < TABLE_ROW_BYTES_MAX // 2 and not is_last:
                self._read_from(self.offset)
                continue
            blank = _BLANK.match(self._window, self._place)
            end = blank.end() if blank else self._place
            self._place = max(self._place, self._window.rfind(b"\n", self._place, end) + 1)
            if end < len(self._window):
                return True
            if is_last:
                return False
            self._read_from(self._start + end)

    def _pass_one(self) -> None:
        end = self._window.find(b"\n", self._place)
        if end >= 0 and self._window.find(b'"', self._place, end) < 0:
            self._place = end + 1
            return
        lines = _Lines(self._source, self.offset)
        _next_row(csv.reader(lines, delimiter=self._mark))
        self._read_from(lines.offset)

    def _read_from(self, offset: int) -> None:
        stop = min(offset + TABLE_ROW_BYTES_MAX, self._source.size_bytes)
        self._window = self._source.bytes_of(offset, stop)
        self._start, self._place = offset, 0


def _delimiter(source: Source, first: str) -> str:
    if source.media_type.startswith("text/tab-separated-values"):
        return "\t"
    return max(_DELIMITERS, key=lambda mark: (first.count(mark), -_DELIMITERS.index(mark)))


def _chosen(header: list[str], columns: tuple[str, ...]) -> list[int]:
    """Which columns: by name, by number from 0, or a span of numbers; all where none is named."""
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
            wanted.extend(range(*read_span(name, "columns").within(0, len(header))))
        else:
            names = ", ".join(each[:40] for each in header[:_NAMES_SHOWN])
            more = f" and {len(header) - _NAMES_SHOWN:,} more" * (len(header) > _NAMES_SHOWN)
            raise NotFound(f"there is no column {name[:80]!r}", f"there are {names}{more}")
    return list(dict.fromkeys(wanted))


def _rows(
    lines: Iterator[str], mark: str, start: int, stop: int | None, room_bytes: int
) -> tuple[list[list[str]], int, bool]:
    """The rows of a span that begins here, how many rows were seen, and whether the table ends."""
    seen = start
    rows: list[list[str]] = []
    reader = csv.reader(lines, delimiter=mark)
    while stop is None or seen < stop:
        if room_bytes <= 0:
            return rows, seen, False
        row = _next_row(reader)
        if row is None:
            return rows, seen, True
        if not row:
            continue
        rows.append(row)
        seen += 1
        room_bytes -= sum(map(len, row)) + len(row)
    return rows, seen, _next_row(reader) is None


def _next_row(reader: Any) -> list[str] | None:
    try:
        return next(reader, None)
    except csv.Error as error:
        raise Invalid(f"a row cannot be read: {error}", "take lines of it") from error


def _fitted(
    header: list[str],
    wanted: list[int],
    rows: list[list[str]],
    mark: str,
    start: int,
    stop: int | None,
    seen: int,
    is_end: bool,
    columns: tuple[str, ...],
    tokens_max: int,
) -> Taken:
    """Header and rows as lines; where one row does not fit, only the columns that do."""
    kept = _columns_that_fit(header, wanted, rows, mark, tokens_max)
    notes: tuple[str, ...] = ()
    if len(kept) < len(wanted):
        rest = wanted[len(kept) :]
        begin = f"--columns {rest[0]}:{rest[0] + max(1, len(kept))}"
        notes = (f"{len(rest):,} of {len(wanted):,} columns are left out, from {begin} on",)
    lines = [_spelled([_cell(row, index) for index in kept], mark) for row in (header, *rows)]
    text, count = fit_lines(lines, tokens_max)
    shown_rows = max(0, count - 1)
    end = start + shown_rows
    asked_all = stop is None or seen >= stop
    is_all = shown_rows == len(rows) and (is_end or (asked_all and stop is not None))
    if not rows and is_end:
        notes = (*notes, f"nothing is there: {seen:,} rows")
    next_args: dict[str, Any] = {}
    if not is_all:
        next_args = {"rows": spell(end, stop)}
        if columns:
            next_args["columns"] = list(columns)
    upto = "" if stop is None else f" to {stop:,}"
    return Taken(
        at=spell(start, end),
        text=text,
        left_out="" if is_all else f"rows {end:,}{upto or ' on'}",
        next_args=next_args,
        notes=notes,
    )


def _columns_that_fit(
    header: list[str], wanted: list[int], rows: list[list[str]], mark: str, tokens_max: int
) -> list[int]:
    """As many of the columns as the header and one row take no more than half of the tokens for."""
    first = rows[0] if rows else []
    left = tokens_max // 2
    both = [f"{_cut(header[index])}{mark}{_cell(first, index)}{mark}" for index in wanted]
    if count_tokens("".join(both[: 4 * tokens_max])) <= left and len(both) <= 4 * tokens_max:
        return wanted
    kept = 0
    for text in both[: 4 * tokens_max]:
        left -= count_tokens(text)
        if left < 0:
            break
        kept += 1
    return wanted[: max(1, kept)]


def _cell(row: list[str], index: int) -> str:
    return _cut(row[index]) if index < len(row) else ""


def _cut(text: str) -> str:
    return text if len(text) <= CELL_CHARS_SHOWN else f"{text[:CELL_CHARS_SHOWN]}…"


def _spelled(cells: list[str], mark: str) -> str:
    """A row as csv has it."""
    return (
        mark.join(
            '"' + cell.replace('"', '""') + '"'
            if any(sign in cell for sign in (mark, '"', "\n", "\r"))
            else cell
            for cell in cells
        )
        + "\n"
    )
