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
    """What a compiled pattern is to a search: the first place of any of several texts."""

    def __init__(self, texts: Sequence[bytes], pattern: Any) -> None:
        self._texts = texts
        self.only = texts[0] if len(texts) == 1 else b""
        """The text, where it is one alone."""
        self._pattern = pattern
        self.programsize: int = pattern.programsize
        self._raw = b""
        self._end: int = sys.maxsize
        self._next: list[int] = []
        """Where each text comes next in what was looked at last; -1 where it does not."""

    def search(self, raw: bytes, place: int = 0, end: int = sys.maxsize) -> Any:
        """The first place from one on."""
        texts = self._texts
        if place == 0 and len(raw) > _QUICK_BYTES:
            self._raw = b""
            return self._pattern.search(raw, place, min(end, len(raw)))
        if len(texts) == 1:
            at = raw.find(texts[0], place, end)
            return None if at < 0 else _Span(at, at + len(texts[0]))
        if raw is not self._raw or end != self._end or place == 0:
            self._raw, self._end = raw, end
            self._next = [raw.find(text, place, end) for text in texts]
        best = -1
        for index, at in enumerate(self._next):
            if 0 <= at < place:
                at = self._next[index] = raw.find(texts[index], place, end)
            if at >= 0 and (best < 0 or at < self._next[best]):
                best = index
        at = self._next[best]
        return None if best < 0 else _Span(at, at + len(texts[best]))
