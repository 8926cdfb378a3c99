"""Confined file access: open, read, write, rename, list and remove files below a project folder.

A project may be a cloned repository, so an attacker may have chosen every file in it.

Rule: no link below the project folder is followed. A path is opened from the descriptor of the
folder, one name at a time, and links and special files are refused. An existing file is never
written into, because it may be hard-linked: new content goes into a new file, which replaces the
old one. On systems without directory descriptors (Windows), each name is checked before the path
is used, and a program that changes the folder in between can bypass this check.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from errno import ENOENT
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from contextrelay.errors import Broken, Invalid, Refused, RelayError, TooLarge
from contextrelay.limits import CHUNK_BYTES, PROJECT_FILE_BYTES_MAX
from contextrelay.model.project import OWN_FOLDER
from contextrelay.store.durable_files import write_all

PROJECT_ENTRIES_MAX = 10_000
BOM = "\ufeff"
_HAS_DESCRIPTORS = {os.open, os.stat, os.mkdir, os.unlink, os.rename, os.link} <= os.supports_dir_fd
_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
# Opening a pipe must not block, and a terminal must not become the controlling terminal of this
# process.
_PLAIN: int = getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FOLDER: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
# These flags suffice to pass through a folder that may be entered but not listed.
_PATH_ONLY: int = getattr(os, "O_PATH", 0) | _FOLDER
_MERGE_MARKER = re.compile(r"^(?:<{7}|>{7}|\|{7})(?: |$)", re.MULTILINE)
_EXCHANGE = 2  # The flag is RENAME_EXCHANGE on Linux, and RENAME_SWAP on macOS.


class FolderEntry(NamedTuple):
    """A name in a folder, with its kind. A link counts neither as a file nor as a folder."""

    name: str
    is_file: bool
    is_folder: bool
    modified_s: float


def read(folder: Path, path: str, bytes_max: int = PROJECT_FILE_BYTES_MAX) -> bytes | None:
    """Return the content of a regular file, or None if the file does not exist.

    Raises:
        Refused: the path leads through a link, or is not a regular file.
        TooLarge: the file exceeds the limit; Broken: the file is unreadable.
    """
    try:
        with open_file(folder, path) as handle:
            check_size(os.fstat(handle).st_size, path, bytes_max)
            content = bytearray()
            while piece := os.read(handle, CHUNK_BYTES):
                content += piece
                check_size(len(content), path, bytes_max)
            return bytes(content)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error


def read_text(folder: Path, name: str) -> str | None:
    """Return the text of a file, or None if the file does not exist. Raises as `read`."""
    content = read(folder, name)
    return None if content is None else decode(content, name)


def decode(content: bytes, name: str) -> str:
    """Return the content of a file as text. Encoding the text again gives the same bytes.

    Raises:
        Broken: the content is not UTF-8, or contains merge conflict markers.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].decode(errors="replace")
        problem, hint = "invalid UTF-8", "save the file as UTF-8"
        raise broken(name, before, len(before), problem, hint) from error
    if found := _MERGE_MARKER.search(text):
        hint = "resolve the conflict and remove the lines <<<<<<<, ======= and >>>>>>>"
        raise broken(name, text, found.start(), "unresolved merge conflict", hint)
    return text


def broken(name: str, text: str, index: int, problem: str, hint: str) -> Broken:
    """Return the error for a position in a file, with line and column as an editor counts them."""
    line = text.count("\n", 0, index) + 1
    column = index - text.rfind("\n", 0, index) - (line == 1 and text.startswith(BOM))
    place = {"file": name, "line": line, "column": column}
    return Broken(f"{name}, line {line}, column {column}: {problem}", hint, place)


def newline_of(text: str) -> str:
    r"""Return the first line ending of a text, or "\n" if there is none."""
    return "\r\n" if text.partition("\n")[0].endswith("\r") and "\n" in text else "\n"


def check_size(size_bytes: int, name: str, bytes_max: int = PROJECT_FILE_BYTES_MAX) -> None:
    """Raise TooLarge if the size of a file exceeds the limit."""
    if size_bytes > bytes_max:
        hint = f"the limit is {bytes_max:,} bytes; move old content to another file"
        raise TooLarge(f"{name} is too large: {size_bytes:,} bytes", hint, {"file": name})


def write(folder: Path, path: str, content: bytes, is_durable: bool = True) -> None:
    """Replace a file, or a link itself, by new content: completely or not at all.

    Raises:
        Invalid: the file cannot be written; Refused: the path leads through a link.
    """
    draft = write_draft(folder, path, content, is_durable)
    try:
        move(folder, draft, path)
        if is_durable:
            sync(folder, path)
    except (OSError, RelayError) as error:
        discard(folder, draft)
        if isinstance(error, RelayError):
            raise
        raise cannot_write(folder / path, error) from error


