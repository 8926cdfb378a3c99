"""Times: the earliest and latest time in the lines of a log."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Not in the name of a file.
_TIME = re.compile(
    r"(?<![\w.])(?:"
    r"\d{4}[-/.]\d\d[-/.]\d\d[T _-]\d\d[:.]\d\d(?:[:.]\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\d\d/[A-Z][a-z]{2}/\d{4}[: ]\d\d:\d\d:\d\d(?: [+-]\d{4})?"
    r"|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d(?:\.\d+)?(?: \d{4})?"
    r"|\d\d[-/.]\d\d(?:[-/.]\d\d)? \d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"|(?<!\d)\d{6} \d{6}(?!\d)|\d{4}-\d\d-\d\d|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b)"
)
_CHARS = 120
_LINES_MAX = 10_000
_CLOCK_CHARS = 13
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NAMED = re.compile(
    r"(\d\d)/([A-Z][a-z]{2})/(\d{4})[: ](\S+)"
    r"|(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2}) +(\d\d?) (\S+)(?: (\d{4}))?"
)


def span(lines: Sequence[str]) -> tuple[str, str] | None:
    """Return the earliest and latest time; without years, the first and last."""
    step = max(1, len(lines) // _LINES_MAX)
    sample = [*lines[:200], *lines[200:-200:step], *lines[-200:]] if len(lines) > 400 else lines
    found = [match[0] for line in sample if (match := _TIME.search(line, 0, _CHARS)) is not None]
    if not found:
        return None
    # Times in another format than the first have another meaning.
    first = found[0]
    if _NAMED.match(first) is None:
        same = [text for text in found if len(text) == len(first)]
        # A time without a date restarts every day.
        has_date = len(first) > _CLOCK_CHARS
        return (min(same), max(same)) if has_date else (first, same[-1])
    keys = [(key, text) for text in dict.fromkeys(found) if (key := _key(text)) is not None]
    if not keys[0][0][0] and keys[0][0] > keys[-1][0]:
        return first, keys[-1][1]
    return min(keys)[1], max(keys)[1]


def _key(text: str) -> tuple[str, ...] | None:
    """Return the sort key of a time with a month name: its year first, if it has one."""
    match = _NAMED.match(text)
    if match is None:
        return None
    day, month, year, clock = match[1], match[2], match[3], match[4]
    if day is None:
        day, month, year, clock = match[6], match[5], match[8] or "", match[7]
    number = _MONTHS.index(month) if month in _MONTHS else 12
    return year, f"{number:02}", day.zfill(2), clock
