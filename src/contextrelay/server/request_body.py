"""Uploads: request bodies that are being received.

A small body stays in memory, and a larger one goes to an unnamed file. This keeps memory use
constant, and no thread waits for a slow client, because core gets a body only when it is complete.
"""

from __future__ import annotations

import errno
import tempfile
from asyncio import to_thread
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO

from contextrelay.errors import RelayError, Unavailable
from contextrelay.limits import CHUNK_BYTES, UPLOAD_MEMORY_BYTES
from contextrelay.server.bounds import no_room

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Upload:
    """The data of a body received so far. `make_room` is called before anything is written to a
    file.
    """

    __slots__ = ("_file", "_make_room", "_parts", "_waiting_bytes", "size_bytes")

    def __init__(self, make_room: Callable[[int], None]) -> None:
        self.size_bytes = 0
        self._make_room = make_room
        self._parts: list[bytes] = []
        self._waiting_bytes = 0
        self._file: IO[bytes] | None = None

    async def take(self, part: bytes) -> None:
        """Append a part of the body.

        Raises:
            Full: there is no room for the part.
            Limited, Unavailable: there is no room for the part now.
        """
        self.size_bytes += len(part)
        self._waiting_bytes += len(part)
        self._parts.append(part)
        if self._waiting_bytes > UPLOAD_MEMORY_BYTES:
            self._make_room(self._waiting_bytes)
            await to_thread(self._write)

    def _write(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
            self._file.writelines(self._parts)
            self._file.flush()
        except OSError as error:
            raise _trouble(error) from error
        self._parts = []
        self._waiting_bytes = 0

    def body(self) -> bytes | Iterator[bytes]:
        """Return the body in the form that core accepts. Call this only once."""
        if self._file is None:
            return b"".join(self._parts)
        return self._chunks(self._file)

    def whole(self) -> bytes:
        """Return the whole body. Call this only once."""
        body = self.body()
        return body if isinstance(body, bytes) else b"".join(body)

    def _chunks(self, file: IO[bytes]) -> Iterator[bytes]:
        """Yield the contents of the file, then the part that is still in memory."""
        file.seek(0)
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
        if self._parts:
            yield b"".join(self._parts)

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # Data that could not be written is no longer needed.
                self._file.close()


def _trouble(error: OSError) -> RelayError:
    if error.errno in _NO_ROOM:
        return no_room()
    return Unavailable("the server cannot receive this body now", "retry later")
