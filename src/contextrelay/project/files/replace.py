"""Replacing a file, and keeping what a person saved there meanwhile.

The file and its draft are swapped in one step; then what stood there is read. If it is not what we
had read before, somebody saved it in that moment, and both are merged.

Rule: nothing that a person saved is lost. What cannot be merged is kept in our folder, and named.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

from contextrelay.errors import Broken, Conflict, Refused, RelayError, TooLarge, Unavailable
from contextrelay.limits import PROJECT_RETRIES_MAX, UNFINISHED_PUSH_S
from contextrelay.model.project import OWN_FOLDER
from contextrelay.project.files import confined
from contextrelay.project.files.decode import decoded
from contextrelay.project.files.folder import read_text
from contextrelay.project.files.lock import make_own_folder

# A draft has a random name, so that none that came with the folder stands in its place. Earlier
# versions gave them none; what those left is found, too.
_DRAFT = (
    r"(.+?)(?:\.[0-9a-f]{16})?\.(part|part1|new)"  # Compiled when used: readers do not need it.
)
_ENDINGS = ("part", "part1")


def place(folder: Path, name: str, before: str | None, after: str) -> None:
    """Replace a file by `after`, merged with what a person saved there since it was `before`.

    Raises:
        Broken: what is there cannot be read; it is left alone.
        Conflict: it cannot be merged; both are kept, and the error names the files.
    """
    disk = read_text(folder, name)
    if disk == after:
        _take_in_left(folder, name, before, after)
        return
    make_own_folder(folder)
    wanted = after
    if disk not in (None, before):
        wanted = _joined_or_aside(folder, name, before, after, disk)
    _forget_left(folder, name)
    drafts: list[str] = []
    for turn in range(PROJECT_RETRIES_MAX):
        # Two drafts by turns: what somebody saved stays in the one until it is in the other.
        drafts.append(confined.draft(folder, name, wanted.encode(), _ENDINGS[turn % 2]))
        try:
            found = _exchanged(folder, drafts[-1], name, is_new=disk is None)
        except OSError as error:
            raise confined.cannot_write(folder / name, error) from error
        if found is not None and found != (disk or "").encode():
            # On disk is what we wanted, and in our hands what somebody saved a moment ago.
            merged = _joined_late(folder, drafts[-1], (name, disk, wanted), found)
            disk, wanted = wanted, merged
            if disk != wanted:
                for old in drafts[:-1]:
                    confined.forget(folder, old)
                continue
        for each in drafts:
            confined.forget(folder, each)
        return
    raise Unavailable(f"somebody keeps saving {name}", "try again in a moment")


def forget_old_drafts(folder: Path) -> None:
    """Remove what is left of writers that were killed long ago."""
    with suppress(RelayError):
        for entry in confined.entries(folder, OWN_FOLDER):
            is_old = entry.modified_s < time.time() - UNFINISHED_PUSH_S
            if is_old and entry.is_file and re.fullmatch(_DRAFT, entry.name):
                confined.forget(folder, f"{OWN_FOLDER}/{entry.name}")


def _exchanged(folder: Path, draft: str, name: str, is_new: bool) -> bytes | None:
    """Put a draft in its place; returns what stood there, or None where nothing did."""
    found: bytes | None = None
    try:
        if is_new:
            confined.move_if_free(folder, draft, name)
        elif confined.swap(folder, draft, name):
            found = _found(folder, draft, name)
        else:
            found = confined.replace_and_read(folder, draft, name)
    except FileExistsError:
        # Somebody made it just now.
        return _exchanged(folder, draft, name, is_new=False)
    except FileNotFoundError:
        # Somebody removed it just now: what we write stands, as after a removal a moment earlier.
        confined.move(folder, draft, name)
    confined.sync(folder, name)
    return found


def _found(folder: Path, draft: str, name: str) -> bytes | None:
    """What a swap left in the draft: what stood there until now."""
    try:
        return confined.read(folder, draft)
    except (Refused, TooLarge) as error:
        raise _kept_aside(folder, draft, name, error) from error


def _take_in_left(folder: Path, name: str, before: str | None, after: str) -> None:
    """Merge what somebody saved in the moment in which an earlier writer was killed."""
    for draft in _left(folder, name, "part"):
        found = _found(folder, draft, name)
        if found not in (None, (before or "").encode(), after.encode()):
            joined = _joined_late(folder, draft, (name, before, after), found)
            if joined != after:
                confined.write(folder, name, joined.encode())
                before, after = after, joined
    _forget_left(folder, name)


def _forget_left(folder: Path, name: str) -> None:
    for ending in _ENDINGS:
        for draft in _left(folder, name, ending):
            confined.forget(folder, draft)


def _left(folder: Path, name: str, ending: str) -> list[str]:
    """Drafts of a file whose writer was killed."""
    found = (
        (entry, re.fullmatch(_DRAFT, entry.name)) for entry in confined.entries(folder, OWN_FOLDER)
    )
    return [
        f"{OWN_FOLDER}/{entry.name}"
        for entry, draft in found
        if draft is not None and draft.groups() == (name, ending) and entry.is_file
    ]


def _joined_late(folder: Path, draft: str, was: tuple[str, str | None, str], found: bytes) -> str:
    """Merge what was saved in the last moment, or else keep it in our folder."""
    name = was[0]
    try:
        return _joined(*was, decoded(found, name))
    except (Broken, Conflict, TooLarge) as error:
        raise _kept_aside(folder, draft, name, error) from error


def _kept_aside(folder: Path, draft: str, name: str, error: RelayError) -> Conflict:
    """Keep the file itself, not a copy: an editor that has it open may still write into it."""
    kept = f"{OWN_FOLDER}/{name}.saved-meanwhile"
    try:
        confined.move(folder, draft, kept)
    except OSError as trouble:
        raise confined.cannot_write(folder / kept, trouble) from trouble
    return Conflict(
        f"{name} was saved in the moment in which it was written, and cannot be merged: "
        f"{error.message}",
        f"what was saved is in {folder / kept}; look at both",
    )


def _joined_or_aside(
    folder: Path, name: str, before: str | None, after: str, disk: str | None
) -> str:
    """Merge what was saved before we came to write; or else leave it, and keep ours aside."""
    try:
        return _joined(name, before, after, disk or "")
    except Conflict as error:
        kept = f"{OWN_FOLDER}/{name}.not-written"
        confined.write(folder, kept, after.encode())
        raise Conflict(
            f"{name} was changed by hand while it was to be written, and cannot be merged",
            f"what is there stands; what was to be written is in {folder / kept}; look at both",
        ) from error


def _joined(name: str, before: str | None, after: str, disk: str) -> str:
    # Lazily: it happens seldom, and readers do not need it.
    from datetime import UTC, datetime

    from contextrelay.project.conflict_merge import rejoined

    return rejoined(name, before, after, disk, datetime.now(UTC).isoformat(timespec="seconds"))
