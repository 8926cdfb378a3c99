"""Slices by bytes A:B and tokens A:B, which work for every body."""

from __future__ import annotations

from collections.abc import Iterator

from contextrelay.content.slicing.fit import (
    FittedPiece,
    bytes_for,
    fit_bytes,
    skip_half,
    without_half,
)
from contextrelay.content.slicing.source import SliceRange, SliceSource, shown, spell, text_of
from contextrelay.content.tokens import count_tokens, cut_to_tokens
from contextrelay.limits import PIECE_TOKENS_MIN, TOKEN_PIECE_CHARS


def take_bytes(source: SliceSource, span: SliceRange, tokens_max: int) -> FittedPiece:
    """Return the bytes of a span, as many as fit, in whole characters; nothing else is read."""
    start, stop = span.within(0, source.size_bytes)
    room = bytes_for(tokens_max)
    raw = source.bytes_of(start, min(stop, start + room))
    skipped = skip_half(raw) if start else 0
    is_end = start + len(raw) >= stop
    text, kept = fit_bytes(raw[skipped:], tokens_max, is_end=start + len(raw) >= source.size_bytes)
    end = start + skipped + kept
    # Half a character at the end of the span is left to the next piece.
    is_all = is_end and not without_half(raw[skipped + kept :])
    if not raw:
        size = f"the body has {source.size_bytes:,} bytes"
        return FittedPiece(
            at=spell(start, start), text="", notes=(f"nothing in this range: {size}",)
        )
    return FittedPiece(
        at=spell(start + skipped, end),
        text=text,
        left_out="" if is_all else f"bytes {end:,} to {stop:,} of {source.size_bytes:,}",
        next_args={} if is_all else {"bytes": spell(end, stop)},
    )


def take_tokens(source: SliceSource, span: SliceRange, tokens_max: int) -> FittedPiece:
    """Return the tokens of a span, as many as fit; everything before them is read and counted.

    Positions are those of the text in blocks, so that consecutive pieces join without a gap.
    """
    if (span.start or 0) < 0 or (span.stop or 0) < 0:
        total = sum(count_tokens(block) for block in _blocks(source))
        start, stop = span.within(0, total)
    else:
        start, stop = span.start or 0, span.stop
    until = start + tokens_max if stop is None else min(stop, start + tokens_max)
    text, seen, is_end = _between(source, start, until)
    if not text:
        return FittedPiece(
            at=spell(start, start),
            text="",
            notes=(f"nothing in this range: the body has {seen:,} tokens",),
        )
    # Tokenized alone, the text may take one more token than in its context.
    least = start + PIECE_TOKENS_MIN // 2
    while until > least and (over := count_tokens(text) - tokens_max) > 0:
        until = max(least, until - over)
        text, seen, is_end = _between(source, start, until)
    is_all = is_end or (stop is not None and until >= stop)
    up_to = "" if stop is None else f", up to {stop:,}"
    return FittedPiece(
        at=spell(start, min(until, seen) if is_end else until),
        text=text,
        left_out="" if is_all else f"tokens from {until:,} on{up_to}",
        next_args={} if is_all else {"tokens": spell(until, stop)},
    )


def _between(source: SliceSource, start: int, stop: int) -> tuple[str, int, bool]:
    """Return the text between two token positions, the tokens seen, and whether the body ends
    there.
    """
    parts: list[str] = []
    seen = 0
    blocks = _blocks(source)
    for block in blocks:
        count = count_tokens(block)
        if seen + count > start:
            first = len(cut_to_tokens(block, start - seen)) if seen < start else 0
            last = len(cut_to_tokens(block, stop - seen)) if seen + count > stop else len(block)
            parts.append(block[first:last])
        seen += count
        if seen >= stop:
            return "".join(parts), seen, seen == stop and next(blocks, None) is None
    return "".join(parts), seen, True


def _blocks(source: SliceSource) -> Iterator[str]:
    """Yield the text in blocks of about equal size, ending at a line end if one is near."""
    carried = b""
    for chunk in source.read(0, source.size_bytes):
        carried += chunk
        while len(carried) >= TOKEN_PIECE_CHARS:
            stop = carried.rfind(b"\n", TOKEN_PIECE_CHARS // 2, TOKEN_PIECE_CHARS) + 1
            if not stop:
                stop = TOKEN_PIECE_CHARS
                while stop > TOKEN_PIECE_CHARS - 4 and carried[stop : stop + 1] >= b"\x80":
                    stop -= 1
            yield shown(text_of(carried[:stop]))
            carried = carried[stop:]
    if carried:
        yield shown(text_of(carried))
