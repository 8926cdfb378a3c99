"""Heads: the live states that these stores hold in memory, the oldest let go first.

Letting one go that is in use does no harm: whoever has it still commits against the log's head.
"""

from __future__ import annotations

import threading
from copy import copy
from typing import Any

from contextrelay.limits import LIVE_BYTES_MAX, LIVE_THREADS_MAX


class Heads:
    """Live states by thread. What they are is live.py's business."""

    def __init__(self) -> None:
        self._live: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._prefix = ""

    def within(self, prefix: str) -> Heads:
        """The same room, for threads that may not meet those of others in it."""
        view = copy(self)
        view._prefix = self._prefix + prefix
        return view

    def get(self, thread: str) -> Any | None:
        return self._live.get(self._prefix + thread)

    def keep(self, thread: str, live: Any) -> Any:
        """Keep a live state, unless another thread of execution was first; the one that is kept."""
        with self._lock:
            kept = self._live.setdefault(self._prefix + thread, live)
            while len(self._live) > 1 and self._is_over():
                self._live.pop(next(iter(self._live)))
            return kept

    def _is_over(self) -> bool:
        size_bytes = sum(live.size_bytes for live in self._live.values())
        return len(self._live) > LIVE_THREADS_MAX or size_bytes > LIVE_BYTES_MAX

    def drop(self, thread: str) -> None:
        """Forget a live state that cannot be trusted; the next reader starts from the log."""
        with self._lock:
            self._live.pop(self._prefix + thread, None)
