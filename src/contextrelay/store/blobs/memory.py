"""Blobs in memory: a dictionary and one lock. The blobs are lost when the process ends."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from threading import Lock

from contextrelay.errors import Broken, Unavailable
from contextrelay.limits import CHUNK_BYTES
from contextrelay.store.blobs import BlobFact


class MemoryBlobs:
    """Blobs as Python bytes, for tests and temporary stores."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blobs: dict[str, tuple[bytes, int]] = {}
        self._drafts: set[_MemoryDraft] = set()
        self._holds = 0

    @contextmanager
    def draft(self) -> Generator[_MemoryDraft]:
        draft = _MemoryDraft(self)
        with self._lock:
            self._drafts.add(draft)
        try:
            yield draft
        finally:
            with self._lock:
                self._drafts.discard(draft)

    def read(
        self, name: str, start: int, stop: int, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        with self._lock:
            body, _ = self._blobs.get(name, (None, 0))
        if body is None or len(body) < stop:
            raise Broken(f"blob {name} is {'missing' if body is None else 'too short'}")
        for at in range(start, stop, chunk_bytes):
            yield body[at : min(at + chunk_bytes, stop)]

    def stored_bytes(self, name: str) -> int:
        with self._lock:
            body, _ = self._blobs.get(name, (None, 0))
        if body is None:
            raise Broken(f"blob {name} is missing")
        return len(body)

    def delete(self, name: str) -> None:
        with self.deleting() as may_delete:
            if may_delete:
                self._blobs.pop(name, None)

    def walk(self) -> Iterator[BlobFact]:
        with self._lock:
            blobs = list(self._blobs.items())
        for name, (body, written_ms) in blobs:
            yield BlobFact(name, len(body), written_ms)

    def tidy(self, before_ms: int) -> int:
        with self._lock:
            old = {draft for draft in self._drafts if draft.written_ms < before_ms}
            self._drafts -= old
        return len(old)

    @contextmanager
    def hold(self) -> Generator[None]:
        with self._lock:
            self._holds += 1
        try:
            yield
        finally:
            with self._lock:
                self._holds -= 1

    @contextmanager
    def deleting(self) -> Generator[bool]:
        with self._lock:
            yield not self._holds

    def close(self) -> None:
        pass

    def add(self, draft: _MemoryDraft, name: str, body: bytes) -> None:
        """Turn a draft into a blob with a name."""
        with self._lock:
            if draft not in self._drafts:
                raise Unavailable("the draft was deleted by a cleanup", "push again")
            self._drafts.discard(draft)
            self._blobs[name] = (body, _now_ms())


class _MemoryDraft:
    def __init__(self, blobs: MemoryBlobs) -> None:
        self.written_ms = _now_ms()
        self._blobs = blobs
        self._body = bytearray()

    def write(self, chunk: bytes | memoryview) -> None:
        self._body += chunk
        self.written_ms = _now_ms()

    def keep(self, name: str) -> None:
        self._blobs.add(self, name, bytes(self._body))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
