"""The body of a request, in pieces of a suitable size, and whether it can be sent again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from contextrelay.limits import CHUNK_BYTES
from contextrelay.seal.stream import SealedBody
from contextrelay.verbs import Body

# Types of bodies that yield the same bytes each time they are read.
_LASTING = (bytes, list, tuple, SealedBody)


class Outgoing:
    """The body of a request: a first part made by the client, then the body from the caller."""

    def __init__(self, first: bytes, body: Body = b"") -> None:
        self._first = first
        self._body = body
        self._is_touched = False

    @property
    def can_go_again(self) -> bool:
        """Return True if the body can be sent again: nothing was consumed."""
        return isinstance(self._body, _LASTING) or not self._is_touched

    @property
    def length(self) -> int | None:
        """Return the size of the body in bytes, or None if the size is unknown until it is read."""
        if isinstance(self._body, bytes | SealedBody):
            return len(self._first) + len(self._body)
        if isinstance(self._body, list | tuple):
            chunks = cast("Iterable[bytes]", self._body)
            return len(self._first) + sum(map(len, chunks))
        return None

    def small(self) -> bytes | None:
        """Return the whole body if it is small enough to be sent at once, or None."""
        if isinstance(self._body, bytes) and len(self._body) <= CHUNK_BYTES:
            return self._first + self._body
        return None

    def pieces(self) -> Iterator[bytes]:
        """Yield the whole body, piece by piece."""
        chunks = self._touched(self._body)
        # Chunks of slow content are sent as they come; if they were collected, the server would
        # close the connection as idle.
        return cut(joined(chunks) if isinstance(self._body, list | tuple) else chunks)

    def _touched(self, body: Body) -> Iterator[bytes]:
        yield self._first
        if isinstance(body, bytes):
            yield body
            return
        for chunk in body:
            self._is_touched = True
            yield chunk


def cut(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces that are at most as large as a chunk."""
    for chunk in chunks:
        if len(chunk) <= CHUNK_BYTES:
            if chunk:
                yield chunk
            continue
        view = memoryview(chunk)
        for start in range(0, len(chunk), CHUNK_BYTES):
            yield bytes(view[start : start + CHUNK_BYTES])


def joined(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces that are not much smaller than a chunk."""
    waiting: list[bytes] = []
    waiting_bytes = 0
    for chunk in chunks:
        waiting.append(chunk)
        waiting_bytes += len(chunk)
        if waiting_bytes >= CHUNK_BYTES:
            yield b"".join(waiting)
            waiting, waiting_bytes = [], 0
    yield b"".join(waiting)
