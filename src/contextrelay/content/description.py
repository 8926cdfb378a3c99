"""Descriptions: facts about a body, computed while it is streamed in chunks.

Rule: a description holds the head of a body, never the body.
"""

from __future__ import annotations

import codecs
import hashlib

from contextrelay.limits import CHUNK_BYTES, HEAD_BYTES_MAX


class Description:
    """Hash, size, line count, head and encoding of a body. They describe the chunks fed so far."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._head: list[bytes] = []
        self._digest = hashlib.sha256()
        self._newline_count = 0
        self._ends_line = True
        self._decoder: codecs.IncrementalDecoder | None = None
        # Once a chunk is not text, the body is not text, and later chunks are not checked.
        self._is_text_so_far = True

    def feed(self, chunk: bytes) -> None:
        """Add the next chunk of the body."""
        if not chunk:
            return
        if self.size_bytes < HEAD_BYTES_MAX:
            self._head.append(chunk[: HEAD_BYTES_MAX - self.size_bytes])
        self.size_bytes += len(chunk)
        self._digest.update(chunk)
        self._newline_count += chunk.count(b"\n")
        self._ends_line = chunk.endswith(b"\n")
        if self._is_text_so_far:
            self._is_text_so_far = b"\0" not in chunk and self._decodes(chunk)

    def _decodes(self, chunk: bytes) -> bool:
        """Return True if the chunk continues valid UTF-8, also within a character."""
        if chunk.isascii() and not self._is_inside_character:
            return True
        if self._decoder is None:
            self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        # Decoded in pieces, because decoded text takes up to four times the memory of its bytes.
        for start in range(0, len(chunk), CHUNK_BYTES):
            try:
                self._decoder.decode(chunk[start : start + CHUNK_BYTES])
            except UnicodeDecodeError:
                return False
        return True

    @property
    def _is_inside_character(self) -> bool:
        return self._decoder is not None and bool(self._decoder.getstate()[0])

    @property
    def sha256(self) -> str:
        """The SHA-256 hash, as 64 hexadecimal digits."""
        return self._digest.hexdigest()

    @property
    def head(self) -> bytes:
        """The first bytes of the body, at most HEAD_BYTES_MAX."""
        return b"".join(self._head)

    @property
    def line_count(self) -> int:
        """The number of lines; a last line without a newline counts."""
        return self._newline_count + (not self._ends_line)

    @property
    def is_text(self) -> bool:
        """Whether the body is UTF-8 without NUL, and can therefore be sent as a string."""
        return self._is_text_so_far and not self._is_inside_character
