"""Logs: templates with counts, the time they span, levels, and every error with its neighbours.

A template is a line with what varies taken out: numbers, identifiers, quoted text. Lines that have
the same template are shown once, with how many they are and where the first is.

Rule: an error is shown by its own template, so that the thousandth repetition of one does not hide
the only occurrence of another.
"""

from __future__ import annotations

import re
from collections import Counter

from msgspec import Struct

from contextrelay.limits import OUTLINE_PIECES_MAX, OUTLINE_SHAPES_CHARS_MAX
from contextrelay.logic.content.error_lines import is_error_line
from contextrelay.logic.content.source import Source
from contextrelay.logic.outline.layout import Drawn, Piece, quoted

_LEVEL = re.compile(
    r"(?<![\w-])(TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL)(?![\w-])"
    r"|(?:\[|level=\"?)(trace|debug|info|notice|warn(?:ing)?|error|fatal|critical)(?![\w-])"
)
_TIME = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\d\d/[A-Z][a-z]{2}/\d{4}[: ]\d\d:\d\d:\d\d(?: [+-]\d{4})?"
    r"|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: \d{4})?"
    r"|\d{4}-\d\d-\d\d|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"
)
_TIME_CHARS_MAX = 60
_VARYING = re.compile(
    r"\"[^\"]{0,200}\"|'[^']{0,200}'|\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b"
    r"|\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{6,}\b|0x[0-9a-fA-F]+|(?<![\w.+-])[\w.+-]++@[\w.-]+"
    r"|(?:/[\w.+~%@=-]+){2,}/?|\d+(?:[.,:]\d+)*"
)
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_TEMPLATE_CHARS = 160
# What a line costs in addition to its characters, in characters.
_LINE_CHARS = 40
# Templates that begin alike are one, where they are more than this.
_ALIKE_MIN = 8
_TEMPLATES_SHOWN_MAX = 200


def draw(source: Source) -> Drawn | None:
    """The outline of a log; None where there are no lines."""
    lines = source.short_lines
    if not lines:
        return None
    gathered = _gather(source)
    pieces = [Piece(0, (f"log, {source.measure()}",))]
    span = _span(lines)
    if span:
        pieces.append(Piece(0, (f"time {span[0]} to {span[1]}",)))
    if gathered.levels:
        counts = ", ".join(f"{name} {count}" for name, count in gathered.levels.most_common())
        pieces.append(Piece(0, (f"levels: {counts}",)))
    pieces += _errors(gathered, lines)
    plain = _merged([each for each in gathered.templates.values() if not each.is_error])
    plain.sort(key=lambda each: (-each.count, each.line))
    unread = f" ({gathered.unread} lines were not looked at)" if gathered.unread else ""
    others = f"{len(plain)} kinds of other lines{unread}, the most common first:"
    pieces.append(Piece(1, (others,)))
    pieces += [
        Piece(2 + (index >= 8), (_line(each, 70), _line(each, _TEMPLATE_CHARS)))
        for index, each in enumerate(plain[:_TEMPLATES_SHOWN_MAX])
    ]
    left_out = max(0, len(plain) - _TEMPLATES_SHOWN_MAX)
    first = next((each.line for each in gathered.templates.values() if each.is_error), 1)
    return Drawn("log", pieces, f"--lines {max(1, first - 5)}:{first + 6}", left_out)


class _Template(Struct):
    line: int
    """Where it is first, from 1."""
    text: str
    is_error: bool
    count: int = 0
    last: int = 0


class _Gathered(Struct):
    templates: dict[str, _Template]
    levels: Counter[str]
    unread: int = 0
    """Lines that were not looked at, because too many are unlike all before them."""


