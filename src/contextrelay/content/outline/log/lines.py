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

from contextrelay.content.error_lines import is_error_line, is_warning_line
from contextrelay.content.outline.layout import OutlineDraft, OutlinePiece, quoted
from contextrelay.content.outline.log.exceptions import exception_pieces, exceptions, is_shown
from contextrelay.content.outline.log.format import ERRORS, Format, format_of
from contextrelay.content.outline.log.times import span
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
    if example := _example(lines, shared):
        pieces.append(OutlinePiece(1, (f"each line: {example}<message>",)))
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
    plain = [each for each in gathered.plain if each.line not in traces.frames]
    plain = _merged(_by_kind(plain))
    plain.sort(key=lambda each: (-each.count, each.line))
    unread = f" ({gathered.unread} lines were not looked at)" if gathered.unread else ""
    if plain or unread:
        others = f"{len(plain)} kinds of other lines{unread}, the most common first:"
        pieces.append(OutlinePiece(_RANK_PLAIN, (others,)))
    pieces += [
        OutlinePiece(_RANK_PLAIN + (index >= 8), (_line(each, 70), _line(each, 160)))
        for index, each in enumerate(plain[:_KINDS_SHOWN_MAX])
    ]
    left_out = max(0, len(plain) - _KINDS_SHOWN_MAX)
    first = errors[0].line if errors else 1
    return OutlineDraft("log", pieces, f"--lines {max(1, first - 5)}:{first + 6}", left_out)


def whole_lines(noun: str, lines: Sequence[str], numbers: Sequence[int]) -> list[OutlinePiece]:
    """Return error lines by kind, each in full: for records whose structure was shown before."""
    some = [(number, lines[number - 1]) for number in numbers[:_WHOLE_LINES_MAX]]
    kinds = _by_kind([_Message(number, line, 1, number, line) for number, line in some])
    pieces = _error_pieces(noun, kinds, kinds, _shortest_chars(len(kinds)))
    return [OutlinePiece(piece.rank + _RANK_NEXT, piece.forms, piece.glue) for piece in pieces]


def _example(lines: Sequence[str], shared: Format) -> str:
    """Return the prefix of the first line of the format."""
    for line in lines[:200] if shared.pattern is not None else ():
        found = shared.read(line)
        if found is not None and 0 < found[1] < _KEY_CHARS:
            return f"{quoted(line[: found[1]], 120)} "
    return ""


class _Message(Struct):
    line: int
    """Its first line, numbered from 1."""
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


class _Gathered(Struct):
    errors: list[_Message]
    warnings: list[_Message]
    plain: list[_Message]
    levels: Counter[str]
    unread: int = 0
    """Lines not examined, because too many differ from all before them."""


def _gather(source: Source, shared: Format) -> _Gathered:
    """Group messages. Most lines differ from an earlier one only in digits: those are grouped
    first, all at once, which costs a tenth of the rest.
    """
    lines = source.short_lines
    shapes = source.text.encode("utf-8", "replace").translate(_DIGITS).split(b"\n", len(lines))
    del shapes[len(lines) :]
    counts = Counter(shapes)
    lasts = dict(zip(shapes, range(1, len(shapes) + 1), strict=True))
    firsts = dict(zip(reversed(shapes), range(len(shapes), 0, -1), strict=True))
    found = _Gathered([], [], [], Counter())
    room_chars, errors_room_chars = OUTLINE_SHAPES_CHARS_MAX, OUTLINE_SHAPES_CHARS_MAX
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
        read = shared.read(line)
        level, start = read or ("", 0)
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
        kind = kinds.get(key)
        if kind is None:
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
        count = sum(each.count for each in group)
        last = max(each.last for each in group)
        merged.append(_Message(group[0].line, text, count, last))
    is_many = words > 1 and len(merged) > _KINDS_MANY
    return _merged(merged, words - 1) if is_many else merged


def _error_pieces(
    noun: str,
    kinds: Sequence[_Message],
    shown: Sequence[_Message],
    chars_min: int,
    lines: Sequence[str] = (),
    shared: Format | None = None,
) -> list[OutlinePiece]:
    """Return a piece with the number of error lines, and one for each kind shown."""
    if not kinds:
        return []
    total = sum(each.count for each in kinds)
    pieces = [OutlinePiece(0, (f"{noun} lines: {total}, {len(kinds)} kinds:",))]
    for index, each in enumerate(shown[:OUTLINE_PIECES_MAX]):
        # The first and the last come before those between.
        is_first = index < 8 or index >= len(shown) - 2
        rank = _RANK_FIRST if is_first else _RANK_MORE
        head = f"{each.line} x{each.count}" if each.count > 1 else f"{each.line}"
        full = f"{head}, last {each.last}" if each.count > 1 else head
        short = f"{head}: {each.shortened(chars_min)}"
        pieces.append(OutlinePiece(rank, (short, f"{full}: {each.shortened(_MESSAGE_CHARS)}")))
        # The lines before and after, if there is room.
        for number in (each.line - 1, each.line + 1):
            line = lines[number - 1] if 0 < number <= len(lines) else ""
            if shared is not None and line.strip() and not is_error_line(line):
                start = (shared.read(line) or ("", 0))[1]
                pieces.append(
                    OutlinePiece(_RANK_NEXT + 1, (f" {number}: {quoted(line[start:], 70)}",))
                )
    return pieces


def _shortest_chars(kinds: int) -> int:
    """Return the minimum length at which a message is shown, for this number of kinds."""
    if kinds <= _WHOLE_MAX:
        return _MESSAGE_CHARS
    return _HALF_CHARS if kinds <= _HALF_MAX else _TAIL_CHARS + 8


def _line(each: _Message, chars_max: int) -> str:
    times = f"x{each.count} " if each.count > 1 else ""
    return f"{times}{each.line}: {quoted(each.text, chars_max)}"
