"""The journal: several files change as one, whatever ends us in between.

What is to be written is first written to the journal, whole; from that moment on it is done. Who
comes next, to read or to write, finds a journal that was left and finishes it.

Rule: nothing that a person saved is lost. A file that is not as it was when the change was made is
merged with it; one that cannot be read is left alone, and so is the journal.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from contextrelay.doors.project.files.folder import place_of_file, read_text, read_texts
from contextrelay.doors.project.files.lock import alone, cannot_write, own_folder, undisturbed
from contextrelay.doors.project.files.replace import place, put
from contextrelay.errors import Broken, Conflict, Invalid, Unavailable
from contextrelay.limits import PROJECT_RETRIES_MAX
from contextrelay.logic.project.files.decode import check_size
from contextrelay.model.project import FILES, OWN_FOLDER, Texts
from contextrelay.store.durable_files import sync_folder

_JOURNAL = "journal.json"
Make = Callable[[Texts], Texts]


def read_all(folder: Path) -> Texts:
    """The files as they are, none of them older than another.

    Raises:
        Broken: one of them cannot be read.
    """
    with undisturbed(folder):
        if not (folder / OWN_FOLDER / _JOURNAL).exists():
            return read_texts(folder)
    try:
        with alone(folder):
            finish_journal(folder)
            return read_texts(folder)
    except Invalid:
        # It cannot be written here: then it is read as it will be.
        texts = read_texts(folder)
        for name, (before, after) in _journal(folder).items():
            if texts.of(name) == before:
                texts = texts.having(name, after)
        return texts


def change(folder: Path, make: Make) -> tuple[Texts, Texts]:
    """Change the files: `make` says what they become of what they are. Before and after.

    It is called again where a person saved a file meanwhile.

    Raises:
        Broken: a file cannot be read; nothing was changed.
        Unavailable: somebody keeps saving.
    """
    with alone(folder):
        finish_journal(folder)
        for _ in range(PROJECT_RETRIES_MAX):
            before = read_texts(folder)
            after = make(before)
            changed = {
                name: (old, new)
                for name, old, new in zip(FILES, before, after, strict=True)
                if new is not None and new != old
            }
            if not changed:
                return before, before
            for name, (_, new) in changed.items():
                check_size(len(new.encode()), name)
            if any(read_text(folder, name) != old for name, (old, _) in changed.items()):
                continue
            _check_writable(folder, list(changed))
            _begin(folder, changed)
            finish_journal(folder)
            return before, after
    raise Unavailable("somebody keeps saving these files", "try again in a moment")


def _check_writable(folder: Path, names: list[str]) -> None:
    """See that what the journal will say can be done: from then on there is no way back."""
    for name in names:
        place = place_of_file(folder, name).parent
        if not os.access(place, os.W_OK | os.X_OK):
            raise cannot_write(place, PermissionError(13, "Permission denied"))


def _begin(folder: Path, changed: dict[str, tuple[str | None, str]]) -> None:
    """Write the journal, and with it all that follows."""
    files = {name: {"before": old, "after": new} for name, (old, new) in changed.items()}
    put(folder, own_folder(folder) / _JOURNAL, json.dumps({"files": files}))


def finish_journal(folder: Path) -> None:
    """Do what a journal says, if there is one; who calls this is alone.

    Raises:
        Broken: a file cannot be merged, because it cannot be read.
        Conflict: one cannot be merged; it was left as it is, and the rest is done.
    """
    files = _journal(folder)
    if not files:
        return
    clash: Conflict | None = None
    for name in FILES:
        if name in files:
            try:
                place(folder, name, *files[name])
            except Conflict as error:
                # Both sides are kept; the other files must not wait for somebody to choose.
                clash = error
    journal = folder / OWN_FOLDER / _JOURNAL
    with suppress(FileNotFoundError):
        journal.unlink()
    sync_folder(journal.parent)
    if clash is not None:
        raise clash


def _journal(folder: Path) -> dict[str, tuple[str | None, str]]:
    """What a journal says: each file, as it was and as it is to be."""
    try:
        found: Any = json.loads((folder / OWN_FOLDER / _JOURNAL).read_bytes())["files"]
        return {name: (found[name]["before"], found[name]["after"]) for name in found}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Broken(
            f"{OWN_FOLDER}/{_JOURNAL} cannot be read: {error}",
            "look at the four files, then remove it",
        ) from error
