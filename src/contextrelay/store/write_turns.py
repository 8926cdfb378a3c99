"""Turns: processes that write to one store queue for it, so that none starves.

SQLite's own busy handler polls, and the last writer tends to win again. Here a writer waits at a
gate (first lock) until it may work (second lock); when it is done, it queues at the gate behind the
one already waiting there. Both locks end with the process that holds them.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

try:
    import fcntl
except ImportError:  # Windows: SQLite's busy handler alone decides, without fairness.
    fcntl = None


class Turns:
    """A fair lock between processes. Within one process the caller must serialise itself."""

    def __init__(self, folder: Path) -> None:
        self._gate = _open(folder / "turn.gate")
        self._work = _open(folder / "turn.work")

    def __enter__(self) -> None:
        if fcntl is None:
            return
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._work, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if fcntl is not None:
            fcntl.flock(self._work, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._gate)
        os.close(self._work)


class Patience:
    """A lock between all threads of all processes, for who needs to be alone for a moment."""

    def __init__(self, folder: Path) -> None:
        self._inside = threading.Lock()
        self._between = _open(folder / "turn.patience")

    def __enter__(self) -> None:
        self._inside.acquire()
        if fcntl is not None:
            try:
                fcntl.flock(self._between, fcntl.LOCK_EX)
            except BaseException:
                self._inside.release()
                raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if fcntl is not None:
            fcntl.flock(self._between, fcntl.LOCK_UN)
        self._inside.release()

    def close(self) -> None:
        os.close(self._between)


def _open(path: Path) -> int:
    # A lock is a file of the store; a link would make one elsewhere.
    return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
