"""Prefilters: patterns for RE2 that are searched for in one pass, before exact patterns are tried.

Rule: a prefilter matches wherever the exact pattern does, and may match more. RE2 has no lookahead,
and its `\\w`, `\\d` and `\\s` are ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Protocol

from contextrelay.limits import MIB

# The memory of the states of a pattern.
PREFILTER_BYTES_MAX = 16 * MIB


class Prefilter(Protocol):
    """The interface used of a compiled pattern."""

    def search(self, text: bytes) -> object | None: ...


def compiled(source: str) -> Prefilter:
    """Compile a pattern for RE2."""
    # Imported here: most commands need no prefilter.
    import re2  # pyright: ignore[reportMissingTypeStubs]

    pattern: Any = re2.compile(source, _options())  # pyright: ignore[reportUnknownMemberType]
    return pattern


class Prefilters:
    """Several patterns that are searched for in one pass."""

    def __init__(self, sources: Iterable[str]) -> None:
        import re2  # pyright: ignore[reportMissingTypeStubs]

        kind: Any = re2.Set
        self._set = kind.SearchSet(_options())
        for source in sources:
            self._set.Add(source)
        self._set.Compile()

    def find(self, text: str) -> list[int]:
        """Return the indexes of the patterns that match somewhere, in order."""
        return sorted(self._set.Match(text.encode()) or ())


def _options() -> Any:
    import re2  # pyright: ignore[reportMissingTypeStubs]

    options: Any = re2.Options()
    options.max_mem = PREFILTER_BYTES_MAX
    return options


def loosened(source: str) -> str:
    """Return a pattern for RE2 that matches wherever a pattern matches within a line."""
    return _LOOSENED.sub(_loosen, source)


def unspaced(source: str) -> str:
    """Return a verbose pattern without the spaces that have no meaning in it."""
    return _SPACES.sub(r"\1", source)


# Syntax that RE2 lacks, character classes, and large counts, each of which is a state of its own.
_LOOSENED = re.compile(
    r"(?P<ahead>\(\?!(?:[^()]|\([^()]*\))*\)|\\b)|(?P<flag>\(\?ai:)|(?P<kind>\\[wds])"
    r"|(?P<count>\{\d+,\d\d+\})|(?P<escape>\\.)|(?P<other>\[\^)|(?P<kinds>\[(?:\\.|[^\]\\])+\])"
)
_NOT_ASCII = r"\x{80}-\x{10ffff}"
_SPACES_OF_PYTHON = r"\x0b\x1c-\x1f"
"""ASCII characters that `\\s` matches in Python, and not in RE2."""
_SPACES = re.compile(r"(\[(?:\\.|[^\]\\])+\])|\s+")


def _loosen(match: re.Match[str]) -> str:
    text = match[0]
    return {
        "ahead": "",
        "count": "*",
        "escape": text,
        "flag": "(?i:",
        "other": r"[^\n",
        "kinds": f"[{_NOT_ASCII}{_SPACES_OF_PYTHON}{text[1:]}",
        "kind": f"[{_NOT_ASCII}{_SPACES_OF_PYTHON}{text}]",
    }[match.lastgroup or ""]
