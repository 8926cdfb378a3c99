"""Line offsets: the positions of some lines, so that others are found without reading everything.

Rule: the number of marks is bounded, however long the body: they are LINE_MARK_BYTES apart, or
more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

from msgspec import Struct

from contextrelay.limits import LINE_MARK_BYTES

LINE_MARKS_MAX = 1_024


class Marks(Struct, frozen=True):
    """Line numbers, ascending, and the offset of each."""

    lines: list[int]
    offsets: list[int]

    def before_line(self, line: int) -> tuple[int, int]:
        """Return the last marked line at or before this one, and its offset."""
        index = bisect_right(self.lines, line) - 1
        return (1, 0) if index < 0 else (self.lines[index], self.offsets[index])

    def before_offset(self, offset: int) -> tuple[int, int]:
        """Return the last marked line that starts at or before an offset, and its offset."""
        index = bisect_right(self.offsets, offset) - 1
        return (1, 0) if index < 0 else (self.lines[index], self.offsets[index])


def find_marks(chunks: Iterator[bytes], size_bytes: int) -> Marks:
    """Read a body once and mark lines in it."""
    apart_bytes = max(LINE_MARK_BYTES, -(-size_bytes // LINE_MARKS_MAX))
    lines: list[int] = []
    offsets: list[int] = []
    line, place, due = 1, 0, apart_bytes
    for chunk in chunks:
        start = 0
        while place + len(chunk) > due:
            newline = chunk.find(b"\n", max(start, due - place))
            if newline < 0:
                break
            line += chunk.count(b"\n", start, newline + 1)
            start = newline + 1
            lines.append(line)
            offsets.append(place + start)
            due = place + start + apart_bytes
        line += chunk.count(b"\n", start)
        place += len(chunk)
    return Marks(lines, offsets)


def offset_of_line(
    read_on: Callable[[int], Iterator[bytes]], marks: Marks | None, line: int, end: int
) -> tuple[int, int]:
    """Return the offset of a line and its number; the end for a line after the last."""
    here, place = (1, 0) if marks is None else marks.before_line(line)
    if here == line:
        return place, line
    for chunk in read_on(place):
        there = chunk.count(b"\n")
        if here + there < line:
            here += there
            place += len(chunk)
            continue
        start = 0
        while here < line:
            start = chunk.index(b"\n", start) + 1
            here += 1
        return place + start, line
    return end, here