def write_draft(folder: Path, path: str, content: bytes, is_durable: bool = True) -> str:
    """Write the new content of a file to a draft in .relay-project, and return its path.

    The draft has the same permissions as the file.
    """
    # The name is random, so that a clone cannot contain a file of this name.
    draft = f"{OWN_FOLDER}/{path.rpartition('/')[2]}.{os.urandom(8).hex()}.part"
    try:
        found = _stat(folder, path)
        mode = found.st_mode & 0o777 if found and stat.S_ISREG(found.st_mode) else None
        # The draft is complete before it is renamed, so that a killed process does not leave half
        # of a draft.
        create(folder, f"{draft}.new", content, mode, is_durable)
        move(folder, f"{draft}.new", draft)
    except OSError as error:
        raise cannot_write(folder / path, error) from error
    return draft


def create(
    folder: Path, path: str, content: bytes, mode: int | None = None, is_durable: bool = True
) -> None:
    """Create a file. Raise FileExistsError if the name exists, even as a dangling link."""
    with _parent(folder, path) as (parent, name):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN | _NO_FOLLOW
        handle = os.open(name, flags, 0o666, dir_fd=parent)
        try:
            write_all(handle, content)
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(handle, mode)
            if is_durable:
                os.fsync(handle)
        except OSError:
            with suppress(OSError):
                os.unlink(name, dir_fd=parent)
            raise
        finally:
            os.close(handle)


def move(folder: Path, path: str, to: str) -> None:
    """Rename a file. A link at the new name is replaced, not followed."""
    with _parent(folder, path) as (one, name), _parent(folder, to) as (other, new):
        os.replace(name, new, src_dir_fd=one, dst_dir_fd=other)


def link(folder: Path, path: str, to: str) -> None:
    """Give a file a second name. Raise FileExistsError if the second name exists."""
    with _parent(folder, path) as (one, name), _parent(folder, to) as (other, new):
        if one is None:
            os.link(name, new)
        else:
            os.link(name, new, src_dir_fd=one, dst_dir_fd=other, follow_symlinks=False)


def exchange(folder: Path, draft: str, path: str) -> str:
    """Put a draft in the place of a file, and return the path at which the old file is now.

    The exchange is atomic if the system has such a call. Otherwise an edit that is saved between
    the two steps is lost. Raise FileNotFoundError if there is no old file.
    """
    with _parent(folder, draft) as (one, name), _parent(folder, path) as (other, target):
        call = _exchange_call()
        if call and one is not None and other is not None and call(one, name, other, target):
            return draft
    former = f"{draft}.former"
    link(folder, path, former)
    move(folder, draft, path)
    return former


@cache
def _exchange_call() -> Callable[[int, str, int, str], bool] | None:
    import ctypes

    try:
        library = ctypes.CDLL(None, use_errno=True)
        function = library.renameatx_np if sys.platform == "darwin" else library.renameat2
    except (OSError, AttributeError, TypeError):
        return None

    def call(folder: int, name: str, other: int, other_name: str) -> bool:
        failed = function(folder, os.fsencode(name), other, os.fsencode(other_name), _EXCHANGE)
        if failed and ctypes.get_errno() == ENOENT:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), other_name)
        return not failed

    return call


def remove(folder: Path, path: str) -> None:
    """Remove a file, or a link but not its target. If it does not exist, do nothing."""
    try:
        with suppress(FileNotFoundError), _parent(folder, path) as (parent, name):
            os.unlink(name, dir_fd=parent)
    except OSError as error:
        raise cannot_write(folder / path, error) from error


def discard(folder: Path, path: str) -> None:
    """Remove a file that is no longer needed. A failure is ignored."""
    with suppress(Invalid):
        remove(folder, path)


def make_folder(folder: Path, path: str) -> None:
    """Create a folder if it does not exist. Raise Refused if the name is not a folder."""
    with _parent(folder, path) as (parent, name):
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
        _check_kind(parent, name, path, is_folder=True)


def entries(folder: Path, path: str) -> list[FolderEntry]:
    """Return the names in a folder, up to a limit, or [] if the folder does not exist.

    Raises:
        Refused: the path leads through a link; Broken: the folder is unreadable.
    """
    listed: list[FolderEntry] = []
    try:
        with _directory(folder, _names(path), _FOLDER) as handle, os.scandir(handle) as found:
            for each in islice(found, PROJECT_ENTRIES_MAX):
                with suppress(FileNotFoundError):
                    seen = each.stat(follow_symlinks=False)
                    kind = 0 if _is_link(seen) else seen.st_mode
                    is_file, is_folder = stat.S_ISREG(kind), stat.S_ISDIR(kind)
                    listed.append(FolderEntry(each.name, is_file, is_folder, seen.st_mtime))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(path, error) from error
    return listed


def trim(folder: Path, path: str, kept_max: int, newest: str) -> None:
    """Remove the oldest files, and folders of files, until `kept_max` remain. Links are kept."""
    with suppress(OSError, Broken):
        # `newest` is passed, because a file that came with a clone may have a date in the future.
        found = [each for each in entries(folder, path) if each.name != newest]
        found = [each for each in found if each.is_file or each.is_folder]
        found.sort(key=lambda entry: entry.modified_s)
        for entry in found[: max(0, len(found) + 1 - kept_max)]:
            below = f"{path}/{entry.name}"
            if entry.is_file:
                discard(folder, below)
                continue
            for inside in entries(folder, below):
                if inside.is_file:
                    discard(folder, f"{below}/{inside.name}")
            with suppress(OSError), _parent(folder, below) as (parent, name):
                os.rmdir(name, dir_fd=parent)


