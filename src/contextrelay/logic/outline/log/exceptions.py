"""Exceptions: each kind that a text has a trace of, by its type, its message and its last frame.

Rule: lines are looked at one by one, each by patterns that go over it once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

_NAME = re.compile(r"[\w$.]++")
_TYPES = ("Exception", "Error", "Throwable")
_FILE = re.compile(r"\s*+File \"([^\"]{1,300})\", line (\d{1,9})(?:, in (.{1,100}))?")
_RAISED = re.compile(r"([A-Za-z_][\w.]{0,120})(?:: (.*))?$")
_LINE_CHARS = 500
_KINDS_MAX = 200
# Lines of code between the last frame and the exception.
_CODE_LINES_MAX = 4


class Kind(Struct):
    """Exceptions of one type, from one frame."""

    line: int
    type: str
    message: str
    frame: str
    count: int = 0


def exceptions(lines: Sequence[str]) -> list[Kind]:
    """The kinds of exceptions in lines, in order."""
    found: dict[tuple[str, str], Kind] = {}
    for each in _all(lines):
        key = (each.type, each.frame)
        if key not in found and len(found) < _KINDS_MAX:
            found[key] = each
        if key in found:
            found[key].count += 1
    return list(found.values())


def _all(lines: Sequence[str]) -> Iterator[Kind]:
    was_frame = False
    for index, line in enumerate(lines):
        if line[:1] not in (" ", "\t"):
            was_frame = False
            continue
        text = line.lstrip()
        is_frame = text.startswith("at ")
        if is_frame and not was_frame:
            yield from _above(lines, index, text[3:].strip())
        elif text.startswith('File "'):
            yield from _below(lines, index)
        was_frame = is_frame


def _above(lines: Sequence[str], index: int, frame: str) -> Iterator[Kind]:
    """`Type: message` on one of the two lines above the first frame: Java, JavaScript, C#."""
    for at in (index - 1, index - 2):
        line = lines[at][:_LINE_CHARS] if at >= 0 else ""
        for name in _NAME.finditer(line):
            if name[0].endswith(_TYPES) and name[0] not in _TYPES[:1]:
                message = line[name.end() :].removeprefix(":").strip()
                yield Kind(at + 1, name[0], message, frame)
                return


def _below(lines: Sequence[str], index: int) -> Iterator[Kind]:
    """`Type: message` below the last frame and its code: Python."""
    frame = _FILE.match(lines[index][:_LINE_CHARS])
    if frame is None:
        return
    for at in range(index + 1, min(index + 1 + _CODE_LINES_MAX, len(lines))):
        line = lines[at][:_LINE_CHARS].rstrip("\r")
        if line[:1] in (" ", "\t"):
            if line.lstrip().startswith('File "'):
                return
            continue
        raised = _RAISED.match(line)
        if raised is not None:
            place = f"{frame[1].rpartition('/')[2]}:{frame[2]} in {frame[3] or '?'}"
            yield Kind(at + 1, raised[1], (raised[2] or "").strip(), place)
        return
