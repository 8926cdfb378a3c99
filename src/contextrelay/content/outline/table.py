"""Tables: rows and columns, with type, range and number of values for each column."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

from contextrelay.content.outline.layout import (
    JOINED,
    OutlineDraft,
    OutlinePiece,
    families,
    shorten,
)
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_LINE_CHARS_MAX

# Columns that are described; further ones are counted.
OUTLINE_COLUMNS_MAX = 2_000
# Maximum number of cells read; slightly more to complete a row.
OUTLINE_CELLS_MAX = 2_000_000

_DELIMITERS = (",", "\t", ";", "|")
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*)?\.?\d+(?:[eE][-+]?\d+)?%?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?|\d\d?[/.]\d\d?[/.]\d{2,4}")
_EMPTY = frozenset({"", "NA", "N/A", "null", "NULL", "None", "nan", "NaN", "-"})
# Types are detected in this many rows; ranges are over all rows.
_TYPED_ROWS = 500
_ROWS_AT_ONCE = 1_024
_ODD_SHOWN = 5
# Up to this number, columns are named one by one.
_NAMES_MAX = 60


class _Table(Struct):
    """The rows of a table that were read, as columns."""

    width: int  # The number of cells in most rows.
    header: list[str]
    columns: list[list[str]]  # Only rows of this width.
    rows: int = 0
    odd: int = 0  # The number of rows of another width.
    some_odd: list[int] = []
    first: list[str] = []
    last: list[str] = []
    unread: int = 0  # The number of lines not read.


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a table, or None for other text."""
    delimiter = "\t"
    if source.media_type != "text/tab-separated-values":
        head = [line[:OUTLINE_LINE_CHARS_MAX] for line in source.lines[:20]]
        scores = [min((line.count(each) for line in head), default=0) for each in _DELIMITERS]
        delimiter = _DELIMITERS[scores.index(max(scores))]
    reader = csv.reader(source.lines, delimiter=delimiter)
    try:
        table = _gathered(reader)
    except csv.Error:  # A quote is never closed: then quotes are plain characters.
        table = _gathered(line.split(delimiter) for line in source.short_lines)
    else:
        if table is not None:
            table.unread = len(source.lines) - reader.line_num
    if table is None:
        return None
    least = f", {table.unread} lines were not read" if table.unread else ""
    title = f"table, {table.rows} rows, {table.width} columns, {source.measure()}{least}"
    pieces = [OutlinePiece(0, (f"{title}{'' if table.header else ', no header'}",))]
    if table.odd:
        some = ", ".join(map(str, table.some_odd))
        pieces.append(OutlinePiece(1, (f"{table.odd} rows have another width (rows {some})",)))
    pieces += _columns(table)
    rows = {0: table.first, table.rows - 1: table.last} if table.rows else {}
    for at, row in rows.items():
        pieces.append(OutlinePiece(3, (f"row {at}: {shorten(' | '.join(row[:50]), 120)}",)))
    left_out = max(0, table.width - OUTLINE_COLUMNS_MAX)
    return OutlineDraft("table", pieces, "--rows 0:5", left_out, dict.fromkeys(table.header))


def _gathered(rows: Iterator[list[str]]) -> _Table | None:
    """Collect at most OUTLINE_CELLS_MAX cells by column; return None if this is not a table."""
    table = None
    cells = 0
    while cells <= OUTLINE_CELLS_MAX and (some := list(islice(rows, _ROWS_AT_ONCE))):
        cells += sum(map(len, some))
        some = [row for row in some if row and row != [""]]
        if table is None and some:
            if max(map(len, some[:100])) < 2:
                return None
            width = Counter(map(len, some)).most_common(1)[0][0]
            # Column names are no numbers, and have no duplicates.
            has_header = len(some) > 1 and len(set(some[0])) == len(some[0])
            if any(_NUMBER.fullmatch(cell.strip()) for cell in some[0] if len(cell) < 40):
                has_header = False
            header = some.pop(0) if has_header else []
            table = _Table(width, header, [[] for _ in range(min(width, OUTLINE_COLUMNS_MAX))])
            table.first = some[0] if some else []
        if table is None or not some:
            continue
        regular, width = some, table.width
        if any(map(width.__ne__, map(len, some))):
            odd = [at for at, row in enumerate(some, table.rows) if len(row) != width]
            table.odd += len(odd)
            table.some_odd = [*table.some_odd, *odd][:_ODD_SHOWN]
            regular = [row for row in some if len(row) == width]
        table.last = some[-1]
        table.rows += len(some)
        for column, values in zip(table.columns, zip(*regular, strict=True), strict=False):
            column += values
    return table


