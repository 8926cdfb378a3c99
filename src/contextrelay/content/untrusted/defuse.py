"""Defusing: replace known injection phrases in a text, and make hidden characters visible.

This labels; it does not protect. Unknown phrases pass, so a text that is shown to a model is also
fenced (fence.py) and labelled as untrusted data.

Rule: a defused text contains no known phrase, marker or hidden character, even after our own tokens
are removed from it. So defusing is idempotent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from contextrelay.content.untrusted.hidden_chars import hidden_kinds, spell_hidden
from contextrelay.content.untrusted.normalize import GAP, SANITIZED, fold
from contextrelay.content.untrusted.phrases import HEADS, MARKERS, may_hold_phrase

# How often defusing repeats for what its own replacements exposed.
DEFUSE_ROUNDS_MAX = 8

Span = tuple[int, int]
Hit = tuple[int, int, str]


class Defused(Struct, frozen=True):
    """A text that is safe to show in a fence, and the names of what was found in it."""

    text: str
    patterns: tuple[str, ...] = ()


def defuse(text: str) -> Defused:
    """Replace known phrases and markers by `[SANITIZED]` and make hidden characters visible."""
    kinds = hidden_kinds(text)
    folded = fold(text)
    rest = folded.text
    spans: list[Span] = []
    # The text around a phrase may form a new one, so repeat until nothing is found.
    for _ in range(DEFUSE_ROUNDS_MAX):
        hits = sorted(_hits(rest))
        if not hits:
            break
        kinds.update(name for _, _, name in hits)
        found = _merged([folded.whole(start, stop) for start, stop, _ in hits])
        rest = _replaced(rest, found, GAP.__mul__)
        spans += found
    else:
        # No legitimate text nests this deeply, and continuing would take quadratic time.
        return Defused(SANITIZED, tuple(sorted({*kinds, "deep-nesting"})))
    if not kinds:
        return Defused(text)
    originals = _merged(sorted((folded.starts[a], folded.starts[b]) for a, b in spans))
    safe = _replaced(text, originals, lambda _: SANITIZED, spell_hidden)
    return Defused(safe, tuple(sorted(kinds)))


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, stop in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def _replaced(
    text: str, spans: list[Span], by: Callable[[int], str], around: Callable[[str], str] = str
) -> str:
    """Replace spans, given the length of each, and convert the texts around them."""
    pieces: list[str] = []
    end = 0
    for start, stop in spans:
        pieces += around(text[end:start]), by(stop - start)
        end = stop
    return "".join(pieces) + around(text[end:])


def _hits(folded: str) -> Iterator[Hit]:
    plain = folded.encode()
    squeezed = _squeeze(plain)
    if may_hold_phrase(squeezed):
        yield from _phrase_hits(folded, folded, squeezed.decode(), None)
    if b"1a" in plain.translate(_SHAPES):
        leet = plain.translate(_LEET)
        squeezed_leet = _squeeze(leet)
        if may_hold_phrase(squeezed_leet) and (near := _near_mixed(folded, leet)):
            yield from _phrase_hits(folded, leet.decode(), squeezed_leet.decode(), near)
    lower = squeezed.lower()
    for marker in MARKERS:
        if marker.is_possible(folded, lower):
            for match in marker.whole.finditer(folded):
                if not marker.opens_line or _opens(folded, match.start(), "\n", _BEFORE_MARKER):
                    yield match.start(), match.end(), marker.name


# Digits and symbols used as letters: 1gn0r3 pr3v10u$.
_LEET = bytes.maketrans(b"0134578@$!", b"oieastbasi")
# A text without such a digit before a letter need not be read this way.
_SHAPES = bytes(
    ord("1") if code in b"013457" else ord("a") if code in range(ord("a"), ord("z") + 1) else 0
    for code in range(256)
)
# Only at the start of a row of digits: from each digit on, a long row takes quadratic time.
_MIXED = re.compile(r"(?<![013457])[013457]++(?:[a-z]{2,}+(?![0-9a-z])|[a-z]++[013457])")
# Longer than the longest phrase, so that all of it is near its digit.
_PHRASE_CHARS_MAX = 200
_BEFORE_MARKER = " \t\0>*_-#|`"
_BEFORE_SENTENCE = " \t\0>*_-#|`\"'([{<,"


# Small L and capital I look alike, so both become I.
_LOOKS_LIKE_I = bytes.maketrans(b"lL", b"iI")
_NO_LETTERS = bytes(code for code in range(256) if not (code < 128 and chr(code).isalpha()))


def _squeeze(folded: bytes) -> bytes:
    """Return only the letters, each word capitalised."""
    return folded.title().translate(_LOOKS_LIKE_I, _NO_LETTERS)


def _near_mixed(folded: str, leet: bytes) -> list[Span]:
    """Return spans that may start a phrase with a digit for a letter.

    They are counted in letters and not in characters, so that gaps do not matter.
    """
    spans: list[Span] = []
    letter_count = end = 0
    for match in _MIXED.finditer(folded):
        letter_count += len(_squeeze(leet[end : match.start()]))
        end = match.start()
        spans.append((max(0, letter_count - _PHRASE_CHARS_MAX), letter_count + _PHRASE_CHARS_MAX))
    return _merged(spans)


def _phrase_hits(
    folded: str, read_as: str, squeezed: str, spans: list[Span] | None
) -> Iterator[Hit]:
    """Yield phrases in the letters of a folded text, read plainly or with digits as letters."""
    lower = squeezed.lower()
    hits = [
        (at, match.end(), phrase)
        for start, stop in ([(0, len(squeezed))] if spans is None else spans)
        for head, phrases in HEADS.items()
        if lower.find(head, start, stop) >= 0
        for at in _occurrences(lower, head, start, stop)
        for phrase in phrases
        if (match := phrase.whole.match(squeezed, at))
    ]
    if not hits:
        return
    letters = [index for index, char in enumerate(read_as) if char.isalpha()]
    for start, stop, phrase in hits:
        at = letters[start]
        if not phrase.opens_sentence or _opens(folded, at, ".!?:;\n", _BEFORE_SENTENCE):
            yield at, letters[stop - 1] + 1, phrase.name


def _occurrences(text: str, word: str, start: int, stop: int) -> Iterator[int]:
    at = text.find(word, start, stop)
    while at >= 0:
        yield at
        at = text.find(word, at + 1, stop)


def _opens(folded: str, start: int, ends: str, passed_over: str) -> bool:
    """Return True if only `passed_over` is between here and one of `ends`, or the text's start."""
    while start > 0 and folded[start - 1] in passed_over:
        start -= 1
    return start == 0 or folded[start - 1] in ends
