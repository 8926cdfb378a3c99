"""File errors: convert errors of the file system to Context Relay errors, with the next step.

Rule: no message names a file, because it may be sent to other machines. Only `place` does
(errors.py).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

from contextrelay.errors import Broken, Full, Invalid, RelayError, Unavailable


def _error_factory(kind: type[RelayError], message: str, hint: str) -> Callable[..., RelayError]:
    """Return a function that creates an error from a path and its cause."""

    def made(path: Path | str, why: object) -> RelayError:
        return kind(f"{message}: {why}", hint, place=path)

    return made


no_room = _error_factory(
    Full,
    "the store is full: its disk has no free space",
    "free some space: relay artifact rm REF, then relay gc; reads still work",
)
read_only = _error_factory(
    Full,
    "the store cannot be written",
    "reads still work; make the disk or folder writable, or set RELAY_HOME to another",
)
cannot_open = _error_factory(
    Broken,
    "the store cannot be opened",
    "check that the folder exists and is yours, or set RELAY_HOME to another",
)
damaged = _error_factory(
    Broken,
    "the store is damaged",
    "check it: relay verify; or restore a backup: relay restore FILE",
)
busy = _error_factory(
    Unavailable,
    "the store is locked by another program",
    "try again; if it persists, look for a stuck process: relay doctor",
)


def locked() -> RelayError:
    return Unavailable(
        "a restore or migration into this store is not finished: no reads or writes are allowed "
        "until then",
        "run the same command again (relay restore FILE, relay migrate FROM TO), or discard it: "
        "relay restore --abandon",
    )


def cannot_write(path: Path | str, error: OSError | ValueError) -> RelayError:
    """Return the error for a file outside the store that cannot be written."""
    if isinstance(error, OSError) and _BY_ERRNO.get(error.errno or 0) is no_room:
        return Full(f"{str(path)!r} cannot be written: {error}", "free some space there")
    return Invalid(f"{str(path)!r} cannot be written: {error}", "pass a file in a folder of yours")


def cannot_spool(error: OSError) -> RelayError:
    """Return the error for a problem with the temporary folder."""
    if _BY_ERRNO.get(error.errno or 0) is no_room:
        return Full(
            "the temporary folder is full",
            "free some space, or set TMPDIR to another folder; the store can still be read",
        )
    return Unavailable(
        f"cannot use the temporary folder: {error.strerror or type(error).__name__}",
        "check the folder, then try again",
    )


def from_os(error: OSError, path: Path | str) -> RelayError:
    """Return the Context Relay error for an OSError."""
    return _BY_ERRNO.get(error.errno or 0, cannot_open)(
        path, error.strerror or type(error).__name__
    )


_BY_ERRNO = {
    errno.ENOSPC: no_room,
    errno.EDQUOT: no_room,
    errno.EFBIG: no_room,
    errno.EROFS: read_only,
    errno.EACCES: read_only,
    errno.EPERM: read_only,
}
