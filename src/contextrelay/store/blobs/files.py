"""Blobs as files: written aside, synced, renamed; `<folder>/<first two letters>/<name>`.

Rule: a name comes from core and is checked again here, so that nothing outside the folder is ever
touched; links are not followed.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from contextrelay.errors import Broken, RelayError
from contextrelay.limits import CHUNK_BYTES
from contextrelay.store.blobs import BlobFact
from contextrelay.store.folders import make_folder, sync_folder
from contextrelay.store.troubles import from_os

try:
    import fcntl
except ImportError:  # Windows: a backup there must not run beside a sweep.
    fcntl = None

_NAME = re.compile(r"[0-9a-z][0-9a-z-]{1,127}\Z")
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


class FileBlobs:
    """One file a blob."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.drafts = folder / "drafts"
        self._made: set[str] = set()
        self._lock = threading.Lock()

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
            raise _missing(path, error) from error
        try:
            while start < stop:
                chunk = os.pread(handle, min(chunk_bytes, stop - start), start)
                if not chunk:
                    raise _missing(path, f"it ends at byte {start}, not {stop}")
                start += len(chunk)
                yield chunk
        except OSError as error:
            raise _missing(path, error) from error
        finally:
            os.close(handle)

    def delete(self, name: str) -> None:
        with self._lock_file(exclusive=True) as is_mine:
            if is_mine:
                with suppress(FileNotFoundError):
                    self.path(name).unlink()

    def walk(self) -> Iterator[BlobFact]:
        if not self._folder.is_dir():
            return
        for folder in sorted(self._folder.iterdir()):
            if len(folder.name) == 2 and folder.is_dir():
                for entry in os.scandir(folder):
                    if _NAME.match(entry.name) and entry.is_file(follow_symlinks=False):
                        seen = entry.stat(follow_symlinks=False)
                        yield BlobFact(entry.name, seen.st_size, int(seen.st_mtime * 1000))

    def tidy(self, before_ms: int) -> int:
        gone = 0
        if self.drafts.is_dir():
            for entry in os.scandir(self.drafts):
                if entry.stat(follow_symlinks=False).st_mtime * 1000 < before_ms:
                    with suppress(FileNotFoundError):
                        os.unlink(entry.path)
                        gone += 1
        return gone

    @contextmanager
    def hold(self) -> Generator[None]:
        with self._lock_file(exclusive=False):
            yield

    def close(self) -> None:
        pass

    def path(self, name: str) -> Path:
        """Where a blob lies. Raises Broken for a name that core cannot have made."""
        if not _NAME.match(name):
            raise Broken(f"{name[:80]!r} is no blob name", "see what is damaged with: relay verify")
        return self._folder / name[:2] / name

    @contextmanager
    def _lock_file(self, exclusive: bool) -> Generator[bool]:
        """Yield whether we have the lock; only a shared one is waited for."""
        if fcntl is None or not self._folder.is_dir():
            yield True
            return
        handle = os.open(self._folder / "hold.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(handle)

    def make_place(self, folder: Path) -> None:
        """Make a folder once a process, durably."""
        if folder.name in self._made:
            return
        with self._lock:
            make_folder(folder)
            self._made.add(folder.name)


class FileDraft:
    """A file in `drafts/` that becomes a blob by a rename."""

    def __init__(self, blobs: FileBlobs) -> None:
        self._blobs = blobs
        self._path = blobs.drafts / secrets.token_hex(16)
        try:
            blobs.make_place(self._path.parent)
            self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise from_os(error, self._path) from error
        self._is_open = True

    def write(self, chunk: bytes | memoryview) -> None:
        rest = memoryview(chunk)
        try:
            while rest:
                rest = rest[os.write(self._handle, rest) :]
        except OSError as error:
            raise from_os(error, self._path) from error

    def keep(self, name: str) -> None:
        place = self._blobs.path(name)
        try:
            os.fsync(self._handle)
            self._blobs.make_place(place.parent)
            self._close()
            self._path.rename(place)
            sync_folder(place.parent)
        except OSError as error:
            raise from_os(error, place) from error

    def discard(self) -> None:
        """Throw the draft away, unless it was kept."""
        self._close()
        with suppress(FileNotFoundError):
            self._path.unlink()

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self._handle)


def _missing(path: Path, why: object) -> RelayError:
    return Broken(f"{path} cannot be read: {why}", "see what is damaged with: relay verify")
