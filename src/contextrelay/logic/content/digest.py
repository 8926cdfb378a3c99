"""Digests: head, tail, error lines and outline of a body, where that shows more than a head.

Rule: within the budget by the real tokenizer, after defusing; every line that is shown has its
number, and how many are not is counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from contextrelay.limits import DIGEST_LINES_MAX, OUTLINE_LINE_CHARS_MAX
from contextrelay.logic.content.source import Source
from contextrelay.logic.outline import outline
from contextrelay.logic.outline.log import error_lines
from contextrelay.logic.tokens import count_tokens, cut_to_tokens
from contextrelay.logic.untrusted.defuse import defuse
from contextrelay.model.artifact import ArtifactType

_LINE_CHARS = 240
_WITH_ERRORS = ("log", "tool_output", "text", "json", "csv")


class Digest(Struct, frozen=True):
    """A digest as it is made of a body."""

    kind: str
    text: str
    tokens: int
    omitted_lines: int
    patterns: tuple[str, ...]


def digest(source: Source, kind: ArtifactType, tokens_max: int) -> Digest:
    """Digest a body: two fifths of the room for its outline, the rest for lines of it."""
    if not source.is_text:
        shape = outline(source, kind, tokens_max)
        return Digest(shape.kind, shape.text, shape.tokens, 0, shape.patterns)
    if not source.is_partial and len(source.text) <= 8 * tokens_max:
        whole = defuse(source.text)
        tokens = count_tokens(whole.text)
        if tokens <= tokens_max:
            return Digest(kind, whole.text, tokens, 0, whole.patterns)
    shape = outline(source, kind, tokens_max * 2 // 5)
    budget_tokens = tokens_max - shape.tokens
    # In code and documents such words are no news.
    errors = error_lines(source.text, DIGEST_LINES_MAX) if kind in _WITH_ERRORS else []
    errors = [index for index in errors if index < len(source.lines)]
    costs: dict[int, int] = {}
    while True:
        shown = _lines(source, errors, budget_tokens, costs)
        defused = defuse("\n".join(_with_lines(shape.text, source.lines, shown)))
        tokens = count_tokens(defused.text)
        if tokens <= tokens_max or budget_tokens <= 8:
            break
        budget_tokens -= max(tokens - tokens_max, budget_tokens // 8)
    text = cut_to_tokens(defused.text, tokens_max)
    omitted = source.line_count - len(shown)
    return Digest(shape.kind, text, count_tokens(text), omitted, defused.patterns)


def _lines(
    source: Source, errors: list[int], budget_tokens: int, costs: dict[int, int]
) -> list[int]:
    """Which lines are shown, by index: errors, then head and tail in turns, as far as they fit.

    `costs`: what lines take, of each counted once.
    """
    lines = source.short_lines
    left = budget_tokens - 12
    shown: set[int] = set()
    # Errors may take half of it: the first and the last of them, then those between.
    for index in _ends_first(errors):
        cost = _cost(lines, index, costs)
        if cost <= left - budget_tokens // 2:
            shown.add(index)
            left -= cost
    for index in _ends_first(range(min(len(lines), DIGEST_LINES_MAX)), len(lines)):
        if index in shown:
            continue
        cost = _cost(lines, index, costs)
        if cost > left:
            break
        shown.add(index)
        left -= cost
    return sorted(shown)


def _ends_first(indexes: range | list[int], size: int | None = None) -> list[int]:
    """First, last, second, last but one, ...; of `size` lines if there are more than indexes."""
    count = len(indexes)
    order = [at // 2 if at % 2 == 0 else count - 1 - at // 2 for at in range(count)]
    if size is not None and size > count:
        return [at if at < (count + 1) // 2 else size - (count - at) for at in order]
    return [indexes[at] for at in order]


def _cost(lines: list[str], index: int, costs: dict[int, int]) -> int:
    if index not in costs:
        costs[index] = count_tokens(f"{index + 1}: {_shown_line(lines[index])}\n")
    return costs[index]


def _shown_line(line: str) -> str:
    """A line as it is shown: as it is, up to a length."""
    line = line.rstrip()
    if len(line) <= _LINE_CHARS:
        return line
    return f"{line[:_LINE_CHARS]}… ({min(len(line), OUTLINE_LINE_CHARS_MAX)}+ characters)"


def _with_lines(shape: str, lines: list[str], shown: list[int]) -> Iterator[str]:
    """The outline, then the lines, with a mark where some are left out."""
    yield from (shape, "--- lines")
    previous = -1
    for index in (*shown, len(lines)):
        if index > previous + 1:
            yield f"… {index - previous - 1} lines"
        if index < len(lines):
            yield f"{index + 1}: {_shown_line(lines[index])}"
        previous = index
