"""Plain texts among patterns: where there is one in a block there are more, found as bytes.

To ask RE2 takes longer than to look through some kilobytes; over many it is the quicker of the two.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

_QUICK_BYTES = 4_096
_PATTERN = re.compile(r"[\\.^$*+?{}\[\]|()]")


def is_plain(patterns: Sequence[str], is_fixed: bool) -> bool:
    """Whether each of these is a text that stands for itself."""
    return all(
        each and "\n" not in each and (is_fixed or not _PATTERN.search(each)) for each in patterns
    )


def spellings(text: str) -> list[str]:
    """How a text may stand in JSON: as it is, with its quotes escaped, with all but ASCII so."""
    forms = (text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])
    return list(dict.fromkeys(forms))


class _Span(Struct, frozen=True, gc=False):
    start: int
    stop: int

    def span(self) -> tuple[int, int]:
        return self.start, self.stop


class PlainTexts:
    """What a compiled pattern is to a search: the first place of any of several texts.

    Each is looked for on its own, which RE2 does many times faster than for several at once.
    """

    def __init__(self, texts: Sequence[bytes], patterns: Sequence[Any], programsize: int) -> None:
        self.texts = texts
        """As they stand in what is looked at; none where letters of either case are meant."""
        self._patterns = patterns
        self.programsize = programsize
        self._raw = b""
        self._end: int = sys.maxsize
        self._next: list[_Span | None] = []
        """Where each text comes next in what was looked at last, and how far it was to there."""
        self._gaps = [sys.maxsize] * len(patterns)

    def search(self, raw: bytes, place: int = 0, end: int = sys.maxsize) -> Any:
        """The first place from one on."""
        best: _Span | None = None
        for span in self.following(raw, place, end):
            if span is not None and (best is None or span.start < best.start):
                best = span
        return best

    def following(self, raw: bytes, place: int, end: int) -> list[_Span | None]:
        """Where each of the texts is next; what is there no more is looked for only once."""
        if raw is not self._raw or end != self._end or place == 0:
            self._raw, self._end = raw, end
            self._next = [self._find(at, raw, place, end) for at in range(len(self._patterns))]
        for index, span in enumerate(self._next):
            if span is not None and span.start < place:
                self._next[index] = self._find(index, raw, place, end)
        return self._next

    def _find(self, index: int, raw: bytes, place: int, end: int) -> _Span | None:
        """Where a text is next: as bytes where it was not far the last time."""
        if self.texts and (self._gaps[index] < _QUICK_BYTES or len(raw) < _QUICK_BYTES):
            text = self.texts[index]
            start = raw.find(text, place, end)
            found = None if start < 0 else _Span(start, start + len(text))
        else:
            match = self._patterns[index].search(raw, place, min(end, len(raw)))
            found = None if match is None else _Span(*match.span())
        self._gaps[index] = len(raw) if found is None else found.start - place
        return found


WORD, VALUE = 1, 2
_BEFORE_VALUE = frozenset(b"\"',;|\t\n\r=>[(:")
_BEHIND_VALUE = frozenset(b"\"',;|\t\n\r<])}")


def wholeness(raw: bytes, start: int, stop: int) -> int:
    """VALUE where nothing but a place is a cell or a member, WORD where it is whole words, or 0."""
    before = raw[start - 1] if start else 0x2C
    behind = raw[stop] if stop < len(raw) else 0x2C
    # What begins or ends with a sign itself is no part of a word there.
    if before in _WORD_BYTES and raw[start : start + 1] in _WORD_SIGNS:
        return 0
    if behind in _WORD_BYTES and raw[stop - 1 : stop] in _WORD_SIGNS:
        return 0
    if before == 0x20 and start > 1:
        before = raw[start - 2] if raw[start - 2] in b":," else before
    return VALUE if before in _BEFORE_VALUE and behind in _BEHIND_VALUE else WORD


_WORD_SIGNS = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WORD_BYTES = frozenset(_WORD_SIGNS)
