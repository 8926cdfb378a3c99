"""Spans: ranges A:B as users and models write them; half open, either end may be omitted.

Rule: lines are numbered from 1, as in editors and grep; bytes, tokens and rows count from 0.
"""

from __future__ import annotations

import re

from msgspec import Struct

from contextrelay.errors import Invalid

_SPAN = re.compile(r"(-?[0-9]{1,15})?:(-?[0-9]{1,15})?")


class SliceRange(Struct, frozen=True):
    """From `start` up to `stop`, exclusive; negative numbers count from the end."""

    start: int | None
    stop: int | None

    def within(self, first: int, end: int) -> tuple[int, int]:
        """Return the part of it within the positions from `first` up to `end`."""
        start = first if self.start is None else self.start
        stop = end if self.stop is None else self.stop
        start = end + start if start < 0 else start
        stop = end + stop if stop < 0 else stop
        start = min(max(start, first), end)
        return start, min(max(stop, start), end)


def read_span(text: str, way: str) -> SliceRange:
    """Parse A:B, A:, :B or a single number, which means that one position.

    Raises:
        Invalid: it is malformed, or ends before it begins.
    """
    match = _SPAN.fullmatch(text)
    if match is None:
        if text.isascii() and text.isdigit() and len(text) <= 15:
            return SliceRange(int(text), int(text) + 1)
        raise Invalid(
            f"invalid span of {way}: {text[:40]!r}", f"pass {way} as 10:20, 10:, :20 or -20:"
        )
    start, stop = (None if part is None else int(part) for part in match.groups())
    if start is not None and stop is not None and (start < 0) == (stop < 0) and stop < start:
        raise Invalid(f"invalid span: {way} {text} ends before it begins", f"pass {way} as 10:20")
    return SliceRange(start, stop)


def spell(start: int, stop: int | None) -> str:
    return f"{start}:{'' if stop is None else stop}"
