"""Sources: a body as slicing reads it, wherever its bytes are: ranges, chunk by chunk.

Rule: nothing here holds a body but one in UTF-16, whose places can only be found by reading all
before them. What is read is asked for by place, and no further than needed.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from contextrelay.content.slicing.line_offsets import Marks
from contextrelay.content.sniff import sniff_binary
from contextrelay.errors import Invalid
from contextrelay.limits import CHUNK_BYTES, HEAD_BYTES_MAX, LINE_MARK_BYTES, MIB
from contextrelay.model.artifact import ArtifactType
from contextrelay.model.tokens import TokenCount

Read = Callable[[int, int], Iterator[bytes]]
"""From start and stop to the bytes between, in chunks."""

_STEP_BYTES_MAX = 4 * MIB
_SURROGATE = re.compile("[\udc80-\udcff]")
_MARKS_OF_ENCODINGS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class SliceSource(Struct, frozen=True, kw_only=True):
    """A body to slice: what is known of it, and how to read it."""

    ref: str
    type: ArtifactType
    media_type: str = ""
    name: str | None = None
    is_text: bool
    """Whether it is UTF-8."""
    size_bytes: int
    read: Read
    marks: Callable[[], Marks | None]
    """Where lines begin, if that is known or worth finding out."""
    line_count: int | None = None
    whole: Callable[[], TokenCount | None] = lambda: None
    """How many tokens all of it takes, if that is known or quickly found out."""
    sha256: str = ""
    notes: tuple[str, ...] = ()

    def bytes_of(self, start: int, stop: int) -> bytes:
        return b"".join(self.read(start, stop))

    def read_on(self, start: int) -> Iterator[bytes]:
        """The bytes from a place on, a few at first and more with each step."""
        step = LINE_MARK_BYTES
        while start < self.size_bytes:
            stop = min(start + step, self.size_bytes)
            yield from self.read(start, stop)
            start, step = stop, min(2 * step, _STEP_BYTES_MAX)


def in_hand(body: bytes) -> Read:
    """The reader of a body that is in memory."""

    def read(start: int, stop: int) -> Iterator[bytes]:
        view = memoryview(body)
        for place in range(start, min(stop, len(body)), CHUNK_BYTES):
            yield bytes(view[place : min(place + CHUNK_BYTES, stop)])

    return read


def readable(source: SliceSource) -> SliceSource:
    """The source as UTF-8, whatever it is; its notes say where that is not what is stored.

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
    note = "it is not UTF-8: bytes that are none are shown as \N{REPLACEMENT CHARACTER}"
    return replace(source, notes=(*source.notes, note))


_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\r\f\x1b")
# Texts in any old encoding have next to none of these; bytes that mean something else have many.
_CONTROLS_SHARE = 50


def is_binary(head: bytes) -> bool:
    """Whether a body that is no UTF-8 is no text in an old encoding either, by its beginning."""
    is_known = sniff_binary(head)[1] != "application/octet-stream"
    control_count = len(head) - len(head.translate(None, _CONTROLS))
    return b"\0" in head or is_known or _CONTROLS_SHARE * control_count > len(head)


def text_of(raw: bytes) -> str:
    """Bytes as text, a character for each byte that is no UTF-8: `bytes_in` finds places again."""
    return raw.decode("utf-8", "surrogateescape")


def shown(text: str) -> str:
    """A text of `text_of` as it may be shown: of the same length."""
    return text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def bytes_in(text: str) -> int:
    """How many bytes of the body a text of `text_of` takes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


def _transcoded(source: SliceSource, encoding: str, mark_bytes: int) -> SliceSource:
    """A source in another encoding, read as the UTF-8 that it would be."""

    decoder = codecs.getincrementaldecoder(encoding)("replace")
    parts = [
        decoder.decode(chunk).encode("utf-8", "replace")
        for chunk in source.read(mark_bytes, source.size_bytes)
    ]
    parts.append(decoder.decode(b"", True).encode("utf-8", "replace"))
    body = b"".join(parts)
    note = f"it is {encoding.upper()}, read as UTF-8; places are those of the UTF-8 text"
    return replace(
        source,
        read=in_hand(body),
        size_bytes=len(body),
        marks=lambda: None,
        line_count=None,
        is_text=True,
        notes=(*source.notes, note),
    )
