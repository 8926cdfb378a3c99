"""A disk that loses its power: what a run of calls may leave behind, if it stops anywhere.

A pure model. Data of a file is pending until the file is synced; the names in a folder (made,
renamed, removed) are pending until the folder is synced: strictly, syncing a new file does not
keep its name. When the power goes, any part of what is pending survives: a write whole, not at all
or torn at 512-byte sectors, in any order; a rename at once on both sides; a change of a name only
if the changes of that name before it survived.

Rule: whatever the model does not know, it refuses. A call that was overlooked would be a promise
tested too gently.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from random import Random

from msgspec import Struct

SECTOR_BYTES = 512


# Calls, as a recording has them


class Opened(Struct, frozen=True):
    """A file or folder was opened, and made or emptied by that."""

    fd: int
    path: str
    makes: bool = False
    empties: bool = False


class Closed(Struct, frozen=True):
    fd: int


class Doubled(Struct, frozen=True):
    fd: int
    new_fd: int


class Moved(Struct, frozen=True):
    """The place where the next write goes."""

    fd: int
    offset: int


class Wrote(Struct, frozen=True):
    """`offset` None: where the last one ended."""

    fd: int
    content: bytes
    offset: int | None = None


class Resized(Struct, frozen=True):
    """`is_growth`: to at least this size."""

    fd: int
    size_bytes: int
    is_growth: bool = False


class Synced(Struct, frozen=True):
    fd: int


class Renamed(Struct, frozen=True):
    path: str
    new_path: str


class Removed(Struct, frozen=True):
    path: str


class MadeFolder(Struct, frozen=True):
    path: str


Call = Opened | Closed | Doubled | Moved | Wrote | Resized | Synced | Renamed | Removed | MadeFolder


# The disk


class File:
    """What is safe of a file, and what was done to it since, in order."""

    def __init__(self) -> None:
        self.safe = bytearray()
        self.pending: list[tuple[int, bytes] | int] = []
        """(offset, content) of a write, or a new size."""
        self.size_bytes = 0

    def write(self, offset: int, content: bytes) -> None:
        self.pending.append((offset, content))
        self.size_bytes = max(self.size_bytes, offset + len(content))

    def resize(self, size_bytes: int) -> None:
        self.pending.append(size_bytes)
        self.size_bytes = size_bytes

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.safe, change)
        self.pending.clear()


class Folder:
    """The names in a folder: as a program sees them, and as they are safe."""

    def __init__(self) -> None:
        self.names: dict[str, File | Folder] = {}
        self.safe: dict[str, File | Folder] = {}


class Renaming(Struct, frozen=True, eq=False):
    """A pending change of names, all or nothing: None takes a name away."""

    changes: tuple[tuple[Folder, str, File | Folder | None], ...]

    @property
    def keys(self) -> set[tuple[int, str]]:
        return {(id(folder), name) for folder, name, _ in self.changes}


class Fate(Struct, frozen=True):
    """How much of what is pending survives: the chance of each piece, and of being torn."""

    chance: Random
    survives: float
    torn: float = 0.0


NOTHING = Fate(Random(0), 0.0)
EVERYTHING = Fate(Random(0), 1.0)


class Image(Struct, frozen=True):
    """What is on the disk when the power is back."""

    folders: list[str]
    files: dict[str, bytearray]


class _Handle:
    def __init__(self, node: File | Folder) -> None:
        self.node = node
        self.offset = 0


class Disk:
    """Everything under one folder, `root`, which is empty and safe at first."""

    def __init__(self, root: str) -> None:
        self._root_parts = PurePosixPath(root).parts
        self._root = Folder()
        self._handles: dict[int, _Handle] = {}
        self._pending: list[Renaming] = []

    def apply(self, call: Call) -> bool:
        """Do a call; whether it was about this disk."""
        match call:
            case Opened():
                return self._open(call)
            case Closed(fd):
                return self._handles.pop(fd, None) is not None
            case Doubled(fd, new_fd):
                if fd in self._handles:
                    self._handles[new_fd] = self._handles[fd]
                return fd in self._handles
            case Renamed(path, new_path):
                return self._rename(path, new_path)
            case Removed(path):
                return self._change_name(path, None)
            case MadeFolder(path):
                return self._change_name(path, Folder())
            case Moved(fd) | Wrote(fd) | Resized(fd) | Synced(fd):
                return self._on_handle(self._handles.get(fd), call)

    def _open(self, call: Opened) -> bool:
        self._handles.pop(call.fd, None)
        parts = self._inside(call.path)
        if parts is None:
            return False
        node = self._root if not parts else self._parent(parts).names.get(parts[-1])
        if node is None:
            assert call.makes, f"{call.path} was opened, and nobody had made it"
            node = File()
            self._change_name(call.path, node)
        if call.empties:
            assert isinstance(node, File)
            node.resize(0)
        self._handles[call.fd] = _Handle(node)
        return True

    def _on_handle(self, handle: _Handle | None, call: Call) -> bool:
        if handle is None:
            return False
        match call, handle.node:
            case Synced(), Folder() as folder:
                self._sync_folder(folder)
            case Synced(), File() as file:
                file.sync()
            case Moved(_, offset), _:
                handle.offset = offset
            case Wrote(_, content, None), File() as file:
                file.write(handle.offset, content)
                handle.offset += len(content)
            case Wrote(_, content, int(offset)), File() as file:
                file.write(offset, content)
            case Resized(_, size_bytes, is_growth), File() as file:
                if not is_growth or size_bytes > file.size_bytes:
                    file.resize(size_bytes)
            case _:
                raise AssertionError(f"{call} on a folder")
        return True

    # Names

    def _inside(self, path: str) -> tuple[str, ...] | None:
        parts = PurePosixPath(path).parts
        depth = len(self._root_parts)
        return parts[depth:] if parts[:depth] == self._root_parts else None

    def _parent(self, parts: tuple[str, ...]) -> Folder:
        folder = self._root
        for name in parts[:-1]:
            below = folder.names[name]
            assert isinstance(below, Folder)
            folder = below
        return folder

    def _change_name(self, path: str, node: File | Folder | None) -> bool:
        parts = self._inside(path)
        if parts:
            self._pend((self._parent(parts), parts[-1], node))
        return bool(parts)

    def _rename(self, path: str, new_path: str) -> bool:
        old, new = self._inside(path), self._inside(new_path)
        if not old or not new:
            assert not old, "something was moved off the disk"
            assert not new, "something was moved onto the disk"
            return False
        source = self._parent(old)
        node = source.names[old[-1]]
        self._pend((source, old[-1], None), (self._parent(new), new[-1], node))
        return True

    def _pend(self, *changes: tuple[Folder, str, File | Folder | None]) -> None:
        for folder, name, node in changes:
            _set_name(folder.names, name, node)
        self._pending.append(Renaming(changes))

    def _sync_folder(self, folder: Folder) -> None:
        """Make every change in a folder safe, and before it what it rests on."""
        due: list[Renaming] = []
        needed: set[tuple[int, str]] = set()
        for renaming in reversed(self._pending):
            in_folder = any(changed is folder for changed, _, _ in renaming.changes)
            if in_folder or renaming.keys & needed:
                due.append(renaming)
                needed |= renaming.keys
        for renaming in reversed(due):
            for changed, name, node in renaming.changes:
                _set_name(changed.safe, name, node)
        self._pending = [renaming for renaming in self._pending if renaming not in due]

    # Power loss

    def after_power_loss(self, fate: Fate) -> Image:
        """What is there when the power is back; the disk itself goes on as it was."""
        names = self._surviving_names(fate)
        image = Image([], {})
        _walk(self._root, "", names, image, lambda file: _surviving_content(file, fate))
        return image

    def _surviving_names(self, fate: Fate) -> dict[int, dict[str, File | Folder]]:
        """The names of each folder that differs from what is safe."""
        changed: dict[int, dict[str, File | Folder]] = {}
        dropped: set[tuple[int, str]] = set()
        for renaming in self._pending:
            if renaming.keys & dropped or fate.chance.random() >= fate.survives:
                dropped |= renaming.keys
                continue
            for folder, name, node in renaming.changes:
                _set_name(changed.setdefault(id(folder), dict(folder.safe)), name, node)
        return changed


def _set_name(names: dict[str, File | Folder], name: str, node: File | Folder | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _walk(
    folder: Folder,
    path: str,
    changed: dict[int, dict[str, File | Folder]],
    image: Image,
    content_of: Callable[[File], bytearray],
) -> None:
    for name, node in changed.get(id(folder), folder.safe).items():
        if isinstance(node, File):
            image.files[path + name] = content_of(node)
        else:
            image.folders.append(path + name)
            _walk(node, f"{path}{name}/", changed, image, content_of)


def _surviving_content(file: File, fate: Fate) -> bytearray:
    if not file.pending:
        return file.safe
    content = bytearray(file.safe)
    for change in file.pending:
        dice = fate.chance.random()
        if dice < fate.survives:
            _apply(content, change)
        elif dice < fate.survives + fate.torn and isinstance(change, tuple):
            for piece in _torn(*change, fate.chance):
                _apply(content, piece)
    return content


def _torn(offset: int, written: bytes, chance: Random) -> list[tuple[int, bytes]]:
    """Some of the sectors of a write."""
    pieces: list[tuple[int, bytes]] = []
    start = 0
    while start < len(written):
        stop = min(len(written), start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES)
        if chance.random() < 0.5:
            pieces.append((offset + start, written[start:stop]))
        start = stop
    return pieces


def _apply(content: bytearray, change: tuple[int, bytes] | int) -> None:
    if isinstance(change, int):
        del content[change:]
        content.extend(bytes(change - len(content)))
        return
    offset, written = change
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(written)] = written
