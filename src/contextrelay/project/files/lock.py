"""Locks of a project: one writer at a time, readers wait for it; nobody starves.

Rule: a lock ends with the process that holds it, so none is ever stale. A writer waits at a gate
until it may write, and one that has just written queues behind it.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from contextrelay.errors import Broken, Unavailable
from contextrelay.limits import PROJECT_LOCK_S_MAX
from contextrelay.model.project import OWN_FOLDER
from contextrelay.project.files import confined

try:
    import fcntl
except ImportError:  # Windows: nobody waits there.
    fcntl = None

_POLL_S = 0.002


def make_own_folder(folder: Path) -> None:
    """Make our folder next to the files, if it is not there, and let git ignore it.

    Raises:
        Invalid: it cannot be made.
        Refused: it is a link.
    """
    try:
        confined.make_folder(folder, OWN_FOLDER)
        if not confined.exists(folder, f"{OWN_FOLDER}/.gitignore"):
            with suppress(FileExistsError):
                confined.create(folder, f"{OWN_FOLDER}/.gitignore", b"*\n", is_durable=False)
    except OSError as error:
        raise confined.cannot_write(folder, error) from error


@contextmanager
def alone(folder: Path, name: str = "lock", wait_s: float = PROJECT_LOCK_S_MAX) -> Generator[None]:
    """Be the only writer for a while.

    Raises:
        Unavailable: another one does not end.
    """
    make_own_folder(folder)
    with _opened(folder, f"{name}.gate") as gate:
        _take(gate, exclusive=True, wait_s=wait_s)
        with _opened(folder, name) as work:
            _take(work, exclusive=True, wait_s=wait_s)
            # Others may queue at the gate now: the one that waits longest is next.
            if fcntl is not None:
                fcntl.flock(gate, fcntl.LOCK_UN)
            yield


@contextmanager
def undisturbed(folder: Path) -> Generator[None]:
    """Read while nobody writes; where there is no lock, nobody has ever written.

    Raises:
        Refused: the lock, or the folder that it is in, is a link.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            lock = confined.lock_file(folder, f"{OWN_FOLDER}/lock", is_made=False)
            _take(stack.enter_context(lock), exclusive=False)
        yield


@contextmanager
def _opened(folder: Path, name: str) -> Generator[int]:
    with ExitStack() as stack:
        try:
            lock = confined.lock_file(folder, f"{OWN_FOLDER}/{name}", is_made=True)
            handle = stack.enter_context(lock)
        except OSError as error:
            raise confined.cannot_write(folder / OWN_FOLDER / name, error) from error
        yield handle


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
