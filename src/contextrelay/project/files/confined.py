"""Files below a project: the only place that opens, reads, writes, renames, lists or removes them.

A project may be a cloned repository, and every file in it somebody else's choice.

Rule: no link below the project is followed (no_follow.py). What is written is a new file under a
random name, renamed to where it belongs: what stood there is never written into, whatever it is
linked with.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, suppress
from errno import ENOENT
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from contextrelay.errors import Broken, Invalid, Refused, TooLarge
from contextrelay.limits import CHUNK_BYTES, PROJECT_ENTRIES_MAX, PROJECT_FILE_BYTES_MAX
from contextrelay.model.project import OWN_FOLDER
from contextrelay.project.files.decode import check_size
from contextrelay.project.files.no_follow import (
    check_is_folder,
    create_plain,
    folder_at,
    is_link,
    open_plain,
    opened,
    parent_of,
    stat_at,
)
from contextrelay.store.durable_files import write_all

_PERMISSIONS = 0o777
_TOKEN_BYTES = 8
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS.


class Entry(NamedTuple):
    """What a folder holds under a name; a link is neither a file nor a folder."""

    name: str
    is_file: bool
    is_folder: bool
    modified_s: float


def read(folder: Path, path: str, bytes_max: int = PROJECT_FILE_BYTES_MAX) -> bytes | None:
    """The content of a plain file, or None where there is none.

    Raises:
        Refused: there is a link on the way or at the end, or no plain file.
        TooLarge: it is over the limit.
        Broken: it cannot be read.
    """
    try:
        with opened(folder, path, os.O_RDONLY) as handle:
            return b"".join(_pieces(handle, path, bytes_max))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error


def _pieces(handle: int, path: str, bytes_max: int) -> Generator[bytes]:
    """All of a file, up to the limit, however much it grows meanwhile."""
    check_size(os.fstat(handle).st_size, path, bytes_max)
    size_bytes = 0
    while piece := os.read(handle, CHUNK_BYTES):
        size_bytes += len(piece)
        check_size(size_bytes, path, bytes_max)
        yield piece


def write(folder: Path, path: str, content: bytes, is_durable: bool = True) -> None:
    """Write a file, whole or not at all; what stands there, a link too, is replaced.

    Raises:
        Invalid: it cannot be written; Refused: there is a link on the way.
    """
    made = draft(folder, path, content, is_durable=is_durable)
    try:
        move(folder, made, path)
        if is_durable:
            sync(folder, path)
    except (OSError, Refused) as error:
        forget(folder, made)
        if isinstance(error, Refused):
            raise
        raise cannot_write(folder / path, error) from error


def draft(
    folder: Path, path: str, content: bytes, ending: str = "new", is_durable: bool = True
) -> str:
    """Write a new file that is to replace the one at `path`, with its permissions.

    Returns the new file's path.

    Raises:
        Invalid: it cannot be written.
    """
    token = os.urandom(_TOKEN_BYTES).hex()
    made = f"{OWN_FOLDER}/{path.rpartition('/')[2]}.{token}.{ending}"
    try:
        found = stat_at(folder, path)
        mode = found.st_mode if found is not None and stat.S_ISREG(found.st_mode) else None
        create(folder, made, content, mode, is_durable)
    except OSError as error:
        raise cannot_write(folder / path, error) from error
    return made


def create(
    folder: Path, path: str, content: bytes, mode: int | None = None, is_durable: bool = True
) -> None:
    """Make a file that is not there yet.

    Raises:
        FileExistsError: there is something, if only a link that leads nowhere.
    """
    with parent_of(folder, path) as (parent, name):
        handle = create_plain(parent, name)
        try:
            write_all(handle, content)
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(handle, mode & _PERMISSIONS)
            if is_durable:
                os.fsync(handle)
        except OSError:
            with suppress(OSError):
                os.unlink(name, dir_fd=parent)
            raise
        finally:
            os.close(handle)


def copy(folder: Path, path: str, to: str, bytes_max: int) -> None:
    """Copy a plain file, if there is one, to a new one.

    Raises:
        TooLarge: it is over the limit; nothing is left of the copy.
    """
    with suppress(FileNotFoundError), opened(folder, path, os.O_RDONLY) as source:
        pieces = _pieces(source, path, bytes_max)
        create(folder, to, next(pieces, b""))
        try:
            with opened(folder, to, os.O_WRONLY | os.O_APPEND) as target:
                for piece in pieces:
                    write_all(target, piece)
        except (OSError, TooLarge):
            forget(folder, to)
            raise


def move(folder: Path, path: str, to: str) -> None:
    """Rename; what stands there is replaced, not followed.

    Raises:
        FileNotFoundError: there is nothing to rename.
    """
    with parent_of(folder, path) as (parent, name), parent_of(folder, to) as (other, new):
        os.replace(name, new, src_dir_fd=parent, dst_dir_fd=other)


def move_if_free(folder: Path, path: str, to: str) -> None:
    """Give a file a second name where nothing stands.

    Raises:
        FileExistsError: something does.
    """
    with parent_of(folder, path) as (parent, name), parent_of(folder, to) as (other, new):
        if parent is None:
            os.link(name, new)
        else:
            os.link(name, new, src_dir_fd=parent, dst_dir_fd=other, follow_symlinks=False)


def swap(folder: Path, path: str, other: str) -> bool:
    """Swap two files in one step, atomically; False where this system cannot do that.

    Raises:
        FileNotFoundError: one of them is not there.
    """
    with parent_of(folder, path) as (one, name), parent_of(folder, other) as (two, other_name):
        call = _exchange_call() if one is not None and two is not None else None
        return call is not None and call(one, name, two, other_name)


@cache
def _exchange_call() -> Callable[[int | None, str, int | None, str], bool] | None:
    import ctypes

    try:
        library = ctypes.CDLL(None, use_errno=True)
        function = library.renameatx_np if sys.platform == "darwin" else library.renameat2
    except (OSError, AttributeError, TypeError):
        return None

    def call(folder: int | None, name: str, other: int | None, other_name: str) -> bool:
        failed = function(folder, os.fsencode(name), other, os.fsencode(other_name), _EXCHANGE)
        if failed and ctypes.get_errno() == ENOENT:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), other_name)
        return not failed

    return call


def replace_and_read(folder: Path, made: str, path: str) -> bytes:
    """Where nothing can be swapped: replace a file, and keep what it was under the other's name.

    Raises:
        FileNotFoundError: there is nothing to replace.
    """
    with parent_of(folder, made) as (parent, name), parent_of(folder, path) as (other, old):
        held = open_plain(other, old, path, os.O_RDONLY)
        try:
            os.replace(name, old, src_dir_fd=parent, dst_dir_fd=other)
            found = b"".join(_pieces(held, path, PROJECT_FILE_BYTES_MAX))
        finally:
            os.close(held)
    create(folder, made, found)
    return found


def remove(folder: Path, path: str) -> None:
    """Remove a file, or a link and not what it leads to; nothing where there is none.

    Raises:
        Invalid: it cannot be removed.
    """
    try:
        with suppress(FileNotFoundError), parent_of(folder, path) as (parent, name):
            os.unlink(name, dir_fd=parent)
    except OSError as error:
        raise cannot_write(folder / path, error) from error


def forget(folder: Path, path: str) -> None:
    """Remove a file that nobody needs, if that can be done."""
    with suppress(Invalid):
        remove(folder, path)


def make_folder(folder: Path, path: str) -> None:
    """Make a folder; one that is there is fine.

    Raises:
        Refused: there is a link, or something else.
    """
    with parent_of(folder, path) as (parent, name):
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
        check_is_folder(parent, name, path)


def entries(folder: Path, path: str) -> list[Entry]:
    """What a folder below the project holds, up to a limit; nothing where there is none.

    Raises:
        Refused: it is a link, or is reached through one.
        Broken: it cannot be read.
    """
    listed: list[Entry] = []
    try:
        with folder_at(folder, path) as handle, os.scandir(handle) as found:
            for each in islice(found, PROJECT_ENTRIES_MAX):
                with suppress(FileNotFoundError):
                    seen = each.stat(follow_symlinks=False)
                    is_file = stat.S_ISREG(seen.st_mode) and not is_link(seen)
                    is_folder = stat.S_ISDIR(seen.st_mode) and not is_link(seen)
                    listed.append(Entry(each.name, is_file, is_folder, seen.st_mtime))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(path, error) from error
    return listed


def trim(folder: Path, path: str, kept_max: int, newest: str) -> None:
    """Remove the oldest files, and folders of files, of a folder; links and the newest stay."""
    with suppress(OSError, Broken):
        # The newest by name, too: what somebody else made may be dated tomorrow.
        others = (each for each in entries(folder, path) if each.name != newest)
        found = [each for each in others if each.is_file or each.is_folder]
        found.sort(key=lambda entry: entry.modified_s)
        for entry in found[: max(0, len(found) + 1 - kept_max)]:
            below = f"{path}/{entry.name}"
            if entry.is_file:
                forget(folder, below)
                continue
            for inside in entries(folder, below):
                if inside.is_file:
                    forget(folder, f"{below}/{inside.name}")
            with suppress(OSError), parent_of(folder, below) as (parent, name):
                os.rmdir(name, dir_fd=parent)


def exists(folder: Path, path: str) -> bool:
    """Whether something stands at a path, if only a link that leads nowhere."""
    return stat_at(folder, path) is not None


def is_folder(folder: Path) -> bool:
    """Whether the project's own folder is one, also if reached through links."""
    return folder.is_dir()


