"""Plain texts among patterns: once one is found in a block, look for more with bytes.find.

Calling RE2 takes longer than scanning some kilobytes; over longer distances RE2 is faster.
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
    """Return True if every pattern is a literal text."""
    return all(
        each and "\n" not in each and (is_fixed or not _PATTERN.search(each)) for each in patterns
    )


def spellings(text: str) -> list[str]:
    """Return the JSON spellings of a text: unchanged, with quotes escaped, and ASCII only."""
    forms = (text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])
    return list(dict.fromkeys(forms))


class _Span(Struct, frozen=True, gc=False):
    start: int
    stop: int

    def span(self) -> tuple[int, int]:
        return self.start, self.stop


class PlainTexts:
    """A search for the first occurrence of any of several texts, like a compiled pattern.

    Each text is searched on its own, which RE2 does many times faster than several at once.
    """

    def __init__(self, texts: Sequence[bytes], patterns: Sequence[Any], programsize: int) -> None:
        self.texts = texts
        """The encoded texts; empty if case is ignored."""
        self._patterns = patterns
        self.programsize = programsize
        self._raw = b""
        self._end: int = sys.maxsize
        self._next: list[_Span | None] = []
        """The next occurrence of each text in the last buffer, and the distance to it."""
        self._gaps = [sys.maxsize] * len(patterns)

    def search(self, raw: bytes, place: int = 0, end: int = sys.maxsize) -> Any:
        """Return the first match at or after a position."""
        best: _Span | None = None
        for span in self.following(raw, place, end):
            if span is not None and (best is None or span.start < best.start):
                best = span
        return best

    def following(self, raw: bytes, place: int, end: int) -> list[_Span | None]:
        """Return the next occurrence of each text; a text that no longer occurs is searched only
        once.
        """
        if raw is not self._raw or end != self._end or place == 0:
            self._raw, self._end = raw, end
            self._next = [self._find(at, raw, place, end) for at in range(len(self._patterns))]
        for index, span in enumerate(self._next):
            if span is not None and span.start < place:
                self._next[index] = self._find(index, raw, place, end)
        return self._next

    def _find(self, index: int, raw: bytes, place: int, end: int) -> _Span | None:
        """Return the next occurrence of a text, by bytes.find if the last one was near."""
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
    """Return VALUE if the match is a whole cell or member, WORD if it is whole words, else 0."""
    before = raw[start - 1] if start else 0x2C
    behind = raw[stop] if stop < len(raw) else 0x2C
    # A text that itself starts or ends with a symbol needs no word boundary there.
    if before in _WORD_BYTES and raw[start : start + 1] in _WORD_SIGNS:
        return 0
    if behind in _WORD_BYTES and raw[stop - 1 : stop] in _WORD_SIGNS:
        return 0
    if before == 0x20 and start > 1:
        before = raw[start - 2] if raw[start - 2] in b":," else before
    return VALUE if before in _BEFORE_VALUE and behind in _BEHIND_VALUE else WORD


_WORD_SIGNS = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WORD_BYTES = frozenset(_WORD_SIGNS)
