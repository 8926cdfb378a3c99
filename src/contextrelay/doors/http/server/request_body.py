"""Uploads: a request's body on its way in.

A small one stays in memory; a larger one goes to a file without a name, so that memory stays flat
and no thread waits for a slow client: core gets a body only once it is all here.
"""

from __future__ import annotations

import tempfile
from asyncio import to_thread
from collections.abc import Iterator
from typing import IO

from contextrelay.limits import CHUNK_BYTES, UPLOAD_MEMORY_BYTES


class Upload:
    """What came so far."""

    __slots__ = ("_file", "_parts", "_waiting_bytes", "size_bytes")

    def __init__(self) -> None:
        self.size_bytes = 0
        self._parts: list[bytes] = []
        self._waiting_bytes = 0
        self._file: IO[bytes] | None = None

    async def take(self, part: bytes) -> None:
        self.size_bytes += len(part)
        self._waiting_bytes += len(part)
        self._parts.append(part)
        if self._waiting_bytes > UPLOAD_MEMORY_BYTES:
            await to_thread(self._write)

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self._file.writelines(self._parts)
        self._parts = []
        self._waiting_bytes = 0

    def body(self) -> bytes | Iterator[bytes]:
        """The body, as core takes one; once."""
        if self._file is None:
            return b"".join(self._parts)
        return self._chunks(self._file)

    def whole(self) -> bytes:
        """The body in one piece; once."""
        body = self.body()
        return body if isinstance(body, bytes) else b"".join(body)

    def _chunks(self, file: IO[bytes]) -> Iterator[bytes]:
        self._write()
        file.seek(0)
        while chunk := file.read(CHUNK_BYTES):
            yield chunk

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
