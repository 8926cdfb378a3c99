"""A SQLite file that can be read but not written: on a read-only mount, or without permission.

In WAL mode the newest content may be in the file's `-wal`, and a reader needs its `-shm`:

    -wal and -shm exist            read normally; SQLite keeps what it must write in memory
    no -wal, or an empty one       everything is in the file itself: read as immutable
    a -wal without its -shm        both are copied to a temporary folder, and read there

Rule: a `-wal` with content is never ignored. Before each read the files are checked; if they
changed, they are opened again.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path
from weakref import finalize

from contextrelay.errors import Unavailable
from contextrelay.limits import BUSY_MS_MAX, RETRIES_MAX

_READ_AS_IT_IS = "?mode=ro"
_READ_AS_FIXED = "?mode=ro&immutable=1"

Seen = tuple[tuple[int, int, int] | None, ...]
"""Inode, size and time of the file and of its `-wal`, and the inode of its `-shm`; None for a
missing file.
"""


def is_writable(path: Path) -> bool:
    """Return True if a file, which may not exist yet, and SQLite's files beside it are writable."""
    is_file_writable = not path.exists() or os.access(path, os.W_OK)
    return is_file_writable and os.access(path.parent, os.W_OK)


class ReadOnlyFile:
    """Finds out how to open a read-only SQLite file in its current state."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: Seen | None = None
        self._url = ""
        self.generation = 0
        """Incremented when the files were replaced, so that older connections must not be used."""

    def refresh(self) -> int:
        """Check the files; return the current generation."""
        with self._lock:
            if self._seen is None or self._fingerprints() != self._seen:
                self._choose()
                self.generation += 1
            return self.generation

    def _choose(self) -> None:
        for _ in range(RETRIES_MAX):
            self._url = ""
            before = self._fingerprints()
            url = self._chosen()
            if (
                self._fingerprints() == before
            ):  # If the fingerprints differ, the files were changed during the check or the copy.
                self._url = url
                self._seen = self._fingerprints()
                return
        raise Unavailable(f"{self._path} keeps changing", "try again")

    def connect(self) -> sqlite3.Connection:
        self.refresh()
        return _connect(self._url)

    def copy(self) -> Path:
        """Copy the file and its `-wal` to a folder that is deleted at exit; return the copy."""
        import shutil
        import tempfile

        folder = Path(tempfile.mkdtemp(prefix="relay-read-only-"))
        finalize(self, _remove, folder, os.getpid())
        for end in ("", "-wal"):
            source = Path(f"{self._path}{end}")
            if source.exists():
                shutil.copyfile(source, folder / f"copy.db{end}")
        return folder / "copy.db"

    def _fingerprints(self) -> Seen:
        seen = [_fingerprint(f"{self._path}{end}") for end in ("", "-wal", "-shm")]
        if self._url.endswith(_READ_AS_IT_IS):
            # SQLite notices the writes of other processes, unless the files are replaced.
            return tuple(None if each is None else (each[0], 0, 0) for each in seen)
        shm = seen[2]
        return (*seen[:2], None if shm is None else (shm[0], 0, 0))

    def _chosen(self) -> str:
        wal, shm = Path(f"{self._path}-wal"), Path(f"{self._path}-shm")
        if wal.exists() and shm.exists():
            url = self._path.absolute().as_uri() + _READ_AS_IT_IS
            if _can_read(url):
                return url
        if not wal.exists() or wal.stat().st_size == 0:
            return self._path.absolute().as_uri() + _READ_AS_FIXED
        return self.copy().as_uri()


def _connect(url: str) -> sqlite3.Connection:
    return sqlite3.connect(
        url,
        timeout=BUSY_MS_MAX / 1000,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )


def _can_read(url: str) -> bool:
    try:
        connection = _connect(url)
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        finally:
            connection.close()
    except sqlite3.Error:
        return False
    return True


def _fingerprint(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _remove(folder: Path, pid: int) -> None:
    if os.getpid() == pid:  # A child process leaves the folder to its parent.
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
