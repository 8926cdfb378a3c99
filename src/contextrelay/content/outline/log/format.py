"""Log formats: the common prefix of log lines before the message.

Lines are split into columns by spaces and brackets. The first column in which most lines have a
level is the level. Time, numbers, names in brackets and the name of the writer belong to the
header; the message is the rest.

Rule: a sample of lines determines the format, and every line is read by one linear pattern.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

_TOKEN = r"(?:\[[^\]\n]{0,100}\][^\s|]*|\"[^\"\n]{0,100}\"|[^\s|]+)"
_BETWEEN = r"[\s|:,]*"
_TOKENS = re.compile(rf"{_BETWEEN}({_TOKEN})")
_COLUMNS_MAX = 12
_SAMPLE_LINES = 600
# Minimum share of lines, without continuation lines, that match the format.
_LEVEL_SHARE = 0.4
_LETTER_SHARE = 0.9
_HEAD_SHARE = 0.75
_NAME_SHARE = 0.6

_NAMES = {
    "trace": "TRACE", "verbose": "TRACE", "v": "TRACE", "fine": "DEBUG", "debug": "DEBUG",
    "d": "DEBUG", "info": "INFO", "information": "INFO", "i": "INFO", "notice": "NOTICE",
    "note": "NOTICE", "log": "INFO", "warn": "WARN", "warning": "WARN", "w": "WARN",
    "err": "ERROR", "error": "ERROR", "e": "ERROR", "severe": "ERROR", "failure": "ERROR",
    "fatal": "FATAL", "f": "FATAL", "crit": "FATAL", "critical": "FATAL", "alert": "FATAL",
    "emerg": "FATAL", "panic": "FATAL",
}  # fmt: skip
ERRORS = frozenset({"ERROR", "FATAL"})
_LEVEL = re.compile(
    r"[\[(<\"*]*(?:(?:level|severity|lvl|loglevel)=\"?)?(?:[\w.-]{1,40}:)?([A-Za-z]{3,11})"
    r"[\])>\"*:,]*"
)
_LETTER = re.compile(r"([VDIWEF])(?:/.*|\d{4})?")
_TIME = re.compile(
    r"[\[(]?(?:[\w.-]{1,20}=)?\"?\d[\d:.,/T+Z_-]*\"?[\])]?"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec),?"
)
_DATE_OR_CLOCK = re.compile(r"[\[(<]?\d+[:/-]\d[\d:.,/T+Z_-]*[\])>:,]*")
_BEFORE_MAX = 2
_MARK = re.compile(r"[-:|*>]{1,3}")
_BRACKETED = re.compile(r"[\[(<].*")
_NAMED = re.compile(r"[\w$./@()<>\[\]#-]{1,120}:|[A-Za-z_][\w$]*(?:[./][\w$]+)+:?")
_PLACE = re.compile(r"[\w$./@-]{1,120}:\d+\]")
# Optional parts before the message, each used if the lines have it.
_AFTER = {
    "time": rf"(?:{_BETWEEN}\d+[:/-]\d[\d:.,/T+Z_-]*(?=\s))?",
    "place": r"(?:[\s|]*[\w$./@-]{1,120}:\d+\](?=\s|$))?",
    "mark": r"(?:\s*[-:|*>]{1,3}(?=\s))?",
    "bracketed": rf"(?:{_BETWEEN}\[[^\]\n]{{0,100}}\][^\s|]*)?",
    "number": rf"(?:{_BETWEEN}\d+(?=[\s|:,\]]))?",
    "name": r"(?:[\s|]*(?:[\w$./@()<>\[\]#-]{1,120}:|[A-Za-z_][\w$]*(?:[./][\w$]+)+:?)(?=\s|$))?",
}


class Format(Struct, frozen=True):
    """The common prefix of log lines."""

    pattern: re.Pattern[str] | None
    has_levels: bool

    def read(self, line: str) -> tuple[str, int] | None:
        """Return the level of a line ("" if lines have none) and the offset of its message.

        Return None if the line does not match: it then continues the previous line.
        """
        if self.pattern is None:
            return "", 0
        match = self.pattern.match(line)
        if match is None:
            return None
        if not self.has_levels:
            return "", match.end()
        level = level_of(match[1])
        return None if level is None else (level, match.end())


def level_of(token: str) -> str | None:
    """Return the normalised level that a token means, or None."""
    match = _LEVEL.fullmatch(token)
    if match is not None and (name := _NAMES.get(match[1].lower())) is not None:
        return name
    letter = _LETTER.fullmatch(token)
    return _NAMES[letter[1].lower()] if letter else None


def format_of(lines: Sequence[str]) -> Format:
    """Return the format that most lines share."""
    step = max(1, len(lines) // _SAMPLE_LINES)
    rows = [_columns(line) for line in lines[::step] if line[:1] not in ("", " ", "\t", "}")]
    rows = [row for row in rows if row]
    if len(rows) < 3:
        return Format(None, False)
    at = _level_column(rows)
    if at is not None:
        kept = [row for row in rows if len(row) > at and level_of(row[at]) is not None]
        after = "".join(_after(kept, at + 1))
        head = rf"(?:{_BETWEEN}{_TOKEN}){{{at}}}{_BETWEEN}({_TOKEN})"
        return Format(re.compile(head + after + _BETWEEN), True)
    width = _head_width(rows)
    if not width:
        return Format(None, False)
    after = "".join(_after(rows, width))
    return Format(re.compile(rf"(?:{_BETWEEN}{_TOKEN}){{{width}}}{after}{_BETWEEN}"), False)


def _columns(line: str) -> list[str]:
    found: list[str] = []
    at = 0
    while len(found) < _COLUMNS_MAX and (match := _TOKENS.match(line, at)) is not None:
        found.append(match[1])
        at = match.end()
    return found


def _share(rows: Sequence[Sequence[str]], at: int, pattern: re.Pattern[str]) -> float:
    """Return the share of rows whose cell in a column matches a pattern."""
    there = sum(len(row) > at and pattern.fullmatch(row[at]) is not None for row in rows)
    return there / max(1, len(rows))


def _level_column(rows: Sequence[Sequence[str]]) -> int | None:
    counts: Counter[int] = Counter()
    letters: Counter[int] = Counter()
    for row in rows:
        for at, token in enumerate(row[:_COLUMNS_MAX]):
            if level_of(token) is not None:
                counts[at] += 1
                letters[at] += len(token) == 1 or token[1:2] in "/0123456789"
    for at in sorted(counts):
        share = _LETTER_SHARE if letters[at] > counts[at] // 2 else _LEVEL_SHARE
        if counts[at] >= share * len(rows):
            return at
    return None


def _head_width(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of header columns: time, numbers and similar, and names if all rows have
    one.
    """
    width = _before_time(rows)
    while width < _COLUMNS_MAX and (
        _share(rows, width, _TIME) >= _HEAD_SHARE
        or _share(rows, width, _MARK) >= _HEAD_SHARE
        or _share(rows, width, _BRACKETED) >= _HEAD_SHARE
    ):
        width += 1
    if not width:
        return 0
    # A host name, which is nearly constant, before the name of the writer.
    for more in range(3):
        if _share(rows, width + more, _NAMED) >= _NAME_SHARE:
            return width + more
        seen = Counter(row[width + more] for row in rows if len(row) > width + more)
        if len(seen) > max(3, len(rows) // 20):
            # Many hosts, if nearly all lines have a writer's name after them.
            is_named = _share(rows, width + more + 1, _NAMED) >= _HEAD_SHARE
            return width + more + 1 if is_named else width
    return width


def _before_time(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of nearly constant columns before a time; 0 if none."""
    for at in range(_BEFORE_MAX + 1):
        if _share(rows, at, _DATE_OR_CLOCK) >= _HEAD_SHARE:
            return at
        seen = Counter(row[at] for row in rows if len(row) > at)
        if len(seen) > max(3, len(rows) // 20):
            break
    return 0


def _after(rows: Sequence[Sequence[str]], at: int) -> list[str]:
    """Return patterns for the text between the level, or the time, and the message."""
    found: list[str] = []
    while at < _COLUMNS_MAX:
        if _share(rows, at, _MARK) >= _HEAD_SHARE:
            found.append(_AFTER["mark"])
        elif _share(rows, at, _BRACKETED) >= _NAME_SHARE:
            found.append(_AFTER["bracketed"])
        elif _share(rows, at, re.compile(r"\d+")) >= _LETTER_SHARE:
            found.append(_AFTER["number"])
        elif _share(rows, at, _DATE_OR_CLOCK) >= _LETTER_SHARE:
            found.append(_AFTER["time"])
        elif _share(rows, at, _PLACE) >= _LETTER_SHARE:
            return [*found, _AFTER["place"]]
        elif _share(rows, at, _NAMED) >= _NAME_SHARE:
            return [*found, _AFTER["name"]]
        else:
            break
        at += 1
    return found
