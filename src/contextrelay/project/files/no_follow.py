"""Paths below a project's folder, opened without following a link.

Rule: the folder of a project may be reached through links; nothing below it is. A path is walked
from the folder's descriptor, one name at a time, and a link on the way or at its end is refused, as
is what is no plain file.

Where folders have no descriptors (Windows), each name is checked before the path is used: a program
that changes the folder between the check and the use gets around that.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from contextrelay.errors import Refused

_HAS_DESCRIPTORS = {os.open, os.stat, os.mkdir, os.unlink, os.rename, os.link} <= os.supports_dir_fd
_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
# Not blocking: a pipe in the place of a file must not stop us. Nor may a terminal become ours.
_PLAIN: int = getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FOLDER: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
# Enough to go on from, also where a folder may be entered and not listed.
_WAY: int = getattr(os, "O_PATH", 0) | _FOLDER


@contextmanager
def parent_of(folder: Path, path: str) -> Generator[tuple[int | None, str]]:
    """The descriptor of the folder that a path is in, and its last name.

    Without descriptors: None, and the whole path.

    Raises:
        Refused: the path leads out of the project, or a name on the way is a link.
    """
    *way, name = _names(path)
    if not _HAS_DESCRIPTORS:
        yield None, str(_checked_path(folder, way) / name)
        return
    handle = _walked(folder, way, _WAY)
    try:
        yield handle, name
    finally:
        os.close(handle)


@contextmanager
def folder_at(folder: Path, path: str) -> Generator[int | str]:
    """The descriptor of a folder that can be listed; its path where there are no descriptors."""
    way = _names(path) if path else []
    if not _HAS_DESCRIPTORS:
        yield str(_checked_path(folder, way))
        return
    handle = _walked(folder, way, _FOLDER)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def opened(folder: Path, path: str, flags: int) -> Generator[int]:
    """The descriptor of a plain file.

    Raises:
        Refused: it is a link, or no plain file.
    """
    with parent_of(folder, path) as (parent, name):
        handle = open_plain(parent, name, path, flags)
    try:
        yield handle
    finally:
        os.close(handle)


def open_plain(parent: int | None, name: str, path: str, flags: int) -> int:
    """Open a plain file of a folder; the caller closes it."""
    if not _NO_FOLLOW:
        _check_is_plain(parent, name, path)
    try:
        handle = os.open(name, flags | _PLAIN | _NO_FOLLOW, 0o666, dir_fd=parent)
    except OSError:
        _check_is_plain(parent, name, path)
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _no_plain_file(path)
    return handle


def create_plain(parent: int | None, name: str) -> int:
    """Make a file of a folder and open it for writing; the caller closes it.

    Raises:
        FileExistsError: the name is taken, if only by a link that leads nowhere.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN | _NO_FOLLOW
    return os.open(name, flags, 0o666, dir_fd=parent)


def stat_at(folder: Path, path: str) -> os.stat_result | None:
    """What stands at a path, if only a link; None where nothing does, or it cannot be read."""
    with suppress(OSError), parent_of(folder, path) as (parent, name):
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    return None


def is_link(found: os.stat_result) -> bool:
    # Windows has other links besides symbolic ones, and marks them all the same way.
    return stat.S_ISLNK(found.st_mode) or bool(getattr(found, "st_reparse_tag", 0))


def check_is_folder(parent: int | None, name: str, path: str) -> None:
    """Refuse a link, and what is no folder."""
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if is_link(found):
        raise _link(path)
    if not stat.S_ISDIR(found.st_mode):
        raise Refused(f"{path} is no folder", "move it away; a new one is made")


def _check_is_plain(parent: int | None, name: str, path: str) -> None:
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if is_link(found):
            raise _link(path)
        if not stat.S_ISREG(found.st_mode):
            raise _no_plain_file(path)


def _link(path: str) -> Refused:
    return Refused(
        f"{path} is a link; below a project, links are not followed",
        "see where it leads, then remove it, or put the file itself there",
        {"file": path},
    )


def _no_plain_file(path: str) -> Refused:
    return Refused(f"{path} is no plain file", "move it away; relay project init makes one")


def _walked(folder: Path, way: list[str], flags: int) -> int:
    # The project's own folder may be reached through links: its user chose that.
    handle = os.open(folder, _WAY if way else flags)
    for index, name in enumerate(way):
        try:
            last = index == len(way) - 1
            below = os.open(name, (flags if last else _WAY) | _NO_FOLLOW, dir_fd=handle)
        except OSError:
            check_is_folder(handle, name, "/".join(way[: index + 1]))
            raise
        finally:
            os.close(handle)
        handle = below
    return handle


def _checked_path(folder: Path, way: list[str]) -> Path:
    """The same without descriptors: each name is checked, then where they all lead."""
    path = folder
    for index, name in enumerate(way):
        path = path / name
        check_is_folder(None, str(path), "/".join(way[: index + 1]))
    if os.path.realpath(path) != os.path.join(os.path.realpath(folder), *way):
        raise _link("/".join(way))
    return path


def _names(path: str) -> list[str]:
    names = path.split("/")
    refused = Refused(f"{path[:100]!r} names no file of the project", "name a file below it")
    if any(name in ("", ".", "..") for name in names) or "\0" in path:
        raise refused
    if os.name == "nt" and ("\\" in path or ":" in path):
        raise refused
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise refused from error
    return names
