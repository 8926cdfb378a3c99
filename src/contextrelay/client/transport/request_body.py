"""The body of a request, in pieces of a suitable size; it knows whether it can be sent again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from contextrelay.limits import CHUNK_BYTES
from contextrelay.seal.stream import SealedBody
from contextrelay.verbs import Body

# Bodies that are the same each time they are read.
_LASTING = (bytes, list, tuple, SealedBody)


class Outgoing:
    """A request body: our own first part, then the body as given."""

    def __init__(self, first: bytes, body: Body = b"") -> None:
        self._first = first
        self._body = body
        self._is_touched = False

    @property
    def can_go_again(self) -> bool:
        """Return True if it can be sent again: nothing that can be read only once was consumed."""
        return isinstance(self._body, _LASTING) or not self._is_touched

    @property
    def length(self) -> int | None:
        """Return its size in bytes if that is known before it is read, or None."""
        if isinstance(self._body, bytes | SealedBody):
            return len(self._first) + len(self._body)
        if isinstance(self._body, list | tuple):
            chunks = cast("Iterable[bytes]", self._body)
            return len(self._first) + sum(map(len, chunks))
        return None

    def small(self) -> bytes | None:
        """Return all of it if it is small enough to be sent at once, or None."""
        if isinstance(self._body, bytes) and len(self._body) <= CHUNK_BYTES:
            return self._first + self._body
        return None

    def pieces(self) -> Iterator[bytes]:
        """Yield all of it, piece by piece."""
        chunks = self._touched(self._body)
        # Slow content is sent at once, or the server would close the connection as idle.
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
    """Yield the same bytes in pieces of at most a chunk's size."""
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
