"""Rows and columns of a table: csv and its like, header first, rows counted from 0.

Rule: rows are read one by one and only those that are asked for are taken apart; a row beyond
TABLE_ROW_BYTES_MAX is refused, and one with more columns than fit is cut behind the last that does.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain
from typing import Any

from contextrelay.errors import Invalid, NotFound, TooLarge
from contextrelay.limits import CELL_CHARS_SHOWN, TABLE_COLUMNS_MAX, TABLE_ROW_BYTES_MAX
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
    lines = _lines(source)
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
    rows, seen, is_end = _rows(lines, mark, start, stop, bytes_for(tokens_max))
    return _fitted(header, wanted, rows, mark, start, stop, seen, is_end, columns, tokens_max)


def _lines(source: Source) -> Iterator[str]:
    for line in lines_in(source.read_on(0), 1, 0, TABLE_ROW_BYTES_MAX):
        if line.size_bytes > TABLE_ROW_BYTES_MAX:
            raise TooLarge(
                f"line {line.number:,} has {line.size_bytes:,} bytes, too many for a row",
                f"the limit is {TABLE_ROW_BYTES_MAX:,}; take bytes of it, or lines",
            )
        text = shown(text_of(line.head))
        yield text.removeprefix("\ufeff") if line.number == 1 else text


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
    """The rows of a span, how many rows were seen, and whether the table ends there."""
    seen = 0
    # A line without a quote is a row of its own: there is no need to take it apart.
    while seen < start:
        line = next(lines, None)
        if line is None:
            return [], seen, True
        if '"' in line:
            _next_row(csv.reader(chain((line,), lines), delimiter=mark))
        elif not line.strip():
            continue
        seen += 1
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
