"""The prefilter: decides in one pass that a text contains no known phrase, as most texts.

All phrases form one pattern, without the conditions that only narrow them down (word boundaries,
words that must not follow), for a finite automata engine: it is linear on any text, and releases
the interpreter to other threads.

Rule: everything that a phrase would match passes the prefilter. A false positive only costs time.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Protocol

from contextrelay.content.untrusted.phrases import PHRASES, Phrase
from contextrelay.limits import MIB

# Number of texts after which compiling the combined pattern pays off, and the memory of its states.
PREFILTER_TEXTS_MIN = 16
PREFILTER_BYTES_MAX = 16 * MIB


_texts_seen = 0


def may_hold_phrase(squeezed: bytes) -> bool:
    """Return False if a squeezed text contains no phrase; True for the first few texts of a
    process.

    Compiling the combined pattern takes longer than searching these without it.
    """
    global _texts_seen
    if _texts_seen < PREFILTER_TEXTS_MIN:
        _texts_seen += 1
        return True
    return phrase_prefilter().search(squeezed) is not None


class Prefilter(Protocol):
    """The interface used of a compiled pattern."""

    def search(self, text: bytes) -> object | None: ...


@cache
def phrase_prefilter() -> Prefilter:
    """Return the combined pattern of all phrases."""
    return compiled("(?i)" + "|".join(f"(?:{_loosened(phrase)})" for phrase in PHRASES))


def compiled(source: str) -> Prefilter:
    r"""Compile a pattern for RE2, which has no lookahead, and whose `\w` is ASCII."""
    # Imported here: most commands defuse nothing.
    import re2  # pyright: ignore[reportMissingTypeStubs]

    options: Any = re2.Options()
    options.max_mem = PREFILTER_BYTES_MAX
    pattern: Any = re2.compile(source, options)  # pyright: ignore[reportUnknownMemberType]
    return pattern


# `(?-i:(?=[A-Z]))` and `(?-i:(?![a-z]))`: word boundaries; words that must not follow.
_NARROWS = re.compile(r"\(\?-i:\(\?[=!]\[[A-Za-z-]+\]\)\)|\(\?![^()]*\)")


def _loosened(phrase: Phrase) -> str:
    """Return a phrase without its narrowing conditions, and without spaces between words."""
    return _NARROWS.sub("", "".join(phrase.source.split()))
