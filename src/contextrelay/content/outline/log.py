"""Logs: the common line format, then the messages by kind, errors and warnings first.

A kind is a message without its variable parts: numbers, identifiers. Lines of one kind are shown
once, with their number and the first line.

Rule: each error is shown by its own kind, so that a thousand repetitions of one do not hide the
only occurrence of another. The end of a message is kept, because kinds differ most there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from copy import copy

from msgspec import Struct

from contextrelay.content.outline.exceptions import exception_pieces, exceptions, is_shown
from contextrelay.content.outline.layout import OutlineDraft, OutlinePiece, shorten
from contextrelay.content.shown_lines import is_error_line, is_warning_line
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_PIECES_MAX

# Maximum number of lines that differ in more than digits; twice as many are searched for errors.
OUTLINE_SHAPES_CHARS_MAX = 5_000_000

# Including the sign: a negative id is not another kind.
_NUMBER = r"-?\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{6,}\b|0x[0-9a-fA-F]+|-?\d+(?:[.,:]\d+)*"
_NUMBERS = re.compile(_NUMBER)
_VARYING = re.compile(
    r"\"[^\"]{0,200}\"|'[^']{0,200}'|\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b"
    r"|(?<![\w.+-])[\w.+-]++@[\w.-]+|(?:/[\w.+~%@=-]+){2,}/?|" + _NUMBER
)
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_KEY_CHARS = 400
_MESSAGE_CHARS = 200
# The end of a line is always shown; for a short message with the text before it.
_TAIL_CHARS = 51
# Overhead of a line, in characters.
_LINE_CHARS = 40
# Above this number, kinds with the same beginning are merged.
_ALIKE_MIN = 8
# Above this number of kinds, fewer common words suffice.
_KINDS_MANY = 100
_KINDS_SHOWN_MAX = 200
# If there are few, messages are shown in full, or nearly, before other lines.
_WHOLE_MAX, _HALF_MAX, _HALF_CHARS = 3, 8, 120
# Above this number, kinds of errors are merged by more than their numbers.
_TROUBLE_KINDS_MAX = 40
_WHOLE_KINDS_MAX = 15
_WHOLE_LINES_MAX = 5_000
_RANK_FIRST, _RANK_MORE, _RANK_PLAIN, _RANK_NEXT = 1, 2, 3, 4


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a log, or None if there are no lines."""
    lines = source.short_lines
    if not lines:
        return None
    shared = format_of(lines)
    gathered = _gather(source, shared)
    pieces = [OutlinePiece(0, (f"log, {source.measure()}",))]
    if times := span(lines):
        pieces.append(OutlinePiece(1, (f"time {times[0]} to {times[1]}",)))
    for line in lines[:200] if shared.pattern is not None else ():
        found = shared.read(line)
        if found is not None and 0 < found[1] < _KEY_CHARS:
            example = shorten(line[: found[1]], 120)
            pieces.append(OutlinePiece(1, (f"each line: {example} <message>",)))
            break
    if gathered.levels:
        counts = ", ".join(f"{name} {count}" for name, count in gathered.levels.most_common())
        pieces.append(OutlinePiece(1, (f"levels: {counts}",)))
    errors, warnings = _by_line(gathered.errors), _by_line(gathered.warnings)
    traces = exceptions(source)
    heads = {each.line: each for each in traces.kinds}
    # A line that only repeats an exception is not shown again.
    shown = [
        each
        for each in errors
        if each.line not in traces.frames and not is_shown(heads.get(each.line), each.text)
    ]
    chars_min = _shortest_chars(len(shown) + len(warnings))
    pieces += _error_pieces("error", errors, shown, chars_min, lines, shared)
    pieces += exception_pieces(traces)
    pieces += _error_pieces("warning", warnings, warnings, chars_min)
    plain = _by_kind([each for each in gathered.plain if each.line not in traces.frames])
    plain = sorted(_merged(plain), key=lambda each: (-each.count, each.line))
    unread = f" ({gathered.unread} lines were not looked at)" if gathered.unread else ""
    if plain or unread:
        others = f"{len(plain)} kinds of other lines{unread}, the most common first:"
        pieces.append(OutlinePiece(_RANK_PLAIN, (others,)))
    for index, each in enumerate(plain[:_KINDS_SHOWN_MAX]):
        head = f"x{each.count} {each.line}" if each.count > 1 else f"{each.line}"
        forms = tuple(f"{head}: {shorten(each.text, chars)}" for chars in (70, 160))
        pieces.append(OutlinePiece(_RANK_PLAIN + (index >= 8), forms))
    left_out = max(0, len(plain) - _KINDS_SHOWN_MAX)
    first = errors[0].line if errors else 1
    return OutlineDraft("log", pieces, f"--lines {max(1, first - 5)}:{first + 6}", left_out)


