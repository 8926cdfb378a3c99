"""Blobs as files in one folder: written as `<random>.draft`, then renamed and synced.

Rule: names come from core and are checked again here, so that nothing outside the folder is ever
changed; links are not followed.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path

from contextrelay.errors import Broken, RelayError
from contextrelay.limits import CHUNK_BYTES
from contextrelay.store.blobs import BlobFact
from contextrelay.store.durable_files import FolderSyncs, make_folder, write_all
from contextrelay.store.file_errors import from_os

try:
    import fcntl
except ImportError:  # On Windows there is no file lock, so a backup must not run during a sweep.
    fcntl = None

DRAFT = ".draft"
_NAME = re.compile(r"[0-9a-z][0-9a-z-]{1,127}\Z")
# Opening a pipe in place of a file must not block.
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@cache
def folder_syncs(folder: Path) -> FolderSyncs:
    """Return the syncs of a folder, shared by all stores of this process."""
    return FolderSyncs(folder)


if hasattr(os, "register_at_fork"):
    # A forked child has only one thread, and may have copied a lock that another thread held.
    os.register_at_fork(after_in_child=folder_syncs.cache_clear)


class FileBlobs:
    """One file per blob, all in one folder. Modern file systems handle large folders well."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._prefix = f"{folder}{os.sep}"

    def open(self) -> None:
        """Create the folder if it does not exist."""
        try:
            make_folder(self.folder)
        except OSError as error:
            raise from_os(error, self.folder) from error

    @contextmanager
    def draft(self) -> Generator[FileDraft]:
        draft = FileDraft(self)
        try:
            yield draft
        finally:
            draft.discard()

    def read(
        self, name: str, start: int, stop: int, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        path = self.path(name)
        try:
            handle = os.open(path, os.O_RDONLY | _NO_FOLLOW)
        except OSError as error:
            raise _unreadable(path, error) from error
        try:
            if (size_bytes := os.fstat(handle).st_size) < stop:
                raise _unreadable(path, f"it ends at byte {size_bytes}, not {stop}")
            while start < stop:
                chunk = os.pread(handle, min(chunk_bytes, stop - start), start)
                if not chunk:
                    raise _unreadable(path, f"it ends at byte {start}, not {stop}")
                start += len(chunk)
                yield chunk
        except OSError as error:
            raise _unreadable(path, error) from error
        finally:
            os.close(handle)

    def stored_bytes(self, name: str) -> int:
        path = self.path(name)
        try:
            return os.stat(path, follow_symlinks=False).st_size
        except OSError as error:
            raise _unreadable(path, error) from error

    def delete(self, name: str) -> None:
        with self.deleting() as may_delete:
            if may_delete:
                with suppress(FileNotFoundError):
                    os.unlink(self.path(name))

    def walk(self) -> Iterator[BlobFact]:
        for entry in self._entries():
            if _NAME.match(entry.name) and entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):  # The file was deleted in the meantime.
                    seen = entry.stat(follow_symlinks=False)
                    yield BlobFact(entry.name, seen.st_size, int(seen.st_mtime * 1000))

    def tidy(self, before_ms: int) -> int:
        gone = 0
        for entry in self._entries():
            if entry.name.endswith(DRAFT):
                with suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_mtime * 1000 < before_ms:
                        os.unlink(entry.path)
                        gone += 1
        return gone

    @contextmanager
    def hold(self) -> Generator[None]:
        with self._lock_file(exclusive=False):
            yield

    def deleting(self) -> AbstractContextManager[bool]:
        return self._lock_file(exclusive=True)

    def close(self) -> None:
        pass

    def path(self, name: str) -> str:
        """Return the path of a blob. Raise Broken for a name that core cannot have chosen."""
        if not _NAME.match(name):
            raise Broken(f"invalid blob name {name[:80]!r}", "check the store: relay verify")
        return self._prefix + name

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        if self.folder.is_dir():
            with os.scandir(self.folder) as entries:
                yield from entries

    @contextmanager
    def _lock_file(self, exclusive: bool) -> Generator[bool]:
        """Acquire the lock; yield True if it was acquired.

        A shared lock waits; an exclusive lock does not.
        """
        if fcntl is None:
            yield True
            return
        try:
            make_folder(self.folder)
            handle = os.open(self._prefix + "hold.lock", os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o600)
        except OSError as error:
            if exclusive or error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise from_os(error, self._prefix + "hold.lock") from error
            handle = self._lock_to_read()
        if handle is None:
            yield True
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
            is_mine = True
        except BlockingIOError:
            is_mine = False
        try:
            yield is_mine
        finally:
            os.close(handle)

    def _lock_to_read(self) -> int | None:
        """Open the lock file of a read-only folder; return its descriptor.

        If there is no such file, return None, because then no process deletes blobs.
        """
        try:
            return os.open(self._prefix + "hold.lock", os.O_RDONLY)
        except OSError:
            return None


class FileDraft:
    """A file that becomes a blob when it is renamed."""

    def __init__(self, blobs: FileBlobs) -> None:
        self._blobs = blobs
        self._path = f"{blobs.folder}{os.sep}{os.urandom(16).hex()}{DRAFT}"
        try:
            make_folder(blobs.folder)
            self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise from_os(error, self._path) from error
        self._is_open = True
        self._is_kept = False

    def write(self, chunk: bytes | memoryview) -> None:
        try:
            write_all(self._handle, chunk)
        except OSError as error:
            raise from_os(error, self._path) from error

    def keep(self, name: str) -> None:
        place = self._blobs.path(name)
        try:
            # Rename before the sync, because then one sync of the file usually covers the folder as
            # well. Other callers do not know the name until this method returns.
            os.rename(self._path, place)
            self._is_kept = True
            os.fsync(self._handle)
            self._close()
            folder_syncs(self._blobs.folder).sync()
        except OSError as error:
            with suppress(OSError):
                os.unlink(place)
            raise from_os(error, place) from error

    def discard(self) -> None:
        """Delete the draft, unless it has become a blob."""
        self._close()
        if not self._is_kept:
            with suppress(FileNotFoundError):
                os.unlink(self._path)

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self._handle)


def _unreadable(path: str, why: object) -> RelayError:
    reason = (why.strerror or type(why).__name__) if isinstance(why, OSError) else why
    return Broken(f"a body cannot be read: {reason}", "check the store: relay verify", place=path)
