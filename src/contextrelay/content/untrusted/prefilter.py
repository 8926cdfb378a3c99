"""The sieve: finds in one pass over a text that no known phrase is in it, as is mostly so.

All phrases are one pattern, without what only narrows them down (where words begin and end, what
must not follow), for an engine of finite automata: linear whatever the text is, and it lets other
threads run meanwhile.

Rule: what a phrase would match, the sieve holds back. What it holds back for nothing costs time.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Protocol

from contextrelay.content.untrusted.phrases import PHRASES, Phrase
from contextrelay.limits import MIB

# After so many texts it pays to make the sieve of all phrases, and what its states may take.
SIEVED_FROM = 16
SIEVE_BYTES_MAX = 16 * MIB


_texts_seen = 0


def may_hold_phrase(squeezed: bytes) -> bool:
    """Whether a phrase may be in a squeezed text; always, for the first few that a process has.

    To make the sieve takes longer than to look through these without it.
    """
    global _texts_seen
    if _texts_seen < SIEVED_FROM:
        _texts_seen += 1
        return True
    return sieve().search(squeezed) is not None


class Sieve(Protocol):
    """What is used of a compiled pattern."""

    def search(self, text: bytes) -> object | None: ...


@cache
def sieve() -> Sieve:
    """The pattern of all phrases."""
    return compiled("(?i)" + "|".join(f"(?:{_loosened(phrase)})" for phrase in PHRASES))


def compiled(source: str) -> Sieve:
    """Compile a pattern for RE2, which knows no look ahead, and whose `\\w` is ASCII."""
    # Imported here: most commands defuse nothing.
    import re2  # pyright: ignore[reportMissingTypeStubs]

    options: Any = re2.Options()
    options.max_mem = SIEVE_BYTES_MAX
    pattern: Any = re2.compile(source, options)  # pyright: ignore[reportUnknownMemberType]
    return pattern


# `(?-i:(?=[A-Z]))` and `(?-i:(?![a-z]))`: where words begin and end; words that must not follow.
_NARROWS = re.compile(r"\(\?-i:\(\?[=!]\[[A-Za-z-]+\]\)\)|\(\?![^()]*\)")


def _loosened(phrase: Phrase) -> str:
    """A phrase without what narrows it down, and without the blanks that part words in it."""
    return _NARROWS.sub("", "".join(phrase.source.split()))
