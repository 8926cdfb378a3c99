"""Shown lines: which lines of a text fit into a number of tokens, and their display."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from contextrelay.limits import OUTLINE_LINE_CHARS_MAX

_LINE_CHARS, _LINE_CHARS_MIN = 240, 40
# Tokens reserved for marks of omitted lines and the like.
_MARKS_TOKENS = 12


class Lines(Protocol):
    """Lines of a text by index; `len` is their total, though only some may be known."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> str: ...


def choose_lines(
    lines: Lines,
    errors: list[int],
    candidates: Sequence[int],
    budget_tokens: int,
    costs: dict[int, int],
    count: Callable[[str], int],
    chars_max: int = _LINE_CHARS,
) -> list[int]:
    """Return the indexes of the lines to show: errors, then candidates in order, as far as they
    fit.

    `costs`: the cached costs of lines.
    """
    left = budget_tokens - _MARKS_TOKENS
    shown: set[int] = set()

    def cost_of(index: int) -> int:
        if index not in costs:
            costs[index] = count(f"{index + 1}: {_shown_line(lines[index], chars_max)}\n")
        return costs[index]

    # Errors may use half of it, a single one all of it: the first and the last, then those between.
    for index in ends_first(errors):
        cost = cost_of(index)
        if cost <= left - (budget_tokens // 2 if shown else 0):
            shown.add(index)
            left -= cost
    for index in candidates:
        if index in shown:
            continue
        cost = cost_of(index)
        if cost > left:
            break
        shown.add(index)
        left -= cost
    return sorted(shown)


def ends_first(indexes: Sequence[int]) -> list[int]:
    """Order indexes as first, last, second, last but one, ..."""
    count = len(indexes)
    order = (at // 2 if at % 2 == 0 else count - 1 - at // 2 for at in range(count))
    return [indexes[at] for at in order]


def chars_for(tokens_max: int) -> int:
    """Return the maximum line length: less for a small budget, so that one line fits."""
    return min(_LINE_CHARS, max(_LINE_CHARS_MIN, 2 * tokens_max - 80))


def _shown_line(line: str, chars_max: int) -> str:
    """Return a line as shown, truncated if long."""
    line = line.rstrip()
    if len(line) <= chars_max:
        return line
    return f"{line[:chars_max]}… ({min(len(line), OUTLINE_LINE_CHARS_MAX)}+ characters)"


def with_marks(lines: Lines, shown: list[int], chars_max: int = _LINE_CHARS) -> Iterator[str]:
    """Yield the lines with their numbers, and a mark for omitted lines."""
    previous = -1
    for index in (*shown, len(lines)):
        if index > previous + 1:
            yield f"… {index - previous - 1} lines"
        if index < len(lines):
            yield f"{index + 1}: {_shown_line(lines[index], chars_max)}"
        previous = index
