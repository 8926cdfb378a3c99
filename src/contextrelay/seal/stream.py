"""Seals of format k2: AES-256-GCM in chunks of 64 KiB that cannot be truncated, moved or exchanged.

    header   89 "relayk2", the binary logarithm of the chunk size, 7 bytes of nonce prefix
    chunk    ciphertext and 16 bytes of tag; all but the last have 65,536 bytes, and the last is
             empty only if the whole body is
    nonce    prefix, chunk number in 4 bytes, big-endian, 01 for the last chunk, otherwise 00
    data     authenticated with each chunk: seal id, SHA-256 of the description

Rule: a byte is returned only after its chunk was authenticated at its position, and the end of a
body is known only from its last chunk. docs/security.md describes the format for other programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from contextrelay.errors import Refused, Sealed, TooLarge
from contextrelay.limits import SEAL_CHUNK_BYTES, SEAL_CHUNKS_MAX
from contextrelay.model.artifact import SealFormat
from contextrelay.seal.keys import SealKey, decryption_error

MAGIC = b"\x89relayk2"
"""The first bytes of sealed data.

No UTF-8 text starts with the first of them, so sealed data is never mistaken for text.
"""
PREFIX_BYTES = 7
HEADER_BYTES = len(MAGIC) + 1 + PREFIX_BYTES
TAG_BYTES = 16
SEALED_CHUNK_BYTES = SEAL_CHUNK_BYTES + TAG_BYTES
_START = MAGIC + bytes([SEAL_CHUNK_BYTES.bit_length() - 1])
# The sizes in a Fernet token: version, time, initial vector and tag, and at least one block between
# them.
_K1_AROUND_BYTES = 1 + 8 + 16 + 32
_K1_BLOCK_BYTES = 16
_K1_START = b"gAAAAA"
_K1_TOKEN = re.compile(rb"[A-Za-z0-9_-]+={0,2}")


def description_hash(
    *,
    name: str | None,
    type: str | None,
    media_type: str | None,
    metadata: dict[str, Any],
    created_by: str,
    capability: str | None,
) -> bytes:
    """Return the hash of the description of a body, which comes from the pusher and is not
    encrypted.
    """
    import hashlib

    from contextrelay.documents.canonical import canonical

    return hashlib.sha256(
        canonical(
            {
                "name": name,
                "type": type,
                "media_type": media_type,
                "metadata": metadata,
                "created_by": created_by,
                "capability": capability,
            }
        )
    ).digest()


# Sizes


def sealed_size(size_bytes: int) -> int:
    """Return the size in bytes of a body after sealing."""
    return HEADER_BYTES + size_bytes + TAG_BYTES * _chunks_in(size_bytes)


def _chunks_in(size_bytes: int) -> int:
    return max(1, -(-size_bytes // SEAL_CHUNK_BYTES))


class ChunkSpan(Struct, frozen=True):
    """The chunks that contain the bytes of a slice, and their position in the sealed body."""

    first: int
    final: int
    last: int
    """The number of the last chunk of the body, which may be outside the span."""
    skip_bytes: int
    take_bytes: int
    start: int
    stop: int


def span(sealed_bytes: int, start: int, stop: int | None) -> ChunkSpan:
    """Return the chunks for the bytes start:stop of the content of a sealed body.

    A span has at least one chunk, so that a wrong key is always detected. If the slice reaches the
    end, the span includes the last chunk, so that a truncated body is detected.

    Raises:
        Sealed: no sealed body has that size.
    """
    chunks = -(-(sealed_bytes - HEADER_BYTES) // SEALED_CHUNK_BYTES)
    size_bytes = sealed_bytes - HEADER_BYTES - TAG_BYTES * chunks
    if chunks < 1 or size_bytes < 0 or sealed_size(size_bytes) != sealed_bytes:
        raise decryption_error()
    last = chunks - 1
    begin = min(start, size_bytes)
    end = size_bytes if stop is None else max(begin, min(stop, size_bytes))
    first = min(begin // SEAL_CHUNK_BYTES, last)
    final = max(first, (end - 1) // SEAL_CHUNK_BYTES)
    if stop is None or stop >= size_bytes:
        final = last
    return ChunkSpan(
        first,
        final,
        last,
        begin - first * SEAL_CHUNK_BYTES,
        end - begin,
        HEADER_BYTES + first * SEALED_CHUNK_BYTES,
        min(sealed_bytes, HEADER_BYTES + (final + 1) * SEALED_CHUNK_BYTES),
    )


def sealed_stop(stop: int | None) -> int | None:
    """Return where to stop reading a sealed body to get the bytes of its content before `stop`;
    None for all.
    """
    if stop is None:
        return None
    return HEADER_BYTES + _chunks_in(stop) * SEALED_CHUNK_BYTES


# Sealing


def sealed(
    chunks: Iterable[bytes], key: SealKey, prefix: bytes, described: bytes
) -> Iterator[bytes]:
    """Yield the chunks of a body, sealed while the body is read.

    Raises (when read):
        TooLarge: the body has too many chunks.
    """
    assert len(prefix) == PREFIX_BYTES
    cipher, authenticated, pieces, index = _cipher(key), key.seal_id + described, ByteQueue(), 0
    yield _START + prefix
    for chunk in chunks:
        pieces.add(chunk)
        # A full chunk may be the last one, so keep it until more data arrives.
        while pieces.size_bytes > SEAL_CHUNK_BYTES:
            nonce = _nonce(prefix, index, is_last=False)
            yield cipher.encrypt(nonce, pieces.take(SEAL_CHUNK_BYTES), authenticated)
            index += 1
            if index >= SEAL_CHUNKS_MAX:
                raise TooLarge(
                    "the body is too large to seal",
                    f"at most {SEAL_CHUNKS_MAX:,} chunks of {SEAL_CHUNK_BYTES:,} bytes; split it",
                )
    rest = pieces.take(pieces.size_bytes)
    yield cipher.encrypt(_nonce(prefix, index, is_last=True), rest, authenticated)


class SealedBody:
    """A body in memory that is sealed while it is read, to the same bytes each time."""

    def __init__(self, body: bytes, key: SealKey, prefix: bytes, described: bytes) -> None:
        self._body = body
        self._sealed_by = key, prefix, described

    def __len__(self) -> int:
        return sealed_size(len(self._body))

    def __iter__(self) -> Iterator[bytes]:
        return sealed((self._body,), *self._sealed_by)


# Opening


class Opener:
    """Decrypts the chunks of a span as they are fed.

    One of the descriptions must be the sealed one. If `header` is not passed, the header of the
    sealed body must be fed first.

    Raises (when fed):
        Sealed: a chunk is not the one sealed at its position, or there is extra data.
    """

    def __init__(
        self,
        key: SealKey,
        descriptions: Sequence[bytes],
        chosen: ChunkSpan,
        header: bytes = b"",
    ) -> None:
        from cryptography.exceptions import InvalidTag

        self._not_opened = InvalidTag
        self._cipher = _cipher(key)
        self._data = [key.seal_id + each for each in descriptions]
        self._pieces = ByteQueue()
        self._index = chosen.first
        self._last = chosen.last
        self._left_bytes = chosen.stop - chosen.start
        self._skip_bytes = chosen.skip_bytes
        self._take_bytes = chosen.take_bytes
        self._nonce = _prefix_in(header) if header else b""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Add the next bytes of sealed data; yield the content that can be decrypted with them."""
        self._pieces.add(chunk)
        if not self._nonce:
            if self._pieces.size_bytes < HEADER_BYTES:
                return
            self._nonce = _prefix_in(bytes(self._pieces.take(HEADER_BYTES)))
        while (
            size_bytes := min(SEALED_CHUNK_BYTES, self._left_bytes)
        ) and self._pieces.size_bytes >= size_bytes:
            opened = self._open(self._pieces.take(size_bytes))
            self._left_bytes -= size_bytes
            if part := self._cut(opened):
                yield part
        if not self._left_bytes and self._pieces.size_bytes:
            raise decryption_error()

    def finish(self) -> None:
        """Check that all chunks were received.

        Raises:
            Sealed: a part of the sealed body is missing.
        """
        if self._left_bytes:
            raise decryption_error("the sealed body is truncated")

    def _open(self, chunk: bytes | memoryview) -> bytes:
        nonce = _nonce(self._nonce, self._index, self._index == self._last)
        self._index += 1
        for data in self._data:
            with suppress(self._not_opened):
                opened = self._cipher.decrypt(nonce, chunk, data)
                self._data = [data]
                return opened
        raise decryption_error()

    def _cut(self, opened: bytes) -> bytes:
        """Return the part of a decrypted chunk that belongs to the slice."""
        skipped = min(self._skip_bytes, len(opened))
        self._skip_bytes -= skipped
        if skipped or len(opened) > self._take_bytes:
            opened = opened[skipped : skipped + self._take_bytes]
        self._take_bytes -= len(opened)
        return opened


