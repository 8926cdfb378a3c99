"""Times: the earliest and the latest time that the lines of a log have."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TIME = re.compile(
    r"\d{4}[-/.]\d\d[-/.]\d\d[T _-]\d\d[:.]\d\d(?:[:.]\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\d\d/[A-Z][a-z]{2}/\d{4}[: ]\d\d:\d\d:\d\d(?: [+-]\d{4})?"
    r"|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d(?:\.\d+)?(?: \d{4})?"
    r"|\d\d[-/]\d\d(?:[-/]\d\d)? \d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"|(?<!\d)\d{6} \d{6}(?!\d)|\d{4}-\d\d-\d\d|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"
)
_CHARS = 120
_LINES_MAX = 20_000
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NAMED = re.compile(
    r"(\d\d)/([A-Z][a-z]{2})/(\d{4})[: ](\S+)"
    r"|(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2}) +(\d\d?) (\S+)(?: (\d{4}))?"
)


def span(lines: Sequence[str]) -> tuple[str, str] | None:
    """The earliest and the latest time; in a log that has no years, the first and the last."""
    step = max(1, len(lines) // _LINES_MAX)
    sample = [*lines[:200], *lines[200:-200:step], *lines[-200:]] if len(lines) > 400 else lines
    found = [match[0] for line in sample if (match := _TIME.search(line, 0, _CHARS)) is not None]
    if not found:
        return None
    # Times that are written in another way than the first are about something else.
    keys = [(key, text) for text in found if (key := _key(text))[0] == _key(found[0])[0]]
    if not keys[0][0][1] and keys[0][0] > keys[-1][0]:
        return found[0], keys[-1][1]
    return min(keys)[1], max(keys)[1]


def _key(text: str) -> tuple[str, str, tuple[str, ...]]:
    """How a time is written, its year if it has one by itself, and what it is ordered by."""
    match = _NAMED.match(text)
    if match is None:
        shape = re.sub(r"\d+", "0", text[:12])
        return shape, text if len(text) > 14 else "", (text,)
    day, month, year, clock = match[1], match[2], match[3], match[4]
    if day is None:
        day, month, year, clock = match[6], match[5], match[8] or "", match[7]
    number = _MONTHS.index(month) if month in _MONTHS else 12
    return "named", year, (f"{number:02}", day.zfill(2), clock)
