"""The folder of a project: found from any folder below it, and its files read as they are.

Rule: a file is read whole, within its limit, and only if it is a plain file of the project itself:
a link could show a model files of the user's (confined.py).
"""

from __future__ import annotations

import os
from pathlib import Path

from contextrelay.errors import Invalid, NotFound
from contextrelay.limits import PROJECT_LEVELS_MAX
from contextrelay.model.project import FILES, OWN_FOLDER, Texts
from contextrelay.project.files import confined
from contextrelay.project.files.decode import decoded

VARIABLE = "RELAY_PROJECT"


def find_folder(start: str | os.PathLike[str] | None = None) -> Path:
    """The project that a folder is in: as given, else RELAY_PROJECT, else from here upwards.

    Raises:
        NotFound: there is none.
        Invalid: the given one is no folder.
    """
    named = os.fspath(start) if start is not None else os.environ.get(VARIABLE, "")
    here = Path(named).expanduser().absolute() if named else Path.cwd()
    if named and not confined.is_folder(here):
        raise Invalid(f"{named} is no folder", "name the folder of a project")
    for folder in (here, *here.parents)[:PROJECT_LEVELS_MAX]:
        if is_project(folder):
            return folder
    raise NotFound(
        f"no project in {here}, nor in any folder above it", "make one here: relay project init"
    )


def is_project(folder: Path) -> bool:
    """Whether a folder holds project files: two of the four, or our own folder and one."""
    present = confined.count_present(folder, FILES)
    return present >= 2 or (present == 1 and confined.count_present(folder, (OWN_FOLDER,)) == 1)


def read_texts(folder: Path) -> Texts:
    """The four files as they are.

    Raises:
        Broken: one is no text, or cannot be read; TooLarge: one is over the limit.
        Refused: one is a link, or no plain file.
    """
    return Texts(*[read_text(folder, name) for name in FILES])


def read_text(folder: Path, name: str) -> str | None:
    """One of the files as it is, or None where there is none."""
    content = confined.read(folder, name)
    return None if content is None else decoded(content, name)
