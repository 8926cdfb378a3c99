"""Lines of a text: which ones report errors, which ones fit into a budget, and their display."""

from __future__ import annotations

import re
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
    """Return the indexes of lines to show that fit: errors, then candidates in order.

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


# These words do not count as part of a name: libgpg-error, error.log, test_errors.
_ERROR = re.compile(
    r"(?:(?<![\w./-])(?:ERRORS?|FATAL|CRITICAL|CRIT|PANIC|EMERG|ALERT|SEVERE|FAILED|FAILURE|FAIL"
    r"|[Ee]rrors?|[Ff]atal|[Pp]anic|[Ff]ailed|[Ff]ailures?|[Ff]ailing|Traceback|[Uu]nhandled"
    r"|[Ss]egfault|[Ss]egmentation fault|[Aa]borted|[Ee]xception)|(?:Error|Exception))(?![\w./-]\w)"
)
# A fast filter: a line without any of these words, like most lines, cannot match the slow pattern.
_HINTS = (
    *("rror", "RROR", "ail", "AIL", "xception", "atal", "ATAL", "anic", "ANIC", "CRIT"),
    *("EMERG", "ALERT", "SEVERE", "Traceback", "nhandled", "eg", "borted"),
)
_NO_ERROR = re.compile(
    r"\b(?:0|no|without|zero) (?:errors?|fail\w+)|(?:errors?|failed|failures?)[=:] ?0\b"
)


def is_error_line(line: str) -> bool:
    """Return True if a line reports an error or a failure."""
    if not any(hint in line for hint in _HINTS):
        return False
    return _ERROR.search(line) is not None and _NO_ERROR.search(line) is None


_WARNING = re.compile(r"(?<![\w./-])(?:WARN|WARNING|[Ww]arning)(?![\w./-]\w)")


def is_warning_line(line: str) -> bool:
    """Return True if a line reports a warning."""
    return ("arn" in line or "ARN" in line) and _WARNING.search(line) is not None


# Diagnostics of compilers and similar tools, and the final errors of make and npm.
_DIAGNOSTIC = re.compile(
    r"\s*(?:[^\s:]{1,300}:\d+(?::\d+)?:?(?: -)? (?:fatal |internal )?(?:error|warning)\b"
    r"|[^\s(]{1,300}\(\d+,\d+\): (?:error|warning) |error\[\w+\]: |make(?:\[\d+\])?: \*\*\* "
    r"|npm (?:ERR!|error) )"
)
_DIAGNOSTIC_HINTS = ("error", "warning", ": *** ", "npm ERR!")


def has_diagnostics(text: str, lines: Sequence[str]) -> bool:
    """Return True if some lines are diagnostics of a tool that name a file and line."""
    is_likely = any(hint in text for hint in _DIAGNOSTIC_HINTS)
    return is_likely and any(map(_DIAGNOSTIC.match, lines))


def error_lines(text: str, count_max: int) -> list[int]:
    """Return the indexes of the first error lines, in one pass over the text."""
    found: list[int] = []
    if not any(hint in text for hint in _HINTS):
        return found
    line = at = 0
    for match in _ERROR.finditer(text):
        if match.start() < at:
            continue  # This match is in a line that was already found.
        line += text.count("\n", at, match.start())
        end = text.find("\n", match.end())
        at = len(text) if end < 0 else end
        start = text.rfind("\n", 0, match.start()) + 1
        if _NO_ERROR.search(text, start, min(at, start + OUTLINE_LINE_CHARS_MAX)) is None:
            found.append(line)
            if len(found) == count_max:
                break
    return found