def whole_lines(noun: str, lines: Sequence[str], numbers: Sequence[int]) -> list[OutlinePiece]:
    """Return error lines by kind, each in full: for records whose structure was shown before."""
    some = [(number, lines[number - 1]) for number in numbers[:_WHOLE_LINES_MAX]]
    kinds = _by_kind([_Message(number, line, 1, number, line) for number, line in some])
    pieces = _error_pieces(noun, kinds, kinds, _shortest_chars(len(kinds)))
    return [OutlinePiece(piece.rank + _RANK_NEXT, piece.forms, piece.glue) for piece in pieces]


class _Message(Struct):
    line: int  # Its first line, numbered from 1.
    text: str
    count: int
    last: int
    line_text: str = ""
    start: int = 0

    def shortened(self, chars_max: int) -> str:
        """Return the message with the end of its line; a long one is cut in the middle."""
        line = self.line_text.rstrip()
        start = self.start
        if len(line) - start < _TAIL_CHARS:
            start = max(0, line.rfind(" ", 0, max(0, len(line) - _TAIL_CHARS)) + 1)
        text = " ".join(line[start:].split())
        if len(text) <= chars_max:
            return text
        return f"{text[: chars_max - _TAIL_CHARS - 1]}…{text[-_TAIL_CHARS:]}"


class _Messages(Struct):
    errors: list[_Message]
    warnings: list[_Message]
    plain: list[_Message]
    levels: Counter[str]
    unread: int = 0  # Lines not examined, because too many differ from all before them.


def _gather(source: Source, shared: LineFormat) -> _Messages:
    """Return the messages by severity.

    Most lines differ from an earlier one only in digits: those are grouped first, all at once,
    which costs a tenth of the rest.
    """
    lines = source.short_lines
    shapes = source.text.encode("utf-8", "replace").translate(_DIGITS).split(b"\n", len(lines))
    del shapes[len(lines) :]
    counts = Counter(shapes)
    lasts = dict(zip(shapes, range(1, len(shapes) + 1), strict=True))
    firsts = dict(zip(reversed(shapes), range(len(shapes), 0, -1), strict=True))
    found = _Messages([], [], [], Counter())
    room_chars = errors_room_chars = OUTLINE_SHAPES_CHARS_MAX
    for shape, number in sorted(firsts.items(), key=lambda each: each[1]):
        line = lines[number - 1]
        if not line or line.isspace():
            continue
        chars = _LINE_CHARS + min(len(line), _KEY_CHARS)
        if room_chars > 0:
            room_chars -= chars
        elif errors_room_chars > 0 and is_error_line(line):
            errors_room_chars -= chars
        else:
            found.unread += counts[shape]
            continue
        level, start = shared.read(line) or ("", 0)
        message = _Message(number, line[start:].strip(), counts[shape], lasts[shape], line, start)
        if level:
            found.levels[level] += message.count
        if level in ERRORS or (not level and is_error_line(line)):
            found.errors.append(message)
        elif level == "WARN" or (not level and is_warning_line(line)):
            found.warnings.append(message)
        else:
            found.plain.append(message)
    return found


