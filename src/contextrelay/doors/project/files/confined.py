"""Files below a project: the only place that opens, reads, writes, renames, lists or removes them.

A project may be a cloned repository, and every file in it somebody else's choice.

Rule: the folder of a project may be reached through links; nothing below it is. A path is walked
from the folder's descriptor, one name at a time, and a link on the way or at its end is refused,
as is what is no plain file. What is written is a new file under a random name, renamed to where it
belongs: what stood there is never written into, whatever it is linked with.

Where folders have no descriptors (Windows), each name is looked at before the path is used: who can
change the folder between the look and the use gets around that.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from contextrelay.doors.project.files import exchange
from contextrelay.errors import Broken, Invalid, Refused, TooLarge
from contextrelay.limits import CHUNK_BYTES, PROJECT_ENTRIES_MAX, PROJECT_FILE_BYTES_MAX
from contextrelay.logic.project.files.decode import check_size
from contextrelay.model.project import OWN_FOLDER
from contextrelay.store.durable_files import write_all

_HAS_DESCRIPTORS = {os.open, os.stat, os.mkdir, os.unlink, os.rename, os.link} <= os.supports_dir_fd
_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_BINARY: int = getattr(os, "O_BINARY", 0)
# Not blocking: a pipe in the place of a file must not stop us. Nor may a terminal become ours.
_PLAIN: int = _BINARY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FOLDER: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
# Enough to go on from, also where a folder may be entered and not listed.
_WAY: int = getattr(os, "O_PATH", 0) | _FOLDER
_PERMISSIONS = 0o777
_TOKEN_BYTES = 8


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
        with _opened(folder, path, os.O_RDONLY) as handle:
            check_size(os.fstat(handle).st_size, path, bytes_max)
            return _content(handle, path, bytes_max)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error


def _content(handle: int, path: str, bytes_max: int) -> bytes:
    """All of a file, however much it grows meanwhile, up to the limit."""
    pieces: list[bytes] = []
    size_bytes = 0
    while piece := os.read(handle, CHUNK_BYTES):
        pieces.append(piece)
        size_bytes += len(piece)
        check_size(size_bytes, path, bytes_max)
    return b"".join(pieces)


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
    except OSError as error:
        forget(folder, made)
        raise cannot_write(folder / path, error) from error
    except Refused:
        forget(folder, made)
        raise


def draft(
    folder: Path, path: str, content: bytes, ending: str = "new", is_durable: bool = True
) -> str:
    """A new file for what is to stand at a path, with the permissions of what does; its path.

    Raises:
        Invalid: it cannot be written.
    """
    token = os.urandom(_TOKEN_BYTES).hex()
    made = f"{OWN_FOLDER}/{path.rpartition('/')[2]}.{token}.{ending}"
    try:
        found = _stat(folder, path)
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
    with _place(folder, path) as (parent, name):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _BINARY
        handle = os.open(name, flags, 0o666, dir_fd=parent)
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


def copy(folder: Path, path: str, to: str, bytes_max: int) -> bool:
    """Copy a plain file to a new one; whether there was one.

    Raises:
        TooLarge: it is over the limit; nothing is left of the copy.
    """
    try:
        with _opened(folder, path, os.O_RDONLY) as source:
            check_size(os.fstat(source).st_size, path, bytes_max)
            create(folder, to, b"")
            try:
                with _opened(folder, to, os.O_WRONLY) as target:
                    size_bytes = 0
                    while piece := os.read(source, CHUNK_BYTES):
                        size_bytes += len(piece)
                        check_size(size_bytes, path, bytes_max)
                        write_all(target, piece)
            except (OSError, TooLarge):
                forget(folder, to)
                raise
    except FileNotFoundError:
        return False
    return True


def move(folder: Path, path: str, to: str) -> None:
    """Rename; what stands there is replaced, not followed.

    Raises:
        FileNotFoundError: there is nothing to rename.
    """
    with _place(folder, path) as (parent, name), _place(folder, to) as (other, new):
        os.replace(name, new, src_dir_fd=parent, dst_dir_fd=other)


def move_if_free(folder: Path, path: str, to: str) -> None:
    """Give a file a second name where nothing stands.

    Raises:
        FileExistsError: something does.
    """
    with _place(folder, path) as (parent, name), _place(folder, to) as (other, new):
        if parent is None:
            os.link(name, new)
        else:
            os.link(name, new, src_dir_fd=parent, dst_dir_fd=other, follow_symlinks=False)


def swap(folder: Path, path: str, other: str) -> bool:
    """Let two files change places in one step; False where this system cannot do that.

    Raises:
        FileNotFoundError: one of them is not there.
    """
    with _place(folder, path) as (one, name), _place(folder, other) as (two, other_name):
        return one is not None and two is not None and exchange.swap(one, name, two, other_name)


def replace_and_read(folder: Path, made: str, path: str) -> bytes:
    """Where nothing can be swapped: replace a file, and keep what it was under the other's name.

    Raises:
        FileNotFoundError: there is nothing to replace.
    """
    with _place(folder, made) as (parent, name), _place(folder, path) as (other, old):
        _check_is_plain(other, old, path)
        held = os.open(old, os.O_RDONLY | _PLAIN | _NO_FOLLOW, dir_fd=other)
        try:
            os.replace(name, old, src_dir_fd=parent, dst_dir_fd=other)
            found = _content(held, path, PROJECT_FILE_BYTES_MAX)
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
        with suppress(FileNotFoundError), _place(folder, path) as (parent, name):
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
    with _place(folder, path) as (parent, name):
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
        _check_is_folder(parent, name, path)


def entries(folder: Path, path: str) -> list[Entry]:
    """What a folder below the project holds, up to a limit; nothing where there is none.

    Raises:
        Refused: it is a link, or is reached through one.
        Broken: it cannot be read.
    """
    listed: list[Entry] = []
    try:
        with _folder(folder, path) as handle, os.scandir(handle) as found:
            for each in islice(found, PROJECT_ENTRIES_MAX):
                with suppress(FileNotFoundError):
                    seen = each.stat(follow_symlinks=False)
                    is_file = stat.S_ISREG(seen.st_mode) and not _is_link(seen)
                    is_folder = stat.S_ISDIR(seen.st_mode) and not _is_link(seen)
                    listed.append(Entry(each.name, is_file, is_folder, seen.st_mtime))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(path, error) from error
    return listed


def trim(folder: Path, path: str, kept_max: int, newest: str) -> None:
    """Remove the oldest files, and folders of files, of a folder; links and the newest stay."""
    with suppress(OSError, Broken):
        # By name, too: what somebody else made may say that it is of tomorrow.
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
            with suppress(OSError), _place(folder, below) as (parent, name):
                os.rmdir(name, dir_fd=parent)


def exists(folder: Path, path: str) -> bool:
    """Whether something stands at a path, if only a link that leads nowhere."""
    return _stat(folder, path) is not None


def is_link(folder: Path, path: str) -> bool:
    found = _stat(folder, path)
    return found is not None and _is_link(found)


def is_folder(folder: Path) -> bool:
    """Whether the project's own folder is one, by whatever way it is reached."""
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
        with _folder(folder, parent) as handle:
            if isinstance(handle, int):
                os.fsync(handle)
    except FileNotFoundError as error:
        raise Broken(f"{parent} was moved away meanwhile", "do it again") from error


