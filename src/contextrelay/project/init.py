"""The files of a new project; those that are there are kept, or copied before overwriting."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from contextrelay.errors import Broken, Invalid, TooLarge
from contextrelay.model.project import FILES, Texts
from contextrelay.project.files import backups, confined
from contextrelay.project.files.folder import read_text
from contextrelay.project.files.templates import new_files
from contextrelay.project.project import Project


class Made(NamedTuple):
    """What `init` did."""

    folder: str
    made: list[str]
    kept: list[str]
    backup: str
    """Where copies of overwritten files are; "" where none was."""


def make_project(
    project: Project, name: str = "", description: str = "", is_forced: bool = False
) -> Made:
    """Make the files that are not there; with `is_forced` all of them, after a copy.

    Raises:
        Invalid: they cannot be written there.
    """
    folder = project.folder
    if not confined.is_folder(folder):
        raise Invalid(f"{folder} is no folder", "make it first")
    if "\n" in name or "\n" in description:
        raise Invalid("a name and a description are one line each", "leave the rest to PROJECT.md")
    there = [each for each in FILES if confined.exists(folder, each)]
    backup: Path | None = None
    if is_forced and there:
        backup = backups.back_up(folder, there, project.now())
        for each in there:
            # What cannot be read as text is removed, now that there is a copy of it.
            try:
                read_text(folder, each)
            except (Broken, TooLarge):
                confined.remove(folder, each)
    new = new_files(name or folder.name, project.now(), description)

    def make(texts: Texts) -> Texts:
        for each, text in new.named().items():
            if is_forced or texts.of(each) is None:
                texts = texts.having(each, text)
        return texts

    project.change(make)
    made = [each for each in FILES if is_forced or each not in there]
    kept = [] if is_forced else there
    return Made(str(folder), made, kept, str(backup) if backup else "")
