"""The folder of a project: found from any folder below it, and its files read as they are.

Rule: a file is read whole, within its limit, and only if it is a plain file inside the project: a
link that leads out of it could show a model what is none of its business.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from contextrelay.errors import Broken, Invalid, NotFound, Refused
from contextrelay.limits import CHUNK_BYTES, PROJECT_LEVELS_MAX
from contextrelay.logic.project.files.decode import check_size, decoded
from contextrelay.model.project import FILES, OWN_FOLDER, Texts

VARIABLE = "RELAY_PROJECT"


def find_folder(start: str | os.PathLike[str] | None = None) -> Path:
    """The project that a folder is in: as given, else RELAY_PROJECT, else from here upwards.

    Raises:
        NotFound: there is none.
        Invalid: the given one is no folder.
    """
    named = os.fspath(start) if start is not None else os.environ.get(VARIABLE, "")
    if named:
        folder = Path(named).expanduser().absolute()
        if not folder.is_dir():
            raise Invalid(f"{named} is no folder", "name the folder of a project")
        if is_project(folder):
            return folder
    here = Path(named).expanduser().absolute() if named else Path.cwd()
    for folder in (here, *here.parents)[:PROJECT_LEVELS_MAX]:
        if is_project(folder):
            return folder
    raise NotFound(
        f"no project in {here}, nor in any folder above it", "make one here: relay project init"
    )


def is_project(folder: Path) -> bool:
    """Whether a folder holds project files: two of the four, or our own folder and one."""
    present = sum(os.path.lexists(folder / name) for name in FILES)
    return present >= 2 or (present == 1 and (folder / OWN_FOLDER).is_dir())


def read_texts(folder: Path) -> Texts:
    """The four files as they are.

    Raises:
        Broken: one is no text, or cannot be read; TooLarge: one is over the limit.
        Refused: one is a link that leads out of the project, or no plain file.
    """
    return Texts(*[read_text(folder, name) for name in FILES])


def read_text(folder: Path, name: str) -> str | None:
    """One of the files as it is, or None where there is none."""
    content = read_content(folder, name)
    return None if content is None else decoded(content, name)


def read_content(folder: Path, name: str) -> bytes | None:
    """The bytes of a file, or None where there is none."""
    path = place_of_file(folder, name)
    try:
        # Not blocking: a pipe in the place of a file must not stop us.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(name, error) from error
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"{name} is no plain file", "move it away; relay project init makes one")
        check_size(found.st_size, name)
        return _content(handle, name)
    except OSError as error:
        raise _unreadable(name, error) from error
    finally:
        os.close(handle)


def _content(handle: int, name: str) -> bytes:
    """All of a file, however much it grows meanwhile, up to the limit."""
    pieces: list[bytes] = []
    size_bytes = 0
    while piece := os.read(handle, CHUNK_BYTES):
        pieces.append(piece)
        size_bytes += len(piece)
        check_size(size_bytes, name)
    return b"".join(pieces)


def place_of_file(folder: Path, name: str) -> Path:
    """Where a file really is; a link is followed inside the project.

    Raises:
        Refused: it leads out of the project.
    """
    path = folder / name
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if not target.is_relative_to(os.path.realpath(folder)):
        raise Refused(
            f"{name} is a link that leads out of the project",
            "put the file itself there, or name the project it belongs to with --project",
        )
    return target


def _unreadable(name: str, error: OSError) -> Broken:
    return Broken(
        f"{name} cannot be read: {error.strerror}", "check its permissions", {"file": name}
    )