def _columns(table: _Table) -> list[OutlinePiece]:
    columns, count = table.columns, len(table.columns)
    unnamed = (f"column {index}" for index in range(len(table.header), count))
    names = [*table.header[:count], *unnamed]
    is_short = len(names) <= _NAMES_MAX
    groups = [(name, [at]) for at, name in enumerate(names)] if is_short else families(names)
    is_wide = len(groups) > 30
    pieces = [OutlinePiece(0, ("columns:",))]
    for label, indexes in groups:
        if len(indexes) == 1:
            cells = columns[indexes[0]]
        else:
            cells = [cell for index in indexes[:50] for cell in columns[index][:_TYPED_ROWS]]
        name = shorten(label, 60) or "''"
        kind, detail = _described(cells)
        forms = (name, f"{name}: {kind}", f"{name}: {kind} {detail}")
        pieces.append(OutlinePiece(1, forms if detail else forms[:2], JOINED if is_wide else "\n"))
    return pieces


def _described(cells: Sequence[str]) -> tuple[str, str]:
    if _are_numbers(cells[:_TYPED_ROWS]) and (extremes := _extremes(cells)):
        return _number_type(cells), f"{extremes[0]}..{extremes[1]}"
    distinct = dict.fromkeys(cells)
    empty = _EMPTY & distinct.keys()
    empty_count = sum(cell in empty for cell in cells) if empty else 0
    optional = f", {empty_count} empty" if empty_count else ""
    filled = [cell for cell in distinct if cell not in empty] if empty else list(distinct)
    if not filled:
        return "empty", ""
    typed = filled[:_TYPED_ROWS]
    if _are_numbers(typed) and (extremes := _extremes(filled)):
        return _number_type(typed), f"{extremes[0]}..{extremes[1]}{optional}"
    if all(_DATE.fullmatch(cell[:40]) for cell in typed):
        return "date", f"{shorten(min(filled), 30)}..{shorten(max(filled), 30)}{optional}"
    common = filled[:3]
    if len(filled) <= 1_000:
        counted = Counter(cells).most_common(3 + len(empty))
        common = [cell for cell, _ in counted if cell not in empty][:3]
    samples = " ".join(repr(shorten(cell, 24)) for cell in common)
    return "str", f"{len(filled)} distinct: {samples}{optional}"


def _are_numbers(cells: Sequence[str]) -> bool:
    """Return True if there is at least one value and all are numeric."""
    return bool(cells) and all(len(cell) < 40 and _NUMBER.fullmatch(cell.strip()) for cell in cells)


def _number_type(cells: Sequence[str]) -> str:
    some = cells[:_TYPED_ROWS]
    return "float" if any("." in cell or "e" in cell.lower() for cell in some) else "int"


def _extremes(cells: Sequence[str]) -> tuple[str, str] | None:
    try:
        numbers = list(map(float, cells))
    except ValueError:
        try:
            numbers = [float(cell.strip().rstrip("%")) for cell in cells]
        except ValueError:
            return None
    low, high = numbers.index(min(numbers)), numbers.index(max(numbers))
    return cells[low].strip()[:40], cells[high].strip()[:40]