def exists(folder: Path, path: str) -> bool:
    """Return True if a name exists, even as a dangling link."""
    return _stat(folder, path) is not None


def is_folder(folder: Path) -> bool:
    """Return True if the project folder exists. The path to it may contain links."""
    return folder.is_dir()


def count_present(folder: Path, *names: str) -> int:
    """Return the number of the given names that exist in the project folder."""
    return sum(os.path.lexists(folder / name) for name in names)


def is_writable(folder: Path) -> bool:
    """Return True if files can be created in the project folder."""
    return os.access(folder, os.W_OK | os.X_OK)


def sync(folder: Path, path: str) -> None:
    """Flush the folder of a path to disk, so that renames in this folder survive a power loss."""
    way = _names(path)[:-1]
    try:
        with _directory(folder, way, _FOLDER) as handle:
            if isinstance(handle, int):
                os.fsync(handle)
    except FileNotFoundError as error:
        raise Broken(f"{'/'.join(way)} was moved by another program", "try again") from error


@contextmanager
def open_file(folder: Path, path: str, flags: int = os.O_RDONLY) -> Generator[int]:
    """Open a regular file and yield its descriptor. Raise Refused if it is or is below a link."""
    with _parent(folder, path) as (parent, name):
        if not _NO_FOLLOW:
            with suppress(FileNotFoundError):
                _check_kind(parent, name, path)
        try:
            handle = os.open(name, flags | _PLAIN | _NO_FOLLOW, 0o666, dir_fd=parent)
        except OSError:
            with suppress(FileNotFoundError):
                _check_kind(parent, name, path)
            raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _not_a_file(path)
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _parent(folder: Path, path: str) -> Generator[tuple[int | None, str]]:
    """Yield the descriptor of the folder of a path, and the last name of the path.

    On systems without directory descriptors, yield None and the full path.
    """
    *way, name = _names(path)
    with _directory(folder, way, _PATH_ONLY) as parent:
        yield (parent, name) if isinstance(parent, int) else (None, os.path.join(parent, name))


@contextmanager
def _directory(folder: Path, way: list[str], flags: int) -> Generator[int | str]:
    """Yield the descriptor of a folder, or its checked path on systems without descriptors."""
    if not _HAS_DESCRIPTORS:
        path = str(folder)
        for index, name in enumerate(way, 1):
            path = os.path.join(path, name)
            _check_kind(None, path, "/".join(way[:index]), is_folder=True)
        if os.path.realpath(path) != os.path.join(os.path.realpath(folder), *way):
            raise _linked("/".join(way))
        yield path
        return
    # The path to the project folder itself may contain links.
    handle = os.open(folder, _PATH_ONLY if way else flags)
    try:
        for index, name in enumerate(way, 1):
            how = flags if index == len(way) else _PATH_ONLY
            try:
                below = os.open(name, how | _NO_FOLLOW, dir_fd=handle)
            except OSError:
                _check_kind(handle, name, "/".join(way[:index]), is_folder=True)
                raise
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)


def _names(path: str) -> list[str]:
    """Return the names of a path. Raise Refused if the path could lead out of the project."""
    names = path.split("/")
    is_valid = not any(name in ("", ".", "..") for name in names) and "\0" not in path
    if os.name == "nt" and ("\\" in path or ":" in path):
        is_valid = False
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        is_valid = False
    if not is_valid:
        raise Refused(f"invalid path {path[:100]!r}", "name a file inside the project")
    return names


def _stat(folder: Path, path: str) -> os.stat_result | None:
    with suppress(OSError), _parent(folder, path) as (parent, name):
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    return None


def _is_link(found: os.stat_result) -> bool:
    # Windows has other kinds of links too, and marks all of them with a reparse tag.
    return stat.S_ISLNK(found.st_mode) or bool(getattr(found, "st_reparse_tag", 0))


def _check_kind(parent: int | None, name: str, path: str, is_folder: bool = False) -> None:
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if _is_link(found):
        raise _linked(path)
    if is_folder and not stat.S_ISDIR(found.st_mode):
        raise Refused(f"{path} is not a folder", "move it away; a new one is created")
    if not is_folder and not stat.S_ISREG(found.st_mode):
        raise _not_a_file(path)


def _linked(path: str) -> Refused:
    hint = "check its target, then remove it or replace it with the file itself"
    return Refused(f"{path} is a link; links in a project are not followed", hint, {"file": path})


def _not_a_file(path: str) -> Refused:
    return Refused(f"{path} is not a regular file", "move it away, then: relay project init")


def _unreadable(path: str, error: OSError) -> Broken:
    return Broken(f"cannot read {path}: {error.strerror}", "check its permissions", {"file": path})


def cannot_write(path: Path, error: OSError) -> Invalid:
    """Return the error for a file that cannot be written."""
    hint = "nothing was changed; make the folder writable, or work on a copy of it"
    return Invalid(f"cannot write {path}: {error.strerror}", hint)
