"""Slices by lines A:B: the first line is 1, and a line includes its newline.

Rule: memory does not grow with a line. A line longer than LINE_BYTES_SHOWN is folded, unless it is
the only one requested; a note says where the rest is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from contextrelay.content.slicing.fit import FittedPiece, bytes_for, fit_bytes, fit_lines
from contextrelay.content.slicing.source import (
    SliceRange,
    SliceSource,
    offset_of_line,
    shown,
    spell,
    text_of,
)
from contextrelay.limits import LINE_BYTES_SHOWN, LINE_MARK_BYTES

_NOTES_MAX = 3


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
            room = max(0, head_bytes_max - len(head))
            size_bytes += stop - start
            yield LineSpan(
                number, offset, head + chunk[start : min(stop, start + room)], size_bytes
            )
            offset += size_bytes
            number, head, size_bytes, start = number + 1, b"", 0, stop
        room = max(0, head_bytes_max - len(head))
        head += chunk[start : start + room]
        size_bytes += len(chunk) - start
    if size_bytes:
        yield LineSpan(number, offset, head, size_bytes)


def _nothing(source: SliceSource, start: int, stop: int) -> str:
    """Explain why a span contains no line."""
    count = source.line_count
    if source.size_bytes == 0:
        return "the body is empty"
    if stop <= start and (count is None or start <= count):
        return f"the end is exclusive; line {start} is {spell(start, start + 1)}"
    if count is None:
        return "the body has fewer lines"
    return "the body has 1 line" if count == 1 else f"the body has {count:,} lines"


def take_lines(source: SliceSource, span: SliceRange, tokens_max: int) -> FittedPiece:
    """Return the lines of a span, as many as fit."""
    start, stop = _bounds(source, span)
    near = start <= 1 or source.size_bytes <= 2 * LINE_MARK_BYTES
    marks = None if near else source.marks()
    offset, number = offset_of_line(source.read_on, marks, start, source.size_bytes)
    if number < start or offset >= source.size_bytes or stop <= start:
        why = _nothing(source, start, stop)
        return FittedPiece(
            at=spell(start, start), text="", notes=(f"nothing in this range: {why}",)
        )
    if stop - start == 1:
        return _one_line(source, number, offset, tokens_max)
    taken: list[str] = []
    folded: list[LineSpan] = []
    last = LineSpan(number, offset, b"", 0)
    room = bytes_for(tokens_max)
    is_end = True
    for line in lines_in(source.read_on(offset), number, offset, LINE_BYTES_SHOWN):
        if line.number >= stop:
            break
        if room <= 0:
            is_end = False
            break
        taken.append(_shown_line(line, folded))
        room -= len(line.head)
        last = line
    text, count = fit_lines(taken, tokens_max)
    if count == 0:
        return _one_line(source, number, offset, tokens_max, stop)
    end = min(stop, number + count)
    is_all = is_end and count == len(taken)
    return FittedPiece(
        at=spell(number, end if not is_all else last.number + 1),
        text=text,
        left_out="" if is_all else f"lines {end:,} to {_last(source, stop)}",
        next_args={} if is_all else {"lines": spell(end, _stop(source, stop, end))},
        notes=tuple(
            f"line {line.number:,} is folded: relay get {source.ref[:8]}"
            f" --bytes {spell(line.offset, line.offset + line.size_bytes)}"
            for line in folded[:_NOTES_MAX]
            if line.number < end
        ),
    )


def _bounds(source: SliceSource, span: SliceRange) -> tuple[int, int]:
    """Return the span as line numbers; only a span from the end needs the number of lines."""
    start = 1 if span.start is None else max(span.start, 1) if span.start >= 0 else span.start
    stop = span.stop
    if start >= 0 and (stop is None or stop >= 0):
        return start, _FAR if stop is None else max(stop, start)
    count = source.line_count
    if count is None:
        count = sum(chunk.count(b"\n") for chunk in source.read(0, source.size_bytes)) + 1
    return span.within(1, count + 1)


_FAR = 1 << 53


def _last(source: SliceSource, stop: int) -> str:
    count = source.line_count
    if count is not None:
        return f"{min(stop - 1, count):,} of {count:,}"
    return "the end" if stop == _FAR else f"{stop - 1:,}"


def _stop(source: SliceSource, stop: int, end: int) -> int:
    """Return the end of the next piece: as far as requested, but not past the end."""
    count = source.line_count
    if count is not None:
        return min(stop, count + 1)
    return stop if stop != _FAR else end + (end - 1)


def _shown_line(line: LineSpan, folded: list[LineSpan]) -> str:
    if line.size_bytes <= LINE_BYTES_SHOWN:
        return shown(text_of(line.head))
    folded.append(line)
    text, kept = fit_bytes(line.head, LINE_BYTES_SHOWN, is_end=False)
    return f"{text} [… {line.size_bytes - kept:,} bytes more]\n"


def _one_line(
    source: SliceSource, number: int, offset: int, tokens_max: int, stop: int | None = None
) -> FittedPiece:
    """Return one line, as much of it as fits, without reading further."""
    raw = source.bytes_of(offset, min(offset + bytes_for(tokens_max), source.size_bytes))
    end = raw.find(b"\n") + 1
    is_whole = bool(end) or offset + len(raw) == source.size_bytes
    raw = raw[:end] if end else raw
    text, kept = fit_bytes(raw, tokens_max, is_end=is_whole)
    if is_whole and kept == len(raw):
        return FittedPiece(at=spell(number, number + 1), text=text)
    rest = f"line {number:,} from byte {offset + kept:,} on"
    if stop is not None and stop > number + 1:
        rest += f", and lines {number + 1:,} to {_last(source, stop)}"
    until = offset + len(raw) if end else min(offset + 2 * kept, source.size_bytes)
    return FittedPiece(
        at=spell(number, number + 1),
        text=text,
        left_out=rest,
        next_args={"bytes": spell(offset + kept, until)},
    )
