"""Turns: a fair lock for processes that write to one store, so that each gets its turn.

SQLite's own busy handler polls, and the last writer tends to win again. Here a writer waits at a
gate (first lock) until it may work (second lock). A writer that wants another turn queues at the
gate, after the one that is already waiting there. Both locks are released when the process that
holds them ends.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

try:
    import fcntl
except ImportError:  # On Windows only SQLite's busy handler decides, which is not fair.
    fcntl = None


class FileLock:
    """A lock between processes. It is released when the process that holds it ends."""

    def __init__(self, path: Path) -> None:
        # Links are not followed: a lock is a file of the store, and a link would create a file
        # elsewhere.
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        self._handle = os.open(path, flags, 0o600)

    def acquire(self) -> None:
        if fcntl is not None:
            fcntl.flock(self._handle, fcntl.LOCK_EX)

    def release(self) -> None:
        if fcntl is not None:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._handle)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
        self.close()


class Turns:
    """A fair lock between processes.

    Within one process, the caller must ensure that one thread uses it at a time.
    """

    def __init__(self, folder: Path) -> None:
        self._gate = FileLock(folder / "turn.gate")
        self._work = FileLock(folder / "turn.work")

    def __enter__(self) -> None:
        self._gate.acquire()
        try:
            self._work.acquire()
        finally:
            self._gate.release()

    def __exit__(self, *_: object) -> None:
        self._work.release()

    def close(self) -> None:
        self._gate.close()
        self._work.close()


class ContentionLock:
    """A lock between all threads of all processes, used by writers that lost a race."""

    def __init__(self, folder: Path) -> None:
        self._inside = threading.Lock()
        self._between = FileLock(folder / "turn.patience")

    def __enter__(self) -> None:
        self._inside.acquire()
        try:
            self._between.acquire()
        except BaseException:
            self._inside.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._between.release()
        self._inside.release()

    def close(self) -> None:
        self._between.close()
