"""Error lines: the lines of an output that report an error or a failure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from contextrelay.limits import OUTLINE_LINE_CHARS_MAX

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
