"""Prose, and any other text: exceptions, then sections and paragraphs."""

from __future__ import annotations

import re

from contextrelay.content.outline.exceptions import exception_pieces, exceptions
from contextrelay.content.outline.layout import OutlineDraft, OutlinePiece, shorten
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_PIECES_MAX

_RULE = re.compile(r"\s*([=\-~^*#_.])\1{2,}\s*")
# Possessive quantifiers (`++`, `*+`): with backtracking, a row of forty digits would take
# practically forever.
_NUMBERED = re.compile(
    r"(?:(?:\d++|[A-Z]|[IVX]++)[.)](?:\d++\.?)*+|(?:Chapter|Section|Part) \S++)\s++\S"
)
_HEADING_CHARS_MAX = 100
# With this many traceback lines, the text consists of nothing else.
_TRACE_SHARE = 0.3


def draft_outline(source: Source) -> OutlineDraft:
    """Return the outline of any text."""
    lines = source.short_lines
    headings = _headings(lines)
    if len(headings) >= 2:
        shown, short, long = headings, 60, 100
        start, stop = headings[0][0], headings[1][0]
    else:
        shown, short, long = _paragraphs(lines), 70, 200
        start, stop = 1, min(len(lines), 40) + 1
    traces = exceptions(source)
    kind = "text"
    if traced := traces.kinds:
        start, stop = max(1, traced[0].line - 5), traced[0].line + 6
        # Frames, and lines that name the exception, are already shown.
        said = traces.frames | {each.line for each in traced}
        shown = [each for each in shown if each[0] not in said]
        kind = "trace" if len(said) >= _TRACE_SHARE * len(lines) else kind
    pieces = [OutlinePiece(0, (f"{kind}, {source.measure()}",)), *exception_pieces(traces)]
    for index, (line, text) in enumerate(shown[:OUTLINE_PIECES_MAX]):
        rank = 2 if len(headings) < 2 and index > 2 else 1
        forms = (f"{line}: {shorten(text, short)}", f"{line}: {shorten(text, long)}")
        pieces.append(OutlinePiece(rank, forms))
    left_out = max(0, len(shown) - OUTLINE_PIECES_MAX)
    return OutlineDraft(kind, pieces, f"--lines {start}:{stop}" if lines else "", left_out)


def _headings(lines: list[str]) -> list[tuple[int, str]]:
    """Return lines that are underlined, numbered, or in capitals between blank lines."""
    found: list[tuple[int, str]] = []
    for index, line in enumerate(lines):
        text = line.strip()
        if not text or len(text) > _HEADING_CHARS_MAX or _RULE.fullmatch(line):
            continue
        below = lines[index + 1] if index + 1 < len(lines) else ""
        is_heading = _RULE.fullmatch(below) and len(below.strip()) >= len(text) * 2 // 3
        if not below.strip() and (index == 0 or not lines[index - 1].strip()):
            is_loud = text.isupper() and len(text) > 3
            is_heading = is_loud or (_NUMBERED.match(text) and not line.startswith("    "))
        if is_heading:
            found.append((index + 1, text))
    return found


def _paragraphs(lines: list[str]) -> list[tuple[int, str]]:
    """Return the first lines of paragraphs; without paragraphs, lines at equal distances."""
    found = [
        (index + 1, line)
        for index, line in enumerate(lines)
        if line.strip() and (index == 0 or not lines[index - 1].strip())
    ]
    if len(found) >= 3 or len(lines) < 3:
        return found
    step = max(1, len(lines) // 40)
    return [(index + 1, lines[index]) for index in range(0, len(lines), step)]
