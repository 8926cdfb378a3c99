"""The journal: several files change as one, whatever ends us in between.

All changes are first written to the journal; once that is whole, they are done. The next reader or
writer finds a journal that was left by a crash, and finishes it.

Rule: nothing that a person saved is lost. A file that is not as it was when the change was made is
merged with it; one that cannot be read is left alone, and so is the journal.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contextrelay.errors import Broken, Conflict, Invalid, Unavailable
from contextrelay.limits import PROJECT_JOURNAL_BYTES_MAX, PROJECT_RETRIES_MAX
from contextrelay.model.project import FILES, OWN_FOLDER, Texts
from contextrelay.project.files import confined
from contextrelay.project.files.decode import check_size
from contextrelay.project.files.folder import read_text, read_texts
from contextrelay.project.files.lock import alone, undisturbed
from contextrelay.project.files.replace import forget_old_drafts, place

_JOURNAL = f"{OWN_FOLDER}/journal.json"
Make = Callable[[Texts], Texts]


def read_all(folder: Path) -> Texts:
    """The files as they are, none of them older than another.

    Raises:
        Broken: one of them cannot be read.
    """
    with undisturbed(folder):
        if not confined.exists(folder, _JOURNAL):
            return read_texts(folder)
    try:
        with alone(folder):
            finish_journal(folder)
            return read_texts(folder)
    except Invalid:
        # The folder is read-only: the files are read as the journal will leave them.
        texts = read_texts(folder)
        for name, (before, after) in _journal(folder).items():
            if texts.of(name) == before:
                texts = texts.having(name, after)
        return texts


def change(folder: Path, make: Make) -> tuple[Texts, Texts]:
    """Change the files to what `make` returns for them; returns the texts before and after.

    `make` is called again where a person saved a file meanwhile.

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
            # From the journal on there is no way back: all of it must be possible.
            if not confined.is_writable(folder):
                raise confined.cannot_write(folder, PermissionError(13, "Permission denied"))
            files = {name: {"before": old, "after": new} for name, (old, new) in changed.items()}
            text = json.dumps({"files": files}, ensure_ascii=False).encode()
            check_size(len(text), _JOURNAL, PROJECT_JOURNAL_BYTES_MAX)
            confined.write(folder, _JOURNAL, text)
            finish_journal(folder)
            forget_old_drafts(folder)
            return before, after
    raise Unavailable("somebody keeps saving these files", "try again in a moment")


def finish_journal(folder: Path) -> None:
    """Make the changes of a journal, if there is one; the caller holds the lock.

    Raises:
        Broken: a file cannot be merged, because it cannot be read.
        Conflict: one cannot be merged; it was left as it is, and the rest is done.
    """
    left = _journal(folder)
    if not left:
        return
    clash: Conflict | None = None
    for name in FILES:
        if name in left:
            try:
                place(folder, name, *left[name])
            except Conflict as error:
                # Both sides are kept; the other files must not wait for somebody to choose.
                clash = error
    confined.remove(folder, _JOURNAL)
    confined.sync(folder, _JOURNAL)
    if clash is not None:
        raise clash


def _journal(folder: Path) -> dict[str, tuple[str | None, str]]:
    """For each file that a journal changes, its text before and after."""
    content = confined.read(folder, _JOURNAL, PROJECT_JOURNAL_BYTES_MAX)
    if content is None:
        return {}
    try:
        found: Any = json.loads(content)["files"]
        changes = {name: (found[name]["before"], found[name]["after"]) for name in found}
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _broken(str(error)) from error
    for name, (before, after) in changes.items():
        # It came with the folder, and may be anybody's.
        if name not in FILES or not isinstance(before, str | None) or not isinstance(after, str):
            raise _broken(f"{name[:100]!r} is no change of a file")
    return changes


def _broken(why: str) -> Broken:
    return Broken(f"{_JOURNAL} cannot be read: {why}", "look at the four files, then remove it")
