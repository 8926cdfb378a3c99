"""The git-tracked files of a folder, for a model to list and read.

Rule: nothing outside of what git tracks in the folder is read, and no link is followed, not even
one that took the place of a folder since. What git runs by a repository's own settings is off.
"""

from __future__ import annotations

import os
import stat
import subprocess
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from contextrelay.errors import Failed, Invalid, NotFound, TooLarge
from contextrelay.limits import (
    RUN_FILE_BYTES_MAX,
    RUN_FILES_BYTES_MAX,
    RUN_FILES_S_MAX,
)

_REGULAR = (b"100644", b"100755")
_GIT = (
    "git",
    "-c",
    "safe.bareRepository=explicit",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
)
# A repository whose objects are elsewhere names what brings them, and that may be any command.
_NO_TRANSPORT = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}


class TrackedFiles:
    """What git tracks in and below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: list[str] | None = None

    def paths(self) -> list[str]:
        """Every tracked file that is no link, relative to the folder, in order.

        Raises:
            Failed: git is not there, refuses, or takes too long.
            TooLarge: there are too many.
        """
        if self._paths is None:
            lines = _listed(self._folder).split(b"\0")
            entries = (line.partition(b"\t") for line in lines if line)
            tracked = (
                os.fsdecode(path) for about, _, path in entries if about.split()[0] in _REGULAR
            )
            self._paths = sorted(filter(_is_below, tracked))
        return self._paths

    def matching(self, pattern: str) -> list[str]:
        """Those that a pattern such as `src/*.py` matches; `*` stands for slashes too."""
        every = self.paths()
        return [path for path in every if fnmatchcase(path, pattern)] if pattern else every

    def read(self, path: str) -> bytes:
        """The content of a tracked file.

        Raises:
            NotFound: git does not track it here.
            Invalid: it is no regular file now.
            TooLarge: it is too large to be shown.
        """
        if path not in self.paths():
            raise NotFound(f"git tracks no file {path!r} here", "list them with relay_files")
        try:
            with open(_opened(self._folder, path), "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise Invalid(f"{path!r} is no regular file", "read another one")
                content = file.read(RUN_FILE_BYTES_MAX + 1)
        except OSError as error:
            raise Invalid(f"{path!r} cannot be read: {error.strerror}", "read another") from error
        if len(content) > RUN_FILE_BYTES_MAX:
            raise TooLarge(f"{path!r} is too large", f"at most {RUN_FILE_BYTES_MAX:,} bytes")
        return content


def is_tracked_folder(folder: Path) -> bool:
    """Whether a folder is in the work tree of a repository, by the look of it."""
    return any((each / ".git").exists() for each in (folder, *folder.parents))


def _listed(folder: Path) -> bytes:
    """What `git ls-files` says of a folder; bounded, and not for long."""
    command = [*_GIT, "-C", str(folder), "ls-files", "-z", "--stage", "--", "."]
    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_NO_TRANSPORT},
        ) as git:
            try:
                found, _ = git.communicate(timeout=RUN_FILES_S_MAX)
            finally:
                with suppress(OSError):
                    git.kill()
    except FileNotFoundError as error:
        raise Failed("git is not installed, so no files are listed", "install git") from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"git took over {RUN_FILES_S_MAX} s to list files", "try again") from error
    if git.returncode:
        raise Failed("git lists no files here", "run it in the work tree of a repository")
    if len(found) > RUN_FILES_BYTES_MAX:
        raise TooLarge(
            f"git tracks {len(found):,} bytes of names here",
            f"at most {RUN_FILES_BYTES_MAX:,}: run relay in a folder with fewer files",
        )
    return found


def _is_below(path: str) -> bool:
    """Whether a path leads to a file below the folder, and not to git's own: git adds no other,
    but who made the index of a repository may have written anything into it."""
    return not any(part.lower() in ("", ".", "..", ".git") for part in path.split("/"))


def _opened(folder: Path, path: str) -> int:
    """A descriptor of a file below a folder, reached without following any link."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    place = os.open(folder, flags & ~os.O_NOFOLLOW | os.O_DIRECTORY)
    *folders, name = path.split("/")
    try:
        for each in folders:
            inner = os.open(each, flags | os.O_DIRECTORY, dir_fd=place)
            os.close(place)
            place = inner
        # A pipe must not hold us up: whether it is a file is looked at next.
        return os.open(name, flags | os.O_NONBLOCK, dir_fd=place)
    finally:
        os.close(place)
