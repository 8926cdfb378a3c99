"""Heads: the live states that these stores hold in memory, the oldest let go first."""

from __future__ import annotations

import threading
from typing import Any

from contextrelay.limits import LIVE_THREADS_MAX


class Heads:
    """Live states by thread. What they are is live.py's business."""

    def __init__(self) -> None:
        self._live: dict[str, Any] = {}
        self._lock = threading.Lock()

    def get(self, thread: str) -> Any | None:
        return self._live.get(thread)

    def keep(self, thread: str, live: Any) -> Any:
        """Keep a live state, unless another thread of execution was first; the one that is kept."""
        with self._lock:
            kept = self._live.setdefault(thread, live)
            while len(self._live) > LIVE_THREADS_MAX:
                self._live.pop(next(iter(self._live)))
            return kept

    def drop(self, thread: str) -> None:
        """Forget a live state that cannot be trusted; the next reader starts from the log."""
        with self._lock:
            self._live.pop(thread, None)
