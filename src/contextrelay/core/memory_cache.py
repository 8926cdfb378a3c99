"""Warm things: what was read and checked through these stores, at hand while there is room.

A body never changes under its hash, nor a blob under its name, so nothing here goes stale; whether
a ref may still be read is always asked of the ledger. A description is kept beside the row that it
was read from: the same row is the same description, the very same object.
"""

from __future__ import annotations

import threading

from contextrelay.limits import (
    CHECKED_BLOBS_MAX,
    WARM_BODY_BYTES_MAX,
    WARM_BYTES_MAX,
    WARM_DESCRIPTIONS_MAX,
)
from contextrelay.model.artifact import Artifact


class Warm:
    """Bodies by hash and descriptions by ref, the oldest let go first."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}
        self._size_bytes = 0
        self._checked: set[str] = set()
        self._described: dict[str, tuple[bytes, Artifact]] = {}
        self._lock = threading.Lock()

    def get(self, sha256: str) -> bytes | None:
        return self._bodies.get(sha256)

    def is_checked(self, blob: str) -> bool:
        """Whether a blob was found right before: one too large to keep is hashed only once."""
        return blob in self._checked

    def check_off(self, blob: str) -> None:
        if len(self._checked) < CHECKED_BLOBS_MAX:
            self._checked.add(blob)

    def described(self, ref: str, row: bytes) -> Artifact | None:
        """The artifact that a row tells of, if that very row was read before."""
        known = self._described.get(ref)
        return known[1] if known is not None and known[0] == row else None

    def describe(self, artifact: Artifact, row: bytes) -> None:
        with self._lock:
            self._described[artifact.ref] = row, artifact
            if len(self._described) > WARM_DESCRIPTIONS_MAX:
                del self._described[next(iter(self._described))]

    def keep(self, sha256: str, body: bytes) -> None:
        """Keep a checked body, unless it is too large to be worth it."""
        if len(body) > WARM_BODY_BYTES_MAX:
            return
        with self._lock:
            if sha256 in self._bodies:
                return
            self._bodies[sha256] = body
            self._size_bytes += len(body)
            while self._size_bytes > WARM_BYTES_MAX:
                self._size_bytes -= len(self._bodies.pop(next(iter(self._bodies))))
