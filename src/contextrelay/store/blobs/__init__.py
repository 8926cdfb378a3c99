"""Blobs: bare bytes under names that core makes up; no name is ever used twice.

Rule: a blob is whole or absent, and never changes. Who may be deleted is core's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct

from contextrelay.limits import CHUNK_BYTES


class BlobFact(Struct, frozen=True):
    """A stored blob as seen by a walk."""

    name: str
    size_bytes: int
    written_ms: int


class BlobDraft(Protocol):
    """A blob being written. Leaving its `with` block without `keep` throws it away."""

    def write(self, chunk: bytes | memoryview) -> None: ...

    def keep(self, name: str) -> None:
        """Make it a blob of that name, durably."""
        ...


class Blobs(Protocol):
    """Where large bodies live."""

    def draft(self) -> AbstractContextManager[BlobDraft]:
        """Begin a blob whose name is not known yet."""
        ...

    def read(
        self, name: str, start: int, stop: int, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        """Yield the bytes start:stop in chunks.

        Raises:
            Broken: the blob is missing or too short. Known before the first chunk, as far as the
                engine can tell without reading all of it.
        """
        ...

    def stored_bytes(self, name: str) -> int:
        """Count the bytes that are stored of a blob.

        Raises:
            Broken: the blob is missing.
        """
        ...

    def delete(self, name: str) -> None:
        """Delete a blob; an absent one is fine. One that is held stays: a sweep comes back."""
        ...

    def walk(self) -> Iterator[BlobFact]:
        """Every blob there is, in no order."""
        ...

    def tidy(self, before_ms: int) -> int:
        """Delete drafts that nobody finished and were last written before then; return how many."""
        ...

    def hold(self) -> AbstractContextManager[None]:
        """Keep every blob from being deleted, by any process, for as long as this lasts."""
        ...

    def deleting(self) -> AbstractContextManager[bool]:
        """Whether blobs may be deleted now; while this lasts, no new hold begins."""
        ...

    def close(self) -> None: ...
