"""Turns at a project: who writes is alone, who reads waits for that; nobody starves.

Rule: a lock ends with the process that holds it, so none is ever stale. A writer waits at a gate
until it may work, and whoever has just worked queues behind it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from contextrelay.errors import Broken, Invalid, Refused, Unavailable
from contextrelay.limits import PROJECT_LOCK_S_MAX
from contextrelay.model.project import OWN_FOLDER

try:
    import fcntl
except ImportError:  # Windows: nobody waits there.
    fcntl = None

_POLL_S = 0.002


def own_folder(folder: Path) -> Path:
    """The folder beside the files, made if it is not there, and ignored by git.

    Raises:
        Invalid: it cannot be made.
        Refused: it is a link.
    """
    own = folder / OWN_FOLDER
    if own.is_symlink():
        raise Refused(f"{OWN_FOLDER} is a link", "remove it; it is made anew")
    try:
        if not own.is_dir():
            own.mkdir(exist_ok=True)
        ignored = own / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n")
    except OSError as error:
        raise cannot_write(folder, error) from error
    return own


def cannot_write(path: Path, error: OSError) -> Invalid:
    return Invalid(
        f"{path} cannot be written: {error.strerror}",
        "nothing was changed; make the folder writable, or work on a copy of it",
    )


@contextmanager
def alone(folder: Path, name: str = "lock", wait_s: float = PROJECT_LOCK_S_MAX) -> Generator[None]:
    """Be the only writer for a while.

    Raises:
        Unavailable: another one does not end.
    """
    own = own_folder(folder)
    with _opened(own / f"{name}.gate") as gate:
        _take(gate, exclusive=True, wait_s=wait_s)
        with _opened(own / name) as work:
            _take(work, exclusive=True, wait_s=wait_s)
            # Others may queue now: whoever waits longest is next.
            if fcntl is not None:
                fcntl.flock(gate, fcntl.LOCK_UN)
            yield


@contextmanager
def undisturbed(folder: Path) -> Generator[None]:
    """Read while nobody writes; where there is no lock, nobody has ever written."""
    lock = folder / OWN_FOLDER / "lock"
    try:
        handle = os.open(lock, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        _take(handle, exclusive=False)
        yield
    finally:
        os.close(handle)


@contextmanager
def _opened(path: Path) -> Generator[int]:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        yield handle
    finally:
        os.close(handle)


def _take(handle: int, exclusive: bool, wait_s: float = PROJECT_LOCK_S_MAX) -> None:
    if fcntl is None:
        return
    how = (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(handle, how)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"another program is at work in this project, and was not done in {wait_s:g} s",
                    "wait for it, or see what it is and end it; then try again",
                ) from None
            time.sleep(_POLL_S)
        except OSError as error:
            raise Broken(
                f"this file system has no locks: {error.strerror}", "keep the project elsewhere"
            ) from error
