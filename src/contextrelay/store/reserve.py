"""The reserve: a file that is given up when the disk is full, so that removals still work."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from contextrelay.limits import RESERVE_BYTES


class Reserve:
    """Room set aside on the store's disk."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def free(self) -> bool:
        """Give the room up; whether there was any."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def refill(self) -> None:
        """Set room aside again, if there is enough for that and as much besides."""
        with suppress(OSError):
            if self._path.exists():
                return
            room = os.statvfs(self._path.parent)
            if room.f_bavail * room.f_frsize < 4 * RESERVE_BYTES:
                return
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.posix_fallocate(handle, 0, RESERVE_BYTES)
            finally:
                os.close(handle)
