"""Sources for tests: bodies in memory that count what is read of them."""

from __future__ import annotations

from collections.abc import Iterator

from contextrelay.content.slicing.slice import read_piece
from contextrelay.content.slicing.source import Marks, SliceSource, find_marks, memory_reader
from contextrelay.model.artifact import ArtifactType
from contextrelay.model.inspect import Piece, Selector, Way

REF = "a88de970-8c41-4f00-9c1f-02aa550e8400"


class Counted:
    """A body, and how many bytes of it were read."""

    def __init__(
        self, body: bytes, type: ArtifactType = "text", media_type: str = "", name: str = ""
    ) -> None:
        self.body = body
        self.read_bytes = 0
        self._read = memory_reader(body)
        self.source = SliceSource(
            ref=REF,
            type=type,
            media_type=media_type,
            name=name or None,
            is_text=_is_utf_8(body),
            size_bytes=len(body),
            read=self.read,
            marks=self.marks,
            line_count=body.count(b"\n") + (body[-1:] not in (b"\n", b"")),
        )

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        for chunk in self._read(start, stop):
            self.read_bytes += len(chunk)
            yield chunk

    def marks(self) -> Marks:
        return find_marks(self._read(0, len(self.body)), len(self.body))

    def take(
        self, way: Way, value: str, tokens_max: int = 2_000, columns: tuple[str, ...] = ()
    ) -> Piece:
        return read_piece(self.source, Selector(way, value, columns), tokens_max)


def _is_utf_8(body: bytes) -> bool:
    try:
        return "\0" not in body.decode()
    except UnicodeDecodeError:
        return False