def count_present(folder: Path, names: tuple[str, ...]) -> int:
    """How many of these names are taken in the project's folder."""
    return sum(os.path.lexists(folder / name) for name in names)


def is_writable(folder: Path) -> bool:
    """Whether files can be made in the project's folder."""
    return os.access(folder, os.W_OK | os.X_OK)


def sync(folder: Path, path: str) -> None:
    """Make what was created, renamed or removed next to a path survive a power loss.

    Raises:
        Broken: somebody moved the folder away meanwhile.
    """
    parent = path.rpartition("/")[0]
    try:
        with folder_at(folder, parent) as handle:
            if isinstance(handle, int):
                os.fsync(handle)
    except FileNotFoundError as error:
        raise Broken(f"{parent} was moved away meanwhile", "do it again") from error


def lock_file(folder: Path, path: str, is_made: bool) -> AbstractContextManager[int]:
    """A file to lock; nothing is written to it. With `is_made` it is created if missing.

    Raises:
        FileNotFoundError: there is none; Refused: there is a link, or no plain file.
    """
    return opened(folder, path, os.O_RDWR | os.O_CREAT if is_made else os.O_RDONLY)


def _unreadable(path: str, error: OSError) -> Broken:
    return Broken(
        f"{path} cannot be read: {error.strerror}", "check its permissions", {"file": path}
    )


def cannot_write(path: Path, error: OSError) -> Invalid:
    return Invalid(
        f"{path} cannot be written: {error.strerror}",
        "nothing was changed; make the folder writable, or work on a copy of it",
    )