def _by_kind(messages: Sequence[_Message]) -> list[_Message]:
    """Merge messages that differ only in numbers; if there are very many kinds, merge more."""
    kinds = _grouped(messages, _NUMBERS)
    return kinds if len(kinds) <= _TROUBLE_KINDS_MAX else _grouped(kinds, _VARYING)


def _by_line(messages: Sequence[_Message]) -> list[_Message]:
    """Group like `_by_kind`; if there are few, equal words of another logger are another kind."""
    kinds = _grouped(messages, _NUMBERS, is_tail=True)
    return kinds if len(kinds) <= _WHOLE_KINDS_MAX else _by_kind(messages)


def _grouped(
    messages: Sequence[_Message], varying: re.Pattern[str], is_tail: bool = False
) -> list[_Message]:
    kinds: dict[str, _Message] = {}
    for each in messages:
        key = varying.sub("*", each.text[:_KEY_CHARS])
        if is_tail and len(key) < _TAIL_CHARS:
            head = varying.sub("*", each.line_text[: each.start])
            key += head[len(key) - _TAIL_CHARS :]
        if (kind := kinds.get(key)) is None:
            kinds[key] = copy(each)
        else:
            kind.count += each.count
            kind.last = max(kind.last, each.last)
    return list(kinds.values())


def _merged(messages: list[_Message], words: int = 2) -> list[_Message]:
    """Merge kinds that share their first words and their length, if there are many."""
    groups: dict[tuple[str, ...], list[_Message]] = {}
    for each in messages:
        # A merge by more words is kept.
        first = each.text.split(" ", words)[:words] if " *" not in each.text else [each.text]
        groups.setdefault((*first, str(each.text.count(" "))), []).append(each)
    merged: list[_Message] = []
    for group in groups.values():
        if len(group) < _ALIKE_MIN:
            merged += group
            continue
        # The common words, with a star for each other word.
        columns = zip(*(each.text.split(" ") for each in group[:500]), strict=False)
        text = " ".join(words[0] if len(set(words)) == 1 else "*" for words in columns)
        count, last = sum(each.count for each in group), max(each.last for each in group)
        merged.append(_Message(group[0].line, text, count, last))
    is_many = words > 1 and len(merged) > _KINDS_MANY
    return _merged(merged, words - 1) if is_many else merged


def _error_pieces(
    noun: str,
    kinds: Sequence[_Message],
    shown: Sequence[_Message],
    chars_min: int,
    lines: Sequence[str] = (),
    shared: LineFormat | None = None,
) -> list[OutlinePiece]:
    """Return a piece with the number of error lines, and one for each kind shown."""
    if not kinds:
        return []
    total = sum(each.count for each in kinds)
    pieces = [OutlinePiece(0, (f"{noun} lines: {total}, {len(kinds)} kinds:",))]
    for index, each in enumerate(shown[:OUTLINE_PIECES_MAX]):
        # The first and the last come before those between.
        is_first = index < 8 or index >= len(shown) - 2
        head = f"{each.line} x{each.count}" if each.count > 1 else f"{each.line}"
        full = f"{head}, last {each.last}" if each.count > 1 else head
        forms = f"{head}: {each.shortened(chars_min)}", f"{full}: {each.shortened(_MESSAGE_CHARS)}"
        pieces.append(OutlinePiece(_RANK_FIRST if is_first else _RANK_MORE, forms))
        # The lines before and after, if there is room.
        for number in (each.line - 1, each.line + 1):
            line = lines[number - 1] if 0 < number <= len(lines) else ""
            if shared is not None and line.strip() and not is_error_line(line):
                start = (shared.read(line) or ("", 0))[1]
                beside = f" {number}: {shorten(line[start:], 70)}"
                pieces.append(OutlinePiece(_RANK_NEXT + 1, (beside,)))
    return pieces