@contextmanager
def lock_file(folder: Path, path: str, is_made: bool) -> Generator[int]:
    """A file to lock, made where that is asked; nothing is written to it.

    Raises:
        FileNotFoundError: there is none, and none is asked for.
        Refused: there is a link, or no plain file.
    """
    flags = os.O_RDWR | os.O_CREAT if is_made else os.O_RDONLY
    with _opened(folder, path, flags) as handle:
        yield handle


def _unreadable(path: str, error: OSError) -> Broken:
    return Broken(
        f"{path} cannot be read: {error.strerror}", "check its permissions", {"file": path}
    )


def cannot_write(path: Path, error: OSError) -> Invalid:
    return Invalid(
        f"{path} cannot be written: {error.strerror}",
        "nothing was changed; make the folder writable, or work on a copy of it",
    )


@contextmanager
def _opened(folder: Path, path: str, flags: int) -> Generator[int]:
    """The descriptor of a plain file.

    Raises:
        Refused: it is none.
    """
    with _place(folder, path) as (parent, name):
        if not _NO_FOLLOW:
            _check_is_plain(parent, name, path)
        try:
            handle = os.open(name, flags | _PLAIN | _NO_FOLLOW, 0o666, dir_fd=parent)
        except OSError:
            _check_is_plain(parent, name, path)
            raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _no_plain_file(path)
        yield handle
    finally:
        os.close(handle)


