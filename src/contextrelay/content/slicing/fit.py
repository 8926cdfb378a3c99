"""Fitting: cut a text to a number of tokens with the real tokenizer, at a line end if possible.

Rule: the result is within the number of tokens and a prefix of the text, so that the caller knows
where to continue.
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
    """A piece as returned by one selector."""

    at: str
    text: str
    left_out: str = ""
    next_args: dict[str, Any] = {}
    notes: tuple[str, ...] = ()


_ALIKE_SHOWN_MAX = 8


def named(taken: FittedPiece, name: str, others: list[str]) -> FittedPiece:
    """Add a note about other matches of the same name to a piece."""
    notes = (f"also with this name: {', '.join(others[:_ALIKE_SHOWN_MAX])}",) if others else ()
    return replace(taken, at=f"{name} (lines {taken.at})", notes=(*taken.notes, *notes))


def close_names(wanted: str, names: Iterable[str]) -> list[str]:
    """Return names similar to a missing one; only the beginnings of long names are compared."""
    from difflib import get_close_matches

    begins: dict[str, str] = {}
    for name in islice(names, NAMES_COMPARED_MAX):
        begins.setdefault(name[:NAME_CHARS_COMPARED], name)
    close = get_close_matches(wanted[:NAME_CHARS_COMPARED], begins, _ALIKE_SHOWN_MAX, 0.4)
    return [begins[each] for each in close]


def bytes_for(tokens_max: int) -> int:
    """Return the number of bytes to read for a number of tokens."""
    return PIECE_BYTES_PER_TOKEN * tokens_max


def fit(text: str, tokens_max: int) -> str:
    """Return the longest prefix of a text that fits."""
    # Skip counting a text with fewer characters than tokens only if it is ASCII, where each
    # character takes at most one token.
    if len(text) <= tokens_max and text.isascii():
        return text
    return cut_to_tokens(text, tokens_max)


def fit_lines(lines: list[str], tokens_max: int) -> tuple[str, int]:
    """Return the lines that fit, joined, and their number; (a prefix, 0) if not even the first
    fits.

    Each line includes its line end.
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
    # A cut may split the last token in two, so count again.
    while count:
        text = fit(kept[:chars], tokens_max)
        if len(text) == chars:
            return text, count
        count -= 1
        chars -= len(lines[count])
    return kept, 0


def fit_bytes(raw: bytes, tokens_max: int, is_end: bool) -> tuple[str, int]:
    """Return the longest prefix of some bytes that fits, as text, and its length in bytes.

    `is_end`: nothing follows, so half a character at the end is invalid and not just cut.
    """
    text = text_of(raw if is_end else without_half(raw))
    seen = shown(text)
    kept = fit(seen, tokens_max)
    if len(kept) == len(seen):
        return kept, bytes_in(text)
    return kept, bytes_in(text[: len(kept)])


def without_half(raw: bytes) -> bytes:
    """Return the bytes without an incomplete character at the end."""
    for back in range(1, min(4, len(raw)) + 1):
        byte = raw[-back]
        if byte & 0xC0 == 0x80:
            continue
        needs = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return raw[:-back] if needs > back else raw
    return raw


def skip_half(raw: bytes) -> int:
    """Return the number of bytes at the start that continue a previous character."""
    count = 0
    while count < min(3, len(raw)) and raw[count] & 0xC0 == 0x80:
        count += 1
    return count