def _gather(source: Source) -> _Gathered:
    """Count templates. Most lines differ from one before in digits alone: those are put together
    first, all at once, because that costs a tenth of the rest."""
    templates: dict[str, _Template] = {}
    levels: Counter[str] = Counter()
    lines = source.short_lines
    shapes = source.text.encode("utf-8", "replace").translate(_DIGITS).split(b"\n", len(lines))
    del shapes[len(lines) :]
    counts = Counter(shapes)
    lasts = dict(zip(shapes, range(1, len(shapes) + 1), strict=True))
    firsts = dict(zip(reversed(shapes), range(len(shapes), 0, -1), strict=True))
    unread, room_chars, errors_room_chars = 0, OUTLINE_SHAPES_CHARS_MAX, OUTLINE_SHAPES_CHARS_MAX
    for shape, number in sorted(firsts.items(), key=lambda each: each[1]):
        line = lines[number - 1]
        if not line or line.isspace():
            continue
        chars = _LINE_CHARS + min(len(line), 2 * _TEMPLATE_CHARS)
        if room_chars > 0:
            room_chars -= chars
        elif errors_room_chars > 0 and is_error_line(line):
            errors_room_chars -= chars
        else:
            unread += counts[shape]
            continue
        template, level = _new(templates, number, line)
        template.count += counts[shape]
        template.last = max(template.last, lasts[shape])
        if level:
            levels[level] += counts[shape]
    return _Gathered(templates, levels, unread)


def _new(templates: dict[str, _Template], number: int, line: str) -> tuple[_Template, str]:
    shown = _TIME.sub("", line[:_TIME_CHARS_MAX], count=1) + line[_TIME_CHARS_MAX:]
    key = _VARYING.sub("*", shown[: 2 * _TEMPLATE_CHARS])
    template = templates.get(key)
    if template is None:
        text = shown.strip(" -[]|:\t")
        template = templates[key] = _Template(number, text, is_error_line(line))
    level = _LEVEL.search(line, 0, 120)
    name = (level[1] or level[2]).upper() if level else ""
    return template, "WARN" if name == "WARNING" else name


def _merged(templates: list[_Template]) -> list[_Template]:
    """Join templates that have their first two words and their length in common, if many do."""
    groups: dict[tuple[str, ...], list[_Template]] = {}
    for each in templates:
        words = each.text.split(" ", 3)
        groups.setdefault((*words[:2], str(each.text.count(" "))), []).append(each)
    merged: list[_Template] = []
    for group in groups.values():
        if len(group) < _ALIKE_MIN:
            merged += group
            continue
        # The words that all have, with a star for each other.
        columns = zip(*(each.text.split(" ") for each in group[:500]), strict=False)
        text = " ".join(words[0] if len(set(words)) == 1 else "*" for words in columns)
        count = sum(each.count for each in group)
        last = max(each.last for each in group)
        merged.append(_Template(group[0].line, text, False, count, last))
    return merged


def _span(lines: list[str]) -> tuple[str, str] | None:
    first = next(filter(None, (_TIME.search(line, 0, 120) for line in lines[:200])), None)
    last = next(filter(None, (_TIME.search(line, 0, 120) for line in lines[:-200:-1])), None)
    return (first[0], last[0]) if first and last else None


def _errors(gathered: _Gathered, lines: list[str]) -> list[Piece]:
    errors = sorted(
        (each for each in gathered.templates.values() if each.is_error), key=lambda each: each.line
    )
    if not errors:
        return []
    total = sum(each.count for each in errors)
    pieces = [Piece(0, (f"error lines: {total}, {len(errors)} kinds:",))]
    for index, each in enumerate(errors[:OUTLINE_PIECES_MAX]):
        # The first and the last come before those between.
        rank = 1 if index < 6 or index >= len(errors) - 2 else 2
        head = f"{each.line} x{each.count}, last {each.last}" if each.count > 1 else f"{each.line}"
        forms = (f"{head}: {quoted(each.text, 80)}", f"{head}: {quoted(each.text, 240)}")
        pieces.append(Piece(rank, forms))
        # The lines before and after, which are no errors themselves.
        for number in (each.line - 1, each.line + 1):
            line = lines[number - 1] if 0 < number <= len(lines) else ""
            if line.strip() and not is_error_line(line):
                pieces.append(Piece(4, (f" {number}: {quoted(line, 70)}",)))
    return pieces


def _line(each: _Template, chars_max: int) -> str:
    times = f"x{each.count} " if each.count > 1 else ""
    return f"{times}{each.line}: {quoted(each.text, chars_max)}"