def _prefix_in(header: bytes) -> bytes:
    if len(header) != HEADER_BYTES or not header.startswith(_START):
        raise decryption_error("not sealed in this format")
    return header[len(_START) :]


class ByteQueue:
    """Regroups bytes into other chunk sizes, copying only across boundaries."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._waiting: list[memoryview] = []

    def add(self, piece: bytes) -> None:
        if piece:
            self._waiting.append(memoryview(piece))
            self.size_bytes += len(piece)

    def take(self, size_bytes: int) -> bytes | memoryview:
        """Return the next `size_bytes` bytes. At least that many bytes must have been added."""
        assert size_bytes <= self.size_bytes
        self.size_bytes -= size_bytes
        taken: list[memoryview] = []
        missing = size_bytes
        used = 0
        for piece in self._waiting:
            if not missing:
                break
            if len(piece) > missing:
                taken.append(piece[:missing])
                self._waiting[used] = piece[missing:]
                missing = 0
                break
            taken.append(piece)
            missing -= len(piece)
            used += 1
        del self._waiting[:used]
        return taken[0] if len(taken) == 1 else b"".join(taken)


def _cipher(key: SealKey) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if key.format != "k2":
        raise Sealed(
            "the key belongs to another seal format", "use the URL exactly as it was printed"
        )
    return AESGCM(key.secret)


def _nonce(prefix: bytes, index: int, is_last: bool) -> bytes:
    return b"%s%s%c" % (prefix, index.to_bytes(4, "big"), is_last)


# Server-side checks: without a key, a server can only check that a body looks sealed.


def sealed_bytes_max(sealed: SealFormat | None, body_bytes_max: int) -> int:
    """Return the maximum size of a body after sealing, if its content has the maximum size."""
    if sealed == "k1":
        padded = body_bytes_max // _K1_BLOCK_BYTES * _K1_BLOCK_BYTES + _K1_BLOCK_BYTES
        return (_K1_AROUND_BYTES + padded + 2) // 3 * 4
    return body_bytes_max if sealed is None else sealed_size(body_bytes_max)


def check_sealed(sealed: SealFormat, head: bytes, size_bytes: int) -> None:
    """Check that a body looks as if it were sealed in the declared format.

    Raises:
        Refused: the body cannot be sealed in that format.
    """
    if not (is_k1(head, size_bytes) if sealed == "k1" else is_k2(head)):
        raise Refused(
            f"the body is not sealed as {sealed}, as declared",
            "seal it before pushing, or omit `sealed`",
        )


def is_k1(head: bytes, size_bytes: int) -> bool:
    """Return True if a body with this head and size has the form of a Fernet token."""
    if not head.startswith(_K1_START) or size_bytes % 4 or not _K1_TOKEN.fullmatch(head):
        return False
    if len(head) < size_bytes:
        return True
    token_bytes = size_bytes // 4 * 3 - head.count(b"=")
    blocks_bytes = token_bytes - _K1_AROUND_BYTES
    return blocks_bytes > 0 and blocks_bytes % _K1_BLOCK_BYTES == 0


def is_k2(head: bytes) -> bool:
    """Return True if a body starts like one sealed in format k2."""
    return head.startswith(_START) and len(head) >= HEADER_BYTES + TAG_BYTES
