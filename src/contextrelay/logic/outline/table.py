"""Tables: rows, columns, and of each column its type, its range and how many values it has."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from contextrelay.limits import OUTLINE_CELLS_MAX, OUTLINE_COLUMNS_MAX, OUTLINE_LINE_CHARS_MAX
from contextrelay.logic.content.source import Source
from contextrelay.logic.outline.layout import JOINED, Drawn, Piece, families, quoted

_DELIMITERS = (",", "\t", ";", "|")
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*)?\.?\d+(?:[eE][-+]?\d+)?%?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?|\d\d?[/.]\d\d?[/.]\d{2,4}")
_EMPTY = frozenset({"", "NA", "N/A", "null", "NULL", "None", "nan", "NaN", "-"})
# Types are found in so many rows; the ranges are those of all rows.
_TYPED_ROWS = 500
_ROWS_AT_ONCE = 4_096
# So many columns are named one by one.
_NAMES_MAX = 60


def draw(source: Source) -> Drawn | None:
    """The outline of a table; None if it is none."""
    delimiter = _delimiter(source)
    rows, unread = _rows(source, delimiter)
    if not rows or max(map(len, rows[:100])) < 2:
        return None
    width = Counter(map(len, rows)).most_common(1)[0][0]
    has_header = _has_header(rows)
    names = rows[0] if has_header else []
    body = rows[1:] if has_header else rows
    widths = list(map(len, body))
    is_even = widths.count(width) == len(widths)
    odd = [] if is_even else [index for index, size in enumerate(widths) if size != width]
    least = f", {unread} lines were not read" if unread else ""
    title = f"table, {len(body)} rows, {width} columns, {source.measure()}{least}"
    pieces = [Piece(0, (f"{title}{'' if has_header else ', no header'}",))]
    if odd:
        some = ", ".join(str(index) for index in odd[:5])
        pieces.append(Piece(1, (f"{len(odd)} rows have another width (rows {some})",)))
    regular = [row for row in body if len(row) == width] if odd else body
    pieces += _columns(names, regular, width)
    pieces += _samples(body)
    left_out = max(0, width - OUTLINE_COLUMNS_MAX)
    return Drawn("table", pieces, "--rows 0:5", left_out, dict.fromkeys(names))


def _delimiter(source: Source) -> str:
    if source.media_type == "text/tab-separated-values":
        return "\t"
    head = [line[:OUTLINE_LINE_CHARS_MAX] for line in source.lines[:20]]
    scores = {each: min((line.count(each) for line in head), default=0) for each in _DELIMITERS}
    best = max(_DELIMITERS, key=lambda each: scores[each])
    return best if scores[best] else ","


def _rows(source: Source, delimiter: str) -> tuple[list[list[str]], int]:
    """The rows, as many as have OUTLINE_CELLS_MAX cells, and how many lines were not read for it.

    Where a quote never ends, quotes mean nothing.
    """
    try:
        reader = csv.reader(source.lines, delimiter=delimiter)
        rows = _bounded(reader)
        return rows, len(source.lines) - reader.line_num
    except csv.Error:
        rows = _bounded(line.split(delimiter) for line in source.short_lines)
        return rows, 0


def _bounded(rows: Iterator[list[str]]) -> list[list[str]]:
    kept: list[list[str]] = []
    cells = 0
    while cells <= OUTLINE_CELLS_MAX and (some := list(islice(rows, _ROWS_AT_ONCE))):
        kept += some
        cells += sum(map(len, some))
    return [row for row in kept if row and row != [""]]


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns: nothing in it is a number, and all of it differs."""
    first = rows[0]
    if len(rows) < 2 or len(set(first)) < len(first):
        return False
    return not any(_NUMBER.fullmatch(cell.strip()) for cell in first if len(cell) < 40)


def _columns(names: Sequence[str], regular: Sequence[Sequence[str]], width: int) -> list[Piece]:
    count = min(width, OUTLINE_COLUMNS_MAX)
    names = [*names[:count], *(f"column {index}" for index in range(len(names), count))]
    is_short = len(names) <= _NAMES_MAX
    groups = [(name, [at]) for at, name in enumerate(names)] if is_short else families(names)
    is_wide = len(groups) > 30
    # All at once, which is quicker than column by column.
    columns = list(zip(*regular, strict=True)) if regular else [()] * width
    pieces = [Piece(0, ("columns:",))]
    for label, indexes in groups:
        if len(indexes) == 1:
            cells = columns[indexes[0]]
        else:
            cells = [cell for index in indexes[:50] for cell in columns[index][:_TYPED_ROWS]]
        name = quoted(label, 60) or "''"
        kind, detail = _described(cells)
        forms = (name, f"{name}: {kind}", f"{name}: {kind} {detail}")
        pieces.append(Piece(1, forms if detail else forms[:2], JOINED if is_wide else "\n"))
    return pieces


def _described(cells: Sequence[str]) -> tuple[str, str]:
    """Type and details of a column."""
    distinct = dict.fromkeys(cells)
    empty = _EMPTY & distinct.keys()
    empty_count = sum(cell in empty for cell in cells) if empty else 0
    optional = f", {empty_count} empty" if empty_count else ""
    filled = [cell for cell in distinct if cell not in empty] if empty else list(distinct)
    if not filled:
        return "empty", ""
    typed = filled[:_TYPED_ROWS]
    if all(len(cell) < 40 and _NUMBER.fullmatch(cell.strip()) for cell in typed):
        extremes = _extremes(filled)
        if extremes:
            is_whole = not any("." in cell or "e" in cell.lower() for cell in typed)
            return "int" if is_whole else "float", f"{extremes[0]}..{extremes[1]}{optional}"
    if all(_DATE.fullmatch(cell[:40]) for cell in typed):
        return "date", f"{quoted(min(filled), 30)}..{quoted(max(filled), 30)}{optional}"
    common = filled[:3]
    if len(filled) <= 1_000:
        counted = Counter(cells).most_common(3 + len(empty))
        common = [cell for cell, _ in counted if cell not in empty][:3]
    samples = " ".join(repr(quoted(cell, 24)) for cell in common)
    return "str", f"{len(filled)} distinct: {samples}{optional}"


def _extremes(cells: Sequence[str]) -> tuple[str, str] | None:
    """The least and the greatest of numbers, as they are written; None if one is no number."""
    try:
        numbers = list(map(float, cells))
    except ValueError:
        try:
            numbers = [float(cell.strip().rstrip("%")) for cell in cells]
        except ValueError:
            return None
    low, high = numbers.index(min(numbers)), numbers.index(max(numbers))
    return cells[low].strip()[:40], cells[high].strip()[:40]


def _samples(body: Sequence[Sequence[str]]) -> list[Piece]:
    """The first and the last row, if there is room."""
    if not body:
        return []
    indexes = dict.fromkeys((0, len(body) - 1))
    return [Piece(3, (f"row {at}: {quoted(' | '.join(body[at][:50]), 120)}",)) for at in indexes]
