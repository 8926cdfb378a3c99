"""Placing: a file is put where it belongs, and what a person saved there meanwhile is kept.

Whatever stands there changes places with what is to stand there, in one step; then it is looked at.
If it is not what we had read, somebody saved it in that moment, and both are merged.

Rule: nothing that a person saved is lost. What cannot be merged is kept beside, and named.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from contextrelay.doors.project.files.exchange import swap
from contextrelay.doors.project.files.folder import place_of_file, read_text
from contextrelay.doors.project.files.lock import cannot_write, own_folder
from contextrelay.errors import Broken, Conflict, TooLarge, Unavailable
from contextrelay.limits import PROJECT_RETRIES_MAX
from contextrelay.logic.project.files.decode import decoded
from contextrelay.store.durable_files import sync_folder, write_all


def place(folder: Path, name: str, before: str | None, after: str) -> None:
    """Put a file where it belongs, with what a person saved there since it was `before`.

    Raises:
        Broken: what is there cannot be read; it is left alone.
        Conflict: it cannot be merged; both are kept, and the error says where.
    """
    path = place_of_file(folder, name)
    disk = read_text(folder, name)
    if disk == after:
        _take_in_left(folder, path, name, before, after)
        return
    wanted = after
    if disk not in (None, before):
        wanted = _joined_or_aside(folder, name, before, after, disk)
    for turn in range(PROJECT_RETRIES_MAX):
        # Two drafts by turns: what somebody saved stays in the one until it is in the other.
        draft = _drafted(folder, path, wanted, turn % 2)
        try:
            found = _exchanged(draft, path, is_new=disk is None)
        except OSError as error:
            raise cannot_write(path, error) from error
        if found is not None and found != (disk or "").encode():
            # On disk is what we wanted, and in our hands what somebody saved a moment ago.
            disk, wanted = wanted, _joined_late(folder, draft, (name, disk, wanted), found)
            if disk != wanted:
                continue
        for number in (0, 1):
            _forget(_draft_of(folder, path, number))
        return
    raise Unavailable(f"somebody keeps saving {name}", "try again in a moment")


def put(folder: Path, path: Path, text: str) -> None:
    """Write a file of our own, whole or not at all.

    Raises:
        Invalid: it cannot be written.
    """
    draft = _drafted(folder, path, text)
    try:
        draft.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        _forget(draft)
        raise cannot_write(path, error) from error


def _drafted(folder: Path, path: Path, text: str, number: int = 0) -> Path:
    """A file with a text, beside the others, with the permissions that the one at a path has."""
    draft = _draft_of(folder, path, number)
    try:
        mode = path.stat().st_mode & 0o7777
    except OSError:
        mode = -1
    try:
        _forget(draft)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            write_all(handle, text.encode())
            if mode >= 0:
                os.fchmod(handle, mode)
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        _forget(draft)
        raise cannot_write(path, error) from error
    return draft


def _draft_of(folder: Path, path: Path, number: int = 0) -> Path:
    return own_folder(folder) / f"{path.name}.part{number or ''}"


def _exchanged(draft: Path, path: Path, is_new: bool) -> bytes | None:
    """Put a draft in its place; what stood there, or None where nothing did."""
    found: bytes | None = None
    try:
        if is_new:
            os.link(draft, path)
        elif swap(draft, path):
            found = draft.read_bytes()
        else:
            found = _replaced(draft, path)
    except FileExistsError:
        # Somebody made it just now.
        return _exchanged(draft, path, is_new=False)
    except FileNotFoundError:
        # Somebody removed it just now: what we write stands, as after a removal a moment earlier.
        draft.replace(path)
    sync_folder(path.parent)
    return found


def _replaced(draft: Path, path: Path) -> bytes | None:
    """Where nothing can be exchanged: what was there is held open, and kept beside as a file."""
    with path.open("rb") as held:
        draft.replace(path)
        found = held.read()
    draft.write_bytes(found)
    return found


def _take_in_left(folder: Path, path: Path, name: str, before: str | None, after: str) -> None:
    """Merge what somebody had saved when whoever put this file in its place was ended."""
    draft = _draft_of(folder, path)
    try:
        found = draft.read_bytes()
    except OSError:
        return
    if found not in ((before or "").encode(), after.encode()):
        joined = _joined_late(folder, draft, (name, before, after), found)
        if joined != after:
            put(folder, path, joined)
    _forget(draft)


def _joined_late(folder: Path, draft: Path, was: tuple[str, str | None, str], found: bytes) -> str:
    """Merge what was saved in the last moment, or else keep it beside."""
    name = was[0]
    try:
        return _joined(*was, decoded(found, name))
    except (Broken, Conflict, TooLarge) as error:
        # The file itself: whoever has it open may still be writing into it.
        kept = own_folder(folder) / f"{name}.saved-meanwhile"
        draft.replace(kept)
        raise Conflict(
            f"{name} was saved in the moment in which it was written, and cannot be merged: "
            f"{error.message}",
            f"what was saved is in {kept}; look at both",
        ) from error


def _joined_or_aside(
    folder: Path, name: str, before: str | None, after: str, disk: str | None
) -> str:
    """Merge what was saved before we came to write; or else let it stand, and keep ours beside."""
    try:
        return _joined(name, before, after, disk or "")
    except Conflict as error:
        kept = own_folder(folder) / f"{name}.not-written"
        put(folder, kept, after)
        raise Conflict(
            f"{name} was changed by hand while it was to be written, and cannot be merged",
            f"what is there stands; what was to be written is in {kept}; look at both",
        ) from error


def _joined(name: str, before: str | None, after: str, disk: str) -> str:
    # Lazily: it happens seldom, and who only reads does not need it.
    from datetime import UTC, datetime

    from contextrelay.logic.project.conflict_merge import rejoined

    return rejoined(name, before, after, disk, datetime.now(UTC).isoformat(timespec="seconds"))


def _forget(draft: Path) -> None:
    with suppress(OSError):
        draft.unlink()
