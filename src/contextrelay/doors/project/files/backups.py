"""What was seen: the state as a brief told it, kept to merge by; and copies of what is overwritten.

Rule: these are conveniences. Where they cannot be written, nothing else fails; the oldest go first.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from contextrelay.doors.project.files.folder import place_of_file
from contextrelay.doors.project.files.lock import cannot_write, own_folder
from contextrelay.errors import Invalid, NotFound, Refused
from contextrelay.limits import PROJECT_BACKUPS_MAX, PROJECT_SEEN_MAX
from contextrelay.model.project import OWN_FOLDER, STATE

_SEEN, _BACKUPS = "seen", "backups"


def keep(folder: Path, stamp: str, state: str | None) -> None:
    """Remember the state that a brief was made of."""
    if state is None:
        return
    with suppress(OSError, Invalid, Refused):
        place = folder / OWN_FOLDER / _SEEN
        path = place / f"{stamp}.json"
        if path.exists():
            return
        own_folder(folder)
        place.mkdir(exist_ok=True)
        path.write_bytes(state.encode())
        _trim(place, PROJECT_SEEN_MAX)


def kept(folder: Path, stamp: str) -> dict[str, Any]:
    """The state that a brief was made of.

    Raises:
        NotFound: it is not known here.
    """
    if not stamp.isalnum():
        raise Invalid(f"{stamp!r} is no stamp", "take it from the last line of the brief")
    from contextrelay.logic.project.files.json_text import read

    path = folder / OWN_FOLDER / _SEEN / f"{stamp}.json"
    try:
        found = read(path.read_bytes().decode(), STATE)
    except OSError as error:
        raise NotFound(
            f"what {stamp} stands for is not known here any more",
            "relay project start says what is there now; or leave out --since",
        ) from error
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def back_up(folder: Path, names: Iterable[str], now: str) -> Path:
    """Copy files, as they are, before they are overwritten.

    Raises:
        Invalid: they cannot be copied.
    """
    from shutil import copyfile

    place = own_folder(folder) / _BACKUPS
    name = now.replace(":", "").replace("+", "_")
    try:
        target = place / name
        number = 1
        while target.exists():
            number += 1
            target = place / f"{name}-{number}"
        target.mkdir(parents=True)
        for file in names:
            source = place_of_file(folder, file)
            if source.exists():
                copyfile(source, target / file)
    except OSError as error:
        raise cannot_write(place, error) from error
    _trim(place, PROJECT_BACKUPS_MAX)
    return target


def _trim(place: Path, kept_max: int) -> None:
    """Remove the oldest ones."""
    with suppress(OSError):
        paths = sorted(place.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in paths[: max(0, len(paths) - kept_max)]:
            if path.is_dir():
                for inside in path.iterdir():
                    inside.unlink()
                path.rmdir()
            else:
                path.unlink()
