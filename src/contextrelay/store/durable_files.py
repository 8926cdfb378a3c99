"""Durable files: files that are complete or absent, and whose names are as durable as their
content.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from contextrelay.limits import RESERVE_BYTES
from contextrelay.store.file_errors import cannot_spool, cannot_write


def sync_folder(folder: Path) -> None:
    """Make creations, renames and deletions in a folder survive a power loss."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class FolderSyncs:
    """The syncs of one folder: threads that wait for one at the same time share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = threading.Lock()
        self._begun = 0
        self._done = 0

    def sync(self) -> None:
        """Make what was done in the folder before this call survive a power loss."""
        # A sync that has begun already may not cover it; any later one does.
        needed = self._begun + 1
        with self._turn:
            if self._done < needed:
                self._begun += 1
                begun = self._begun
                sync_folder(self._folder)
                self._done = begun


def make_folder(folder: Path) -> None:
    """Create a folder and its parents durably, private to its owner, unless it exists."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


@contextmanager
def spooled(chunks: Iterable[bytes]) -> Generator[IO[bytes]]:
    """Yield a file in the temporary folder with the given content; delete the file after the block.

    Raises:
        Full: there is no room for the content.
    """
    import tempfile

    spool = None
    try:
        try:
            spool = tempfile.TemporaryFile()  # noqa: SIM115 (closed below)
        except OSError as error:
            raise cannot_spool(error) from error
        for chunk in chunks:
            try:
                spool.write(chunk)
                spool.flush()
            except OSError as error:
                raise cannot_spool(error) from error
        yield spool
    finally:
        if spool is not None:
            with suppress(OSError):  # It does not matter that buffered data cannot be written.
                spool.close()


def write_whole(path: Path, chunks: Iterable[bytes]) -> int:
    """Write a file completely or leave it unchanged; return its size in bytes.

    The file is private to its owner. A link at `path` is replaced, not followed.

    Raises:
        Invalid: the file cannot be written at `path`.
        Full: there is no room for the file.
    """
    try:
        draft = path.with_name(f".{path.name[:100]}.{os.urandom(4).hex()}.part")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except (OSError, ValueError) as error:
        raise cannot_write(path, error) from error
    size_bytes = 0
    try:
        for chunk in chunks:
            size_bytes += len(chunk)
            with _translated(path):
                write_all(handle, chunk)
        with _translated(path):
            os.fsync(handle)
            draft.replace(path)
            sync_folder(path.parent)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)
    return size_bytes


def write_all(handle: int, chunk: bytes | memoryview) -> None:
    """Write a whole chunk, because one system call may write only a part of it."""
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(handle, rest) :]


@contextmanager
def _translated(path: Path) -> Generator[None]:
    """Convert an OSError to a Context Relay error; other errors pass unchanged."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


class Reserve:
    """A file that is deleted when the disk is full, so that removals still work."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def free(self) -> bool:
        """Release the reserved space; return True if there was any."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def refill(self) -> None:
        """Reserve the space again if twice as much is free."""
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
