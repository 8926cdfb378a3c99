"""Blobs: bytes under names chosen by core; no name is ever used twice.

Rule: a blob is complete or absent, and never changes. Core decides which blobs may be deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct

from contextrelay.limits import CHUNK_BYTES


class BlobFact(Struct, frozen=True):
    """The description of a stored blob, as returned by `walk`."""

    name: str
    size_bytes: int
    written_ms: int


class BlobDraft(Protocol):
    """A blob being written. Leaving its `with` block without `keep` discards it."""

    def write(self, chunk: bytes | memoryview) -> None: ...

    def keep(self, name: str) -> None:
        """Turn the draft into a durable blob with a name."""
        ...


class Blobs(Protocol):
    """The storage of large bodies."""

    def draft(self) -> AbstractContextManager[BlobDraft]:
        """Start a blob whose name is not known yet."""
        ...

    def read(
        self, name: str, start: int, stop: int, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        """Yield the bytes start:stop in chunks.

        Raises:
            Broken: the blob is missing or too short. The error is raised before the first
            chunk, unless
                the engine can tell only by reading all of the blob.
        """
        ...

    def stored_bytes(self, name: str) -> int:
        """Return the number of stored bytes of a blob.

        Raises:
            Broken: the blob is missing.
        """
        ...

    def delete(self, name: str) -> None:
        """Delete a blob if it exists. A held blob is not deleted; a later sweep tries again."""
        ...

    def walk(self) -> Iterator[BlobFact]:
        """Yield a description of every blob, in arbitrary order."""
        ...

    def tidy(self, before_ms: int) -> int:
        """Delete drafts that were last written before `before_ms`; return the number deleted."""
        ...

    def hold(self) -> AbstractContextManager[None]:
        """Prevent the deletion of blobs, by any process, during the block."""
        ...

    def deleting(self) -> AbstractContextManager[bool]:
        """Yield True if blobs may be deleted now. No new hold starts during the block."""
        ...

    def close(self) -> None: ...
