"""Sources: access to a body for slicing, wherever its bytes are, in ranges and chunks.

Rule: nothing here keeps a whole body, except in UTF-16, where positions can only be found by
decoding everything before them. Only the requested ranges are read.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from contextrelay.content.sniff import sniff_binary
from contextrelay.errors import Invalid
from contextrelay.limits import CHUNK_BYTES, HEAD_BYTES_MAX, LINE_MARK_BYTES, MIB
from contextrelay.model.artifact import ArtifactType
from contextrelay.model.tokens import TokenCount

LINE_MARKS_MAX = 1_024


class Marks(Struct, frozen=True):
    """Line numbers, ascending, and the offset of each."""

    lines: list[int]
    offsets: list[int]

    def before_line(self, line: int) -> tuple[int, int]:
        """Return the last marked line at or before this one, and its offset."""
        index = bisect_right(self.lines, line) - 1
        return (1, 0) if index < 0 else (self.lines[index], self.offsets[index])

    def before_offset(self, offset: int) -> tuple[int, int]:
        """Return the last marked line that starts at or before an offset, and its offset."""
        index = bisect_right(self.offsets, offset) - 1
        return (1, 0) if index < 0 else (self.lines[index], self.offsets[index])


def find_marks(chunks: Iterator[bytes], size_bytes: int) -> Marks:
    """Read a body once and mark lines in it."""
    apart_bytes = max(LINE_MARK_BYTES, -(-size_bytes // LINE_MARKS_MAX))
    lines: list[int] = []
    offsets: list[int] = []
    line, place, due = 1, 0, apart_bytes
    for chunk in chunks:
        start = 0
        while place + len(chunk) > due:
            newline = chunk.find(b"\n", max(start, due - place))
            if newline < 0:
                break
            line += chunk.count(b"\n", start, newline + 1)
            start = newline + 1
            lines.append(line)
            offsets.append(place + start)
            due = place + start + apart_bytes
        line += chunk.count(b"\n", start)
        place += len(chunk)
    return Marks(lines, offsets)


def offset_of_line(
    read_on: Callable[[int], Iterator[bytes]], marks: Marks | None, line: int, end: int
) -> tuple[int, int]:
    """Return the offset of a line and its number; the end for a line after the last."""
    here, place = (1, 0) if marks is None else marks.before_line(line)
    if here == line:
        return place, line
    for chunk in read_on(place):
        there = chunk.count(b"\n")
        if here + there < line:
            here += there
            place += len(chunk)
            continue
        start = 0
        while here < line:
            start = chunk.index(b"\n", start) + 1
            here += 1
        return place + start, line
    return end, here


Read = Callable[[int, int], Iterator[bytes]]  # Returns the bytes from start to stop, in chunks.

_STEP_BYTES_MAX = 4 * MIB
_SURROGATE = re.compile("[\udc80-\udcff]")
_MARKS_OF_ENCODINGS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class SliceSource(Struct, frozen=True, kw_only=True):
    """A body to slice: its properties, and how to read it."""

    ref: str
    type: ArtifactType
    media_type: str = ""
    name: str | None = None
    is_text: bool  # Whether it is UTF-8.
    size_bytes: int
    read: Read
    marks: Callable[[], Marks | None]  # Returns line offsets, if known or worth computing.
    line_count: int | None = None
    whole: Callable[[], TokenCount | None] = lambda: None
    """Returns the tokens of the whole body, if known or cheap to compute."""
    sha256: str = ""
    notes: tuple[str, ...] = ()

    def bytes_of(self, start: int, stop: int) -> bytes:
        return b"".join(self.read(start, stop))

    def read_on(self, start: int) -> Iterator[bytes]:
        """Yield the bytes from an offset, in growing chunks."""
        step = LINE_MARK_BYTES
        while start < self.size_bytes:
            stop = min(start + step, self.size_bytes)
            yield from self.read(start, stop)
            start, step = stop, min(2 * step, _STEP_BYTES_MAX)


def in_hand(body: bytes) -> Read:
    """Return a reader of a body in memory."""

    def read(start: int, stop: int) -> Iterator[bytes]:
        view = memoryview(body)
        for place in range(start, min(stop, len(body)), CHUNK_BYTES):
            yield bytes(view[place : min(place + CHUNK_BYTES, stop)])

    return read


def readable(source: SliceSource) -> SliceSource:
    """Return the source as UTF-8; its notes say if that is not how it is stored.

    Raises:
        Invalid: it is binary.
    """
    if source.is_text or not source.size_bytes:
        return source
    head = source.bytes_of(0, min(HEAD_BYTES_MAX, source.size_bytes))
    for mark, encoding in _MARKS_OF_ENCODINGS:
        if head.startswith(mark):
            return _transcoded(source, encoding, len(mark))
    if is_binary(head):
        kind = sniff_binary(head)[1]
        raise Invalid(
            f"{source.ref[:8]} is binary ({kind}, {source.size_bytes:,} bytes)",
            f"pull its bytes: relay pull {source.ref[:8]} --bytes 0:1000",
        )
    note = "invalid UTF-8: bytes that cannot be decoded are shown as \N{REPLACEMENT CHARACTER}"
    return replace(source, notes=(*source.notes, note))


_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\r\f\x1b")
# Text in any legacy encoding has almost none of these; binary data has many.
_CONTROLS_SHARE = 50


def is_binary(head: bytes) -> bool:
    """Return True if the head of a non-UTF-8 body is not text in a legacy encoding either."""
    is_known = sniff_binary(head)[1] != "application/octet-stream"
    control_count = len(head) - len(head.translate(None, _CONTROLS))
    return b"\0" in head or is_known or _CONTROLS_SHARE * control_count > len(head)


def text_of(raw: bytes) -> str:
    """Decode bytes, with one character for each invalid byte: `bytes_in` restores offsets."""
    return raw.decode("utf-8", "surrogateescape")


def shown(text: str) -> str:
    """Return a text of `text_of` for display, with the same length."""
    return text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def bytes_in(text: str) -> int:
    """Return how many bytes of the body a text of `text_of` takes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