def _shortest_chars(kinds: int) -> int:
    """Return the minimum length at which a message is shown, for this number of kinds."""
    if kinds <= _WHOLE_MAX:
        return _MESSAGE_CHARS
    return _HALF_CHARS if kinds <= _HALF_MAX else _TAIL_CHARS + 8


# The format: the common prefix of lines before the message. Lines are split into columns by spaces
# and brackets. The first column in which most lines have a level is the level. Time, numbers, names
# in brackets and the name of the writer belong to the prefix. A sample of lines determines the
# format, and every line is read by one linear pattern.

_TOKEN = r"(?:\[[^\]\n]{0,100}\][^\s|]*|\"[^\"\n]{0,100}\"|[^\s|]+)"
_GAP = r"[\s|:,]*"
_TOKENS = re.compile(rf"{_GAP}({_TOKEN})")
_COLUMNS_MAX = 12
_SAMPLE_LINES = 600
# Minimum share of lines, without continuation lines, that match the format.
_LEVEL_SHARE, _LETTER_SHARE, _HEAD_SHARE, _NAME_SHARE = 0.4, 0.9, 0.75, 0.6
_LEVELS = {
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
# Optional columns between the level, or the time, and the message: what a cell of the column
# matches, the share of lines that have it, the pattern for it, and whether the message follows.
_OPTIONAL = (
    (_MARK, _HEAD_SHARE, r"(?:\s*[-:|*>]{1,3}(?=\s))?", False),
    (_BRACKETED, _NAME_SHARE, rf"(?:{_GAP}\[[^\]\n]{{0,100}}\][^\s|]*)?", False),
    (re.compile(r"\d+"), _LETTER_SHARE, rf"(?:{_GAP}\d+(?=[\s|:,\]]))?", False),
    (_DATE_OR_CLOCK, _LETTER_SHARE, rf"(?:{_GAP}\d+[:/-]\d[\d:.,/T+Z_-]*(?=\s))?", False),
    (
        re.compile(r"[\w$./@-]{1,120}:\d+\]"),
        _LETTER_SHARE,
        r"(?:[\s|]*[\w$./@-]{1,120}:\d+\](?=\s|$))?",
        True,
    ),
    (_NAMED, _NAME_SHARE, rf"(?:[\s|]*(?:{_NAMED.pattern})(?=\s|$))?", True),
)


class LineFormat(Struct, frozen=True):
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
    if match is not None and (name := _LEVELS.get(match[1].lower())) is not None:
        return name
    letter = _LETTER.fullmatch(token)
    return _LEVELS[letter[1].lower()] if letter else None


def format_of(lines: Sequence[str]) -> LineFormat:
    """Return the format that most lines share."""
    step = max(1, len(lines) // _SAMPLE_LINES)
    rows: list[list[str]] = []
    for line in lines[::step]:
        if line[:1] not in ("", " ", "\t", "}"):
            row: list[str] = []
            at = 0
            while len(row) < _COLUMNS_MAX and (match := _TOKENS.match(line, at)) is not None:
                row.append(match[1])
                at = match.end()
            rows += [row] if row else []
    if len(rows) < 3:
        return LineFormat(None, False)
    at = _level_column(rows)
    if at is not None:
        kept = [row for row in rows if len(row) > at and level_of(row[at]) is not None]
        head = rf"(?:{_GAP}{_TOKEN}){{{at}}}{_GAP}({_TOKEN})"
        return LineFormat(re.compile(head + _optional(kept, at + 1) + _GAP), True)
    width = _head_width(rows)
    if not width:
        return LineFormat(None, False)
    head = rf"(?:{_GAP}{_TOKEN}){{{width}}}"
    return LineFormat(re.compile(head + _optional(rows, width) + _GAP), False)


def _share(rows: Sequence[Sequence[str]], at: int, pattern: re.Pattern[str]) -> float:
    """Return the share of rows whose cell in a column matches a pattern."""
    there = sum(len(row) > at and pattern.fullmatch(row[at]) is not None for row in rows)
    return there / max(1, len(rows))


def _varies(rows: Sequence[Sequence[str]], at: int) -> bool:
    """Return True if a column has many different values."""
    return len({row[at] for row in rows if len(row) > at}) > max(3, len(rows) // 20)


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
    """Return the number of prefix columns: time, numbers and similar, and any names after them."""
    width = 0
    # Nearly constant columns may precede a time.
    for at in range(_BEFORE_MAX + 1):
        if _share(rows, at, _DATE_OR_CLOCK) >= _HEAD_SHARE:
            width = at
            break
        if _varies(rows, at):
            break
    while width < _COLUMNS_MAX and any(
        _share(rows, width, each) >= _HEAD_SHARE for each in (_TIME, _MARK, _BRACKETED)
    ):
        width += 1
    if not width:
        return 0
    # A host name, which is nearly constant, before the name of the writer.
    for at in range(width, width + 3):
        if _share(rows, at, _NAMED) >= _NAME_SHARE:
            return at
        if _varies(rows, at):
            # Many hosts, if nearly all lines have a writer's name after them.
            return at + 1 if _share(rows, at + 1, _NAMED) >= _HEAD_SHARE else width
    return width


def _optional(rows: Sequence[Sequence[str]], at: int) -> str:
    """Return the pattern of the optional columns from this one on."""
    found = ""
    while at < _COLUMNS_MAX:
        for cell, share, pattern, is_last in _OPTIONAL:
            if _share(rows, at, cell) >= share:
                found += pattern
                at = _COLUMNS_MAX if is_last else at + 1
                break
        else:
            break
    return found


# Times. Not in the name of a file.
_TIMESTAMP = re.compile(
    r"(?<![\w.])(?:"
    r"\d{4}[-/.]\d\d[-/.]\d\d[T _-]\d\d[:.]\d\d(?:[:.]\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\d\d/[A-Z][a-z]{2}/\d{4}[: ]\d\d:\d\d:\d\d(?: [+-]\d{4})?"
    r"|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d(?:\.\d+)?(?: \d{4})?"
    r"|\d\d[-/.]\d\d(?:[-/.]\d\d)? \d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"|(?<!\d)\d{6} \d{6}(?!\d)|\d{4}-\d\d-\d\d|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b)"
)
_TIME_CHARS = 120
_TIME_LINES_MAX = 10_000
_CLOCK_CHARS = 13
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NAMED_MONTH = re.compile(
    r"(\d\d)/([A-Z][a-z]{2})/(\d{4})[: ](\S+)"
    r"|(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2}) +(\d\d?) (\S+)(?: (\d{4}))?"
)


def span(lines: Sequence[str]) -> tuple[str, str] | None:
    """Return the earliest and latest time; without years, the first and last."""
    step = max(1, len(lines) // _TIME_LINES_MAX)
    sample = [*lines[:200], *lines[200:-200:step], *lines[-200:]] if len(lines) > 400 else lines
    times = (_TIMESTAMP.search(line, 0, _TIME_CHARS) for line in sample)
    found = [match[0] for match in times if match is not None]
    if not found:
        return None
    # Times in another format than the first have another meaning.
    first = found[0]
    if _NAMED_MONTH.match(first) is None:
        same = [text for text in found if len(text) == len(first)]
        # A time without a date restarts every day.
        has_date = len(first) > _CLOCK_CHARS
        return (min(same), max(same)) if has_date else (first, same[-1])
    keys: list[tuple[tuple[str, ...], str]] = []  # The year first, if there is one.
    for text in dict.fromkeys(found):
        if match := _NAMED_MONTH.match(text):
            day, month, year, clock = match.group(1, 2, 3, 4)
            if day is None:
                day, month, year, clock = match.group(6, 5, 8, 7)
            number = _MONTHS.index(month) if month in _MONTHS else 12
            keys.append(((year or "", f"{number:02}", day.zfill(2), clock), text))
    if not keys[0][0][0] and keys[0][0] > keys[-1][0]:
        return first, keys[-1][1]
    return min(keys)[1], max(keys)[1]
