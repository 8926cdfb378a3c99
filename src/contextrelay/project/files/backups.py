"""Copies: the state that a brief was made of, to merge by, and files before they are overwritten.

Rule: a state that cannot be kept makes nothing else fail; the oldest copies are removed first.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from contextrelay.errors import Invalid, NotFound
from contextrelay.limits import PROJECT_BACKUPS_MAX, PROJECT_COPY_BYTES_MAX, PROJECT_SEEN_MAX
from contextrelay.model.project import OWN_FOLDER
from contextrelay.project.files import confined
from contextrelay.project.files.decode import decoded
from contextrelay.project.files.lock import make_own_folder

_SEEN, _BACKUPS = f"{OWN_FOLDER}/seen", f"{OWN_FOLDER}/backups"


def keep(folder: Path, stamp: str, state: str | None) -> None:
    """Keep the state that a brief was made of.

    Raises:
        Refused: the place for it is a link.
    """
    path = f"{_SEEN}/{stamp}.json"
    if state is None or confined.exists(folder, path):
        return
    with suppress(OSError, Invalid):
        make_own_folder(folder)
        confined.make_folder(folder, _SEEN)
        confined.write(folder, path, state.encode(), is_durable=False)
        confined.trim(folder, _SEEN, PROJECT_SEEN_MAX, f"{stamp}.json")


def kept(folder: Path, stamp: str) -> dict[str, Any]:
    """The state that a brief was made of.

    Raises:
        NotFound: there is no copy of it.
    """
    if not stamp.isalnum():
        raise Invalid(f"{stamp!r} is no stamp", "take it from the last line of the brief")
    from contextrelay.project.files.json_text import read

    path = f"{_SEEN}/{stamp}.json"
    content = confined.read(folder, path)
    if content is None:
        raise NotFound(
            f"what {stamp} stands for is not known here any more",
            "relay project start says what is there now; or leave out --since",
        )
    found = read(decoded(content, path), path)
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def back_up(folder: Path, names: Iterable[str], now: str) -> Path:
    """Copy files, as they are, before they are overwritten.

    Raises:
        Invalid: they cannot be copied; TooLarge: one is over the limit of a copy.
        Refused: one of them, or the place for it, is a link.
    """
    make_own_folder(folder)
    name = now.replace(":", "").replace("+", "_")
    target, number = f"{_BACKUPS}/{name}", 1
    try:
        confined.make_folder(folder, _BACKUPS)
        while confined.exists(folder, target):
            number += 1
            target = f"{_BACKUPS}/{name}-{number}"
        confined.make_folder(folder, target)
        for file in names:
            confined.copy(folder, file, f"{target}/{file}", PROJECT_COPY_BYTES_MAX)
    except OSError as error:
        raise confined.cannot_write(folder / target, error) from error
    confined.trim(folder, _BACKUPS, PROJECT_BACKUPS_MAX, target.rpartition("/")[2])
    return folder / target