def _check_is_plain(parent: int | None, name: str, path: str) -> None:
    with suppress(FileNotFoundError):
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if _is_link(mode):
            raise _link(path)
        if not stat.S_ISREG(mode.st_mode):
            raise _no_plain_file(path)


def _check_is_folder(parent: int | None, name: str, path: str) -> None:
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if _is_link(found):
        raise _link(path)
    if not stat.S_ISDIR(found.st_mode):
        raise Refused(f"{path} is no folder", "move it away; it is made anew")


def _is_link(found: os.stat_result) -> bool:
    # Windows has others beside symbolic links, and marks them all the same way.
    return stat.S_ISLNK(found.st_mode) or bool(getattr(found, "st_reparse_tag", 0))


def _link(path: str) -> Refused:
    return Refused(
        f"{path} is a link; below a project, links are not followed",
        "see where it leads, then remove it, or put the file itself there",
        {"file": path},
    )


def _no_plain_file(path: str) -> Refused:
    return Refused(f"{path} is no plain file", "move it away; relay project init makes one")


def _stat(folder: Path, path: str) -> os.stat_result | None:
    with suppress(OSError), _place(folder, path) as (parent, name):
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    return None


@contextmanager
def _place(folder: Path, path: str) -> Generator[tuple[int | None, str]]:
    """Where a path ends: the descriptor of the folder it is in, or None, and its name there."""
    *way, name = _names(path)
    if not _HAS_DESCRIPTORS:
        yield None, str(_looked_at(folder, way) / name)
        return
    handle = _walked(folder, way, _WAY)
    try:
        yield handle, name
    finally:
        os.close(handle)


@contextmanager
def _folder(folder: Path, path: str) -> Generator[int | str]:
    """The descriptor of a folder that can be listed, or where there are none, its path."""
    way = _names(path) if path else []
    if not _HAS_DESCRIPTORS:
        yield str(_looked_at(folder, way))
        return
    handle = _walked(folder, way, _FOLDER)
    try:
        yield handle
    finally:
        os.close(handle)


def _walked(folder: Path, way: list[str], flags: int) -> int:
    """The descriptor of a folder, of which no name below the project's is a link."""
    # The project's own may be reached through links: that is the choice of whoever named it.
    handle = os.open(folder, _WAY if way else flags)
    for index, name in enumerate(way):
        try:
            last = index == len(way) - 1
            below = os.open(name, (flags if last else _WAY) | _NO_FOLLOW, dir_fd=handle)
        except OSError:
            _check_is_folder(handle, name, "/".join(way[: index + 1]))
            raise
        finally:
            os.close(handle)
        handle = below
    return handle


def _looked_at(folder: Path, way: list[str]) -> Path:
    """The same without descriptors: each name is looked at, then where they all lead."""
    path = folder
    for index, name in enumerate(way):
        path = path / name
        _check_is_folder(None, str(path), "/".join(way[: index + 1]))
    if os.path.realpath(path) != os.path.join(os.path.realpath(folder), *way):
        raise _link("/".join(way))
    return path


def _names(path: str) -> list[str]:
    """The names on a path.

    Raises:
        Refused: it could lead out of the project.
    """
    names = path.split("/")
    refused = Refused(f"{path[:100]!r} names no file of the project", "name a file below it")
    if any(name in ("", ".", "..") for name in names):
        raise refused
    if "\0" in path or (os.name == "nt" and ("\\" in path or ":" in path)):
        raise refused
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise refused from error
    return names
