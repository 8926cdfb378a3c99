"""Slices by lines, bytes and tokens A:B. The first line is 1, and a line includes its newline.

Rule: memory does not grow with a line. A line longer than LINE_BYTES_SHOWN is folded, unless it is
the only one requested; a note says where the rest is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from contextrelay.content.slicing.source import (
    FittedPiece,
    SliceRange,
    SliceSource,
    bytes_for,
    decode_bytes,
    fit_bytes,
    fit_lines,
    format_range,
    offset_of_line,
    printable,
    skip_half,
    without_half,
)
from contextrelay.content.tokens import count_tokens, cut_to_tokens
from contextrelay.limits import (
    LINE_BYTES_SHOWN,
    LINE_MARK_BYTES,
    PIECE_TOKENS_MIN,
    TOKEN_PIECE_CHARS,
)

_NOTES_MAX = 3
_FAR = 1 << 53


class LineSpan(Struct, frozen=True, gc=False):
    """A line: its beginning, and its length including the newline."""

    number: int
    offset: int
    head: bytes
    size_bytes: int


def lines_in(
    chunks: Iterable[bytes], number: int, offset: int, head_bytes_max: int
) -> Iterator[LineSpan]:
    """Yield lines; at most `head_bytes_max` bytes of each are kept."""
    head = b""
    size_bytes = 0
    for chunk in chunks:
        start = 0
        while (newline := chunk.find(b"\n", start)) >= 0:
            stop = newline + 1
            head += chunk[start : min(stop, start + max(0, head_bytes_max - len(head)))]
            size_bytes += stop - start
            yield LineSpan(number, offset, head, size_bytes)
            offset += size_bytes
            number, head, size_bytes, start = number + 1, b"", 0, stop
        head += chunk[start : start + max(0, head_bytes_max - len(head))]
        size_bytes += len(chunk) - start
    if size_bytes:
        yield LineSpan(number, offset, head, size_bytes)


def slice_lines(source: SliceSource, span: SliceRange, tokens_max: int) -> FittedPiece:
    """Return the lines of a span, as many as fit."""
    start, stop = _line_numbers(source, span)
    near = start <= 1 or source.size_bytes <= 2 * LINE_MARK_BYTES
    marks = None if near else source.marks()
    offset, number = offset_of_line(source.read_on, marks, start, source.size_bytes)
    if number < start or offset >= source.size_bytes or stop <= start:
        return _nothing(start, _why_no_line(source, start, stop))
    if stop - start == 1:
        return _one_line(source, number, offset, tokens_max)
    taken: list[str] = []
    folded: list[LineSpan] = []
    room = bytes_for(tokens_max)
    is_end = True
    for line in lines_in(source.read_on(offset), number, offset, LINE_BYTES_SHOWN):
        if line.number >= stop:
            break
        if room <= 0:
            is_end = False
            break
        if line.size_bytes <= LINE_BYTES_SHOWN:
            taken.append(printable(decode_bytes(line.head)))
        else:
            folded.append(line)
            text, kept = fit_bytes(line.head, LINE_BYTES_SHOWN, is_end=False)
            taken.append(f"{text} [… {line.size_bytes - kept:,} bytes more]\n")
        room -= len(line.head)
    text, count = fit_lines(taken, tokens_max)
    if count == 0:
        return _one_line(source, number, offset, tokens_max, stop)
    end = number + count
    notes = tuple(
        f"line {line.number:,} is folded: relay get {source.ref[:8]}"
        f" --bytes {format_range(line.offset, line.offset + line.size_bytes)}"
        for line in folded[:_NOTES_MAX]
        if line.number < end
    )
    if is_end and count == len(taken):
        return FittedPiece(at=format_range(number, end), text=text, notes=notes)
    # The next piece ends where requested, but not past the end of the body.
    lines = source.line_count
    following = stop if stop != _FAR else end + (end - 1)
    following = following if lines is None else min(stop, lines + 1)
    return FittedPiece(
        at=format_range(number, end),
        text=text,
        left_out=f"lines {end:,} to {_last_line(source, stop)}",
        next_args={"lines": format_range(end, following)},
        notes=notes,
    )


def _line_numbers(source: SliceSource, span: SliceRange) -> tuple[int, int]:
    """Return the span as line numbers; only a span from the end needs the number of lines."""
    start = 1 if span.start is None else max(span.start, 1) if span.start >= 0 else span.start
    stop = span.stop
    if start >= 0 and (stop is None or stop >= 0):
        return start, _FAR if stop is None else max(stop, start)
    count = source.line_count
    if count is None:
        count = sum(chunk.count(b"\n") for chunk in source.read(0, source.size_bytes)) + 1
    return span.within(1, count + 1)


def _why_no_line(source: SliceSource, start: int, stop: int) -> str:
    count = source.line_count
    if source.size_bytes == 0:
        return "the body is empty"
    if stop <= start and (count is None or start <= count):
        return f"the end is exclusive; line {start} is {format_range(start, start + 1)}"
    if count is None:
        return "the body has fewer lines"
    return "the body has 1 line" if count == 1 else f"the body has {count:,} lines"


def _last_line(source: SliceSource, stop: int) -> str:
    count = source.line_count
    if count is not None:
        return f"{min(stop - 1, count):,} of {count:,}"
    return "the end" if stop == _FAR else f"{stop - 1:,}"


def _one_line(
    source: SliceSource, number: int, offset: int, tokens_max: int, stop: int | None = None
) -> FittedPiece:
    """Return one line, as much of it as fits, without reading further."""
    at = format_range(number, number + 1)
    raw = source.bytes_of(offset, min(offset + bytes_for(tokens_max), source.size_bytes))
    end = raw.find(b"\n") + 1
    is_whole = bool(end) or offset + len(raw) == source.size_bytes
    raw = raw[:end] if end else raw
    text, kept = fit_bytes(raw, tokens_max, is_end=is_whole)
    if is_whole and kept == len(raw):
        return FittedPiece(at=at, text=text)
    rest = f"line {number:,} from byte {offset + kept:,} on"
    if stop is not None and stop > number + 1:
        rest += f", and lines {number + 1:,} to {_last_line(source, stop)}"
    until = offset + len(raw) if end else min(offset + 2 * kept, source.size_bytes)
    next_args = {"bytes": format_range(offset + kept, until)}
    return FittedPiece(at=at, text=text, left_out=rest, next_args=next_args)


def _nothing(start: int, why: str) -> FittedPiece:
    notes = (f"nothing in this range: {why}",)
    return FittedPiece(at=format_range(start, start), text="", notes=notes)


def slice_bytes(source: SliceSource, span: SliceRange, tokens_max: int) -> FittedPiece:
    """Return the bytes of a span, as many as fit, in whole characters; nothing else is read."""
    start, stop = span.within(0, source.size_bytes)
    raw = source.bytes_of(start, min(stop, start + bytes_for(tokens_max)))
    if not raw:
        return _nothing(start, f"the body has {source.size_bytes:,} bytes")
    skipped = skip_half(raw) if start else 0
    is_end = start + len(raw) >= stop
    text, kept = fit_bytes(raw[skipped:], tokens_max, is_end=start + len(raw) >= source.size_bytes)
    end = start + skipped + kept
    # Half a character at the end of the span is left to the next piece.
    is_all = is_end and not without_half(raw[skipped + kept :])
    return FittedPiece(
        at=format_range(start + skipped, end),
        text=text,
        left_out="" if is_all else f"bytes {end:,} to {stop:,} of {source.size_bytes:,}",
        next_args={} if is_all else {"bytes": format_range(end, stop)},
    )


def slice_tokens(source: SliceSource, span: SliceRange, tokens_max: int) -> FittedPiece:
    """Return the tokens of a span, as many as fit; everything before them is read and counted.

    Positions are those of the text in blocks, so that consecutive pieces join without a gap.
    """
    start, stop = span.start or 0, span.stop
    if start < 0 or (stop or 0) < 0:
        start, stop = span.within(0, sum(map(count_tokens, _token_blocks(source))))
    until = start + tokens_max if stop is None else min(stop, start + tokens_max)
    text, seen, is_end = _between(source, start, until)
    if not text:
        return _nothing(start, f"the body has {seen:,} tokens")
    # Tokenized alone, the text may take one more token than in its context.
    least = start + PIECE_TOKENS_MIN // 2
    while until > least and (over := count_tokens(text) - tokens_max) > 0:
        until = max(least, until - over)
        text, seen, is_end = _between(source, start, until)
    is_all = is_end or (stop is not None and until >= stop)
    up_to = "" if stop is None else f", up to {stop:,}"
    return FittedPiece(
        at=format_range(start, min(until, seen) if is_end else until),
        text=text,
        left_out="" if is_all else f"tokens from {until:,} on{up_to}",
        next_args={} if is_all else {"tokens": format_range(until, stop)},
    )


def _between(source: SliceSource, start: int, stop: int) -> tuple[str, int, bool]:
    """Return the text between token positions, the tokens seen, and whether the body ends there."""
    parts: list[str] = []
    seen = 0
    blocks = _token_blocks(source)
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


def _token_blocks(source: SliceSource) -> Iterator[str]:
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
            yield printable(decode_bytes(carried[:stop]))
            carried = carried[stop:]
    if carried:
        yield printable(decode_bytes(carried))