def _transcoded(source: SliceSource, encoding: str, mark_bytes: int) -> SliceSource:
    """Return a source in another encoding, read as UTF-8."""

    decoder = codecs.getincrementaldecoder(encoding)("replace")
    parts = [
        decoder.decode(chunk).encode("utf-8", "replace")
        for chunk in source.read(mark_bytes, source.size_bytes)
    ]
    parts.append(decoder.decode(b"", True).encode("utf-8", "replace"))
    body = b"".join(parts)
    note = f"encoded in {encoding.upper()}, read as UTF-8; positions are those of the UTF-8 text"
    return replace(
        source,
        read=in_hand(body),
        size_bytes=len(body),
        marks=lambda: None,
        line_count=None,
        is_text=True,
        notes=(*source.notes, note),
    )


_SPAN = re.compile(r"(-?[0-9]{1,15})?:(-?[0-9]{1,15})?")


class SliceRange(Struct, frozen=True):
    """From `start` up to `stop`, exclusive; negative numbers count from the end."""

    start: int | None
    stop: int | None

    def within(self, first: int, end: int) -> tuple[int, int]:
        """Return the part of it within the positions from `first` up to `end`."""
        start = first if self.start is None else self.start
        stop = end if self.stop is None else self.stop
        start = end + start if start < 0 else start
        stop = end + stop if stop < 0 else stop
        start = min(max(start, first), end)
        return start, min(max(stop, start), end)


def read_span(text: str, way: str) -> SliceRange:
    """Parse A:B, A:, :B or a single number, which means that one position.

    Raises:
        Invalid: it is malformed, or ends before it begins.
    """
    match = _SPAN.fullmatch(text)
    if match is None:
        if text.isascii() and text.isdigit() and len(text) <= 15:
            return SliceRange(int(text), int(text) + 1)
        raise Invalid(
            f"invalid span of {way}: {text[:40]!r}", f"pass {way} as 10:20, 10:, :20 or -20:"
        )
    start, stop = (None if part is None else int(part) for part in match.groups())
    if start is not None and stop is not None and (start < 0) == (stop < 0) and stop < start:
        raise Invalid(f"invalid span: {way} {text} ends before it begins", f"pass {way} as 10:20")
    return SliceRange(start, stop)


def spell(start: int, stop: int | None) -> str:
    return f"{start}:{'' if stop is None else stop}"
