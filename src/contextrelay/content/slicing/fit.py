"""Fitting: a text cut to a number of tokens by the real tokenizer, at a line end if there is one.

Rule: what is kept is never over the number, and is a beginning of the text, so that the caller
knows where to go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from contextrelay.content.slicing.source import bytes_in, shown, text_of
from contextrelay.content.tokens import cut_to_tokens
from contextrelay.limits import NAME_CHARS_COMPARED, NAMES_COMPARED_MAX, PIECE_BYTES_PER_TOKEN


class FittedPiece(Struct, frozen=True, kw_only=True):
    """A piece as one way of slicing takes it."""

    at: str
    text: str
    left_out: str = ""
    next_args: dict[str, Any] = {}
    notes: tuple[str, ...] = ()


_ALIKE_SHOWN_MAX = 8


def named(taken: FittedPiece, name: str, others: list[str]) -> FittedPiece:
    """Lines that were found by a name, with a note of what else is called so."""
    notes = (f"also called so: {', '.join(others[:_ALIKE_SHOWN_MAX])}",) if others else ()
    return replace(taken, at=f"{name} (lines {taken.at})", notes=(*taken.notes, *notes))


def close_names(wanted: str, names: Iterable[str]) -> list[str]:
    """The names that come near to one that is not there; of long ones the beginning is compared."""
    from difflib import get_close_matches

    begins: dict[str, str] = {}
    for name in islice(names, NAMES_COMPARED_MAX):
        begins.setdefault(name[:NAME_CHARS_COMPARED], name)
    close = get_close_matches(wanted[:NAME_CHARS_COMPARED], begins, _ALIKE_SHOWN_MAX, 0.4)
    return [begins[each] for each in close]


def bytes_for(tokens_max: int) -> int:
    """How much is read for so many tokens."""
    return PIECE_BYTES_PER_TOKEN * tokens_max


def fit(text: str, tokens_max: int) -> str:
    """The beginning of a text that fits."""
    # A text of fewer characters than tokens fits without being counted only where each character is
    # at most one token, which is so for ASCII alone.
    if len(text) <= tokens_max and text.isascii():
        return text
    return cut_to_tokens(text, tokens_max)


def fit_lines(lines: list[str], tokens_max: int) -> tuple[str, int]:
    """The lines that fit, joined, and how many; where not even the first fits, (its beginning, 0).

    Each line brings its own line end.
    """
    joined = "".join(lines)
    kept = fit(joined, tokens_max)
    if len(kept) == len(joined):
        return joined, len(lines)
    chars = count = 0
    for line in lines:
        if chars + len(line) > len(kept):
            break
        chars += len(line)
        count += 1
    # Where a text is cut, its last token may become two: it is looked at again.
    while count:
        text = fit(kept[:chars], tokens_max)
        if len(text) == chars:
            return text, count
        count -= 1
        chars -= len(lines[count])
    return kept, 0


def fit_bytes(raw: bytes, tokens_max: int, is_end: bool) -> tuple[str, int]:
    """The beginning of some bytes that fits, as text, and how many bytes it is.

    `is_end`: no more follow, so that half a character at the end is broken, not cut.
    """
    text = text_of(raw if is_end else without_half(raw))
    seen = shown(text)
    kept = fit(seen, tokens_max)
    if len(kept) == len(seen):
        return kept, bytes_in(text)
    return kept, bytes_in(text[: len(kept)])


def without_half(raw: bytes) -> bytes:
    """Bytes without the first half of a character at their end."""
    for back in range(1, min(4, len(raw)) + 1):
        byte = raw[-back]
        if byte & 0xC0 == 0x80:
            continue
        needs = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return raw[:-back] if needs > back else raw
    return raw


def skip_half(raw: bytes) -> int:
    """How many bytes at the start are the second half of a character."""
    count = 0
    while count < min(3, len(raw)) and raw[count] & 0xC0 == 0x80:
        count += 1
    return count
