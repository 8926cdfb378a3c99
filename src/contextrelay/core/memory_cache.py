"""Memory caches of opened stores: bodies, descriptions, live states and their indexes.

Rule: a cache only saves time. A body never changes under its hash, nor a blob under its name, so
nothing here becomes stale; the ledger is always asked whether a ref may still be read. Dropping a
live state in use does no harm: its user still commits against the log's head.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from copy import copy
from typing import Any

from contextrelay.cache import BoundedCache
from contextrelay.limits import KIB, MIB
from contextrelay.model.artifact import Artifact

WARM_BODY_BYTES_MAX = 256 * KIB
WARM_BYTES_MAX = 16 * MIB
CHECKED_BLOBS_MAX = 100_000
WARM_DESCRIPTIONS_MAX = 4_096
LIVE_THREADS_MAX = 256
LIVE_BYTES_MAX = 256 * MIB
# Limits of the cached relevance indexes: number of threads and characters of text.
PACK_INDEXES_MAX = 64
PACK_INDEX_CHARS_MAX = 32 * MIB


class BodyCache:
    """A cache of bodies by hash and of descriptions by ref, which these stores have read and
    checked.

    A server also caches whole replies here; they share the byte limit with the bodies.
    """

    def __init__(self) -> None:
        self.contents: BoundedCache[Hashable, Any] = BoundedCache(None, WARM_BYTES_MAX)
        self._checked: BoundedCache[str, bool] = BoundedCache(CHECKED_BLOBS_MAX)
        self._described: BoundedCache[str, tuple[bytes, Artifact]] = BoundedCache(
            WARM_DESCRIPTIONS_MAX
        )

    def get(self, sha256: str) -> bytes | None:
        return self.contents.get(sha256)

    def keep(self, sha256: str, body: bytes) -> None:
        """Cache a checked body, unless it is too large."""
        if len(body) <= WARM_BODY_BYTES_MAX and self.contents.get(sha256) is None:
            self.contents.keep(sha256, body, len(body))

    def is_checked(self, blob: str) -> bool:
        """Return True if a blob was checked before.

        A blob that is too large to cache is hashed only once.
        """
        return self._checked.get(blob) is not None

    def check_off(self, blob: str) -> None:
        self._checked.keep(blob, True)

    def described(self, ref: str, row: bytes) -> Artifact | None:
        """Return the artifact decoded from a row, or None if the row is not cached for this ref.

        The same row always returns the same object.
        """
        known = self._described.get(ref)
        return known[1] if known is not None and known[0] == row else None

    def describe(self, artifact: Artifact, row: bytes) -> None:
        self._described.keep(artifact.ref, (row, artifact))


class LiveStateCache:
    """A cache of live states by thread (core/threads/head.py) and their relevance indexes."""

    def __init__(self) -> None:
        self._live: BoundedCache[str, Any] = _LiveStates(LIVE_THREADS_MAX, LIVE_BYTES_MAX)
        self._indexes: BoundedCache[str, Any] = BoundedCache(PACK_INDEXES_MAX, PACK_INDEX_CHARS_MAX)
        self._prefix = ""
        self._lock = threading.Lock()

    def within(self, prefix: str) -> LiveStateCache:
        """Return the same cache with a key prefix, for callers that must not share its entries."""
        view = copy(self)
        view._prefix = self._prefix + prefix
        return view

    def get(self, thread: str) -> Any | None:
        return self._live.get(self._prefix + thread)

    def keep(self, thread: str, live: Any) -> Any:
        """Cache a live state and return it.

        If another OS thread has cached one first, return that state.
        """
        with self._lock:
            kept = self._live.get(self._prefix + thread)
            if kept is None:
                self._live.keep(self._prefix + thread, live)
            return kept or live

    def drop(self, thread: str) -> None:
        """Drop a live state that may be wrong; the next reader replays the log."""
        self._live.drop(self._prefix + thread)
        self._indexes.drop(self._prefix + thread)

    def index(self, thread: str) -> Any | None:
        return self._indexes.get(self._prefix + thread)

    def keep_index(self, thread: str, index: Any, size_chars: int) -> None:
        self._indexes.keep(self._prefix + thread, index, size_chars)


class _LiveStates(BoundedCache[str, Any]):
    """A cache of live states.

    Live states grow while cached, so their size is measured again each time.
    """

    def _is_over(self) -> bool:
        self._size_bytes = sum(live.held_bytes for live, _ in self._kept.values())
        return super()._is_over()
