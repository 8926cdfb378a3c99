"""Tables by separators: rows with the same number of one separator that are not sentences."""

from __future__ import annotations

import re
from collections import Counter

from contextrelay.content.language import Guess

_SEPARATORS = (
    ("\t", "text/tab-separated-values"),
    (",", "text/csv"),
    (";", "text/csv"),
    ("|", "text/csv"),
)
_LINES_MIN = 3
_CELL_LINES_MAX = 5
_SHARE = 0.9
# With so few columns it may be chance: then all rows must have them.
_FEW_COLUMNS = 3
_QUOTED = re.compile(r'"[^"]*"')
_COLUMN = re.compile(r"[\w@%$#][\w .()/%#:&'+$?-]{0,60}")
_LETTER = re.compile(r"[^\W\d]")
_VALUE = re.compile(r"\s*(?:[-+]?[\d.,:/%-]+(?:e[-+]?\d+)?)?\s*", re.IGNORECASE)


def headed_table(rows: list[str]) -> Guess | None:
    """Detect a table whose first row has column names, whatever the other rows contain."""
    rows = _whole(rows)
    for separator, media_type in _SEPARATORS if len(rows) >= _LINES_MIN else ():
        if separator not in rows[0]:
            continue
        head = _QUOTED.sub(lambda cell, each=separator: cell[0].replace(each, " "), rows[0])
        names = [name.strip().strip('"') for name in head.split(separator)]
        if len(names) < 2 or len(set(names)) < len(names):
            continue
        if not all(map(_COLUMN.fullmatch, names)) or not any(map(_LETTER.search, names)):
            continue
        widths = [row.count(separator) + 1 for row in map(_unquoted, rows[1:])]
        least = len(widths) * (1 if len(names) < _FEW_COLUMNS else _SHARE)
        is_even = sum(width == len(names) for width in widths) >= least
        # Empty cells at the end may be omitted with their separators.
        is_even = (
            is_even or len(names) // 2 < min(widths) <= max(widths) <= len(names) > _FEW_COLUMNS
        )
        if is_even and (len(names) >= _FEW_COLUMNS or not _is_prose(rows, separator)):
            return "csv", media_type
    return None


def plain_table(rows: list[str]) -> Guess | None:
    """Detect lines with the same number of a separator that are not sentences."""
    if len(rows) < _LINES_MIN:
        return None
    rows = list(map(_unquoted, _whole(rows)))
    if not rows:
        return None
    for separator, media_type in _SEPARATORS:
        if sum(separator in row for row in rows) < _SHARE * len(rows):
            continue
        counts = Counter(row.count(separator) for row in rows)
        count, times = counts.most_common(1)[0]
        is_even = count and times >= len(rows) * (1 if count < _FEW_COLUMNS else _SHARE)
        if is_even and (separator == "\t" or not _is_prose(rows, separator)):
            return "csv", media_type
    return None


def _unquoted(row: str) -> str:
    return _QUOTED.sub("", row) if '"' in row else row


def _whole(rows: list[str]) -> list[str]:
    """Join the rows that form one quoted cell of several lines."""
    if '"' not in "".join(rows):
        return rows
    whole: list[str] = []
    is_open = False
    begin = 0
    for place, row in enumerate(rows):
        if is_open:
            whole[-1] += f" {row}"
        else:
            whole.append(row)
            begin = place
        is_open ^= row.count('"') % 2 == 1
    if not is_open:
        return whole
    # An unclosed quote is not a quote; one that has just opened may be closed further down.
    return rows if len(rows) - begin > _CELL_LINES_MAX else whole[:-1]


def _is_prose(rows: list[str], separator: str) -> bool:
    """Return True if rows are sentences: with spaces after separators, or final punctuation."""
    columns = zip(*(row.split(separator) for row in rows[1:]), strict=False)
    if any(any(column) and all(map(_VALUE.fullmatch, column)) for column in columns):
        return False  # A separator in numbers or dates.
    text = "\n".join(rows)
    blanks = text.count(f"{separator} ")
    ends = sum(row.endswith((".", ";", "{", separator)) for row in rows)
    return blanks > text.count(separator) // 2 or ends > len(rows) // 2
