"""Sources: access to a body for slicing, wherever its bytes are, in ranges and chunks.

Rule: nothing here keeps a whole body, except in UTF-16, where positions can only be found by
decoding everything before them. Only the requested ranges are read.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from contextrelay.content.sniff import sniff_binary
from contextrelay.content.tokens import cut_to_tokens
from contextrelay.errors import Invalid
from contextrelay.limits import (
    CHUNK_BYTES,
    HEAD_BYTES_MAX,
    LINE_MARK_BYTES,
    MIB,
    NAME_CHARS_COMPARED,
    NAMES_COMPARED_MAX,
    PIECE_BYTES_PER_TOKEN,
)
from contextrelay.model.artifact import ArtifactType
from contextrelay.model.tokens import TokenCount

LINE_MARKS_MAX = 1_024


class Marks(Struct, frozen=True):
    """Line numbers, ascending, and the offset of each."""

    lines: list[int]
    offsets: list[int]

    def before_line(self, line: int) -> tuple[int, int]:
        """Return the last marked line at or before this one, and its offset."""
        return self._at(bisect_right(self.lines, line) - 1)

    def before_offset(self, offset: int) -> tuple[int, int]:
        """Return the last marked line that starts at or before an offset, and its offset."""
        return self._at(bisect_right(self.offsets, offset) - 1)

    def _at(self, index: int) -> tuple[int, int]:
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


def memory_reader(body: bytes) -> Read:
    """Return a reader of a body in memory."""

    def read(start: int, stop: int) -> Iterator[bytes]:
        view = memoryview(body)
        for place in range(start, min(stop, len(body)), CHUNK_BYTES):
            yield bytes(view[place : min(place + CHUNK_BYTES, stop)])

    return read


def as_utf8(source: SliceSource) -> SliceSource:
    """Return the source as UTF-8; its notes say if that is not how it is stored.

    Raises:
        Invalid: it is binary.
    """
    if source.is_text or not source.size_bytes:
        return source
    head = source.bytes_of(0, min(HEAD_BYTES_MAX, source.size_bytes))
    for mark, encoding in _MARKS_OF_ENCODINGS:
        if not head.startswith(mark):
            continue
        decode = codecs.getincrementaldecoder(encoding)("replace").decode
        chunks = source.read(len(mark), source.size_bytes)
        texts = (*map(decode, chunks), decode(b"", True))
        body = b"".join(text.encode("utf-8", "replace") for text in texts)
        note = (
            f"encoded in {encoding.upper()}, read as UTF-8; positions are those of the UTF-8 text"
        )
        return replace(
            source,
            read=memory_reader(body),
            size_bytes=len(body),
            marks=lambda: None,
            line_count=None,
            is_text=True,
            notes=(*source.notes, note),
        )
    ref = source.ref[:8]
    if is_binary(head):
        facts = f"({sniff_binary(head)[1]}, {source.size_bytes:,} bytes)"
        raise Invalid(
            f"{ref} is binary {facts}", f"pull its bytes: relay pull {ref} --bytes 0:1000"
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


def decode_bytes(raw: bytes) -> str:
    """Decode bytes, with one character for each invalid byte: `encoded_size` restores offsets."""
    return raw.decode("utf-8", "surrogateescape")


def printable(text: str) -> str:
    """Return a text of `decode_bytes` for display, with the same length."""
    return text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def encoded_size(text: str) -> int:
    """Return how many bytes of the body a text of `decode_bytes` takes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


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


def parse_range(text: str, way: str) -> SliceRange:
    """Parse A:B, A:, :B or a single number, which means that one position.

    Raises:
        Invalid: it is malformed, or ends before it begins.
    """
    match = _SPAN.fullmatch(text)
    if match is None:
        if text.isascii() and text.isdigit() and len(text) <= 15:
            return SliceRange(int(text), int(text) + 1)
        hint = f"pass {way} as 10:20, 10:, :20 or -20:"
        raise Invalid(f"invalid span of {way}: {text[:40]!r}", hint)
    start, stop = (None if part is None else int(part) for part in match.groups())
    if start is not None and stop is not None and (start < 0) == (stop < 0) and stop < start:
        raise Invalid(f"invalid span: {way} {text} ends before it begins", f"pass {way} as 10:20")
    return SliceRange(start, stop)


def format_range(start: int, stop: int | None) -> str:
    return f"{start}:{'' if stop is None else stop}"


class FittedPiece(Struct, frozen=True, kw_only=True):
    """A piece as returned by one selector."""

    at: str
    text: str
    left_out: str = ""
    next_args: dict[str, Any] = {}
    notes: tuple[str, ...] = ()


_ALIKE_SHOWN_MAX = 8


def with_name(taken: FittedPiece, name: str, others: list[str]) -> FittedPiece:
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


def fit_text(text: str, tokens_max: int) -> str:
    """Return the longest prefix of a text that fits."""
    # Skip counting a text with fewer characters than tokens only if it is ASCII, where each
    # character takes at most one token.
    if len(text) <= tokens_max and text.isascii():
        return text
    return cut_to_tokens(text, tokens_max)


def fit_lines(lines: list[str], tokens_max: int) -> tuple[str, int]:
    """Return the lines that fit, joined, and their number; (a prefix, 0) if none fits.

    Each line includes its line end.
    """
    joined = "".join(lines)
    kept = fit_text(joined, tokens_max)
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
        text = fit_text(kept[:chars], tokens_max)
        if len(text) == chars:
            return text, count
        count -= 1
        chars -= len(lines[count])
    return kept, 0


def fit_bytes(raw: bytes, tokens_max: int, is_end: bool) -> tuple[str, int]:
    """Return the longest prefix of some bytes that fits, as text, and its length in bytes.

    `is_end`: nothing follows, so half a character at the end is invalid and not just cut.
    """
    text = decode_bytes(raw if is_end else without_half(raw))
    kept = fit_text(printable(text), tokens_max)
    return kept, encoded_size(text[: len(kept)])


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
    return sum(1 for _ in takewhile(lambda byte: byte & 0xC0 == 0x80, raw[:3]))
