"""File errors: what the file system complains of, as our errors with the next step.

Rule: no message names a file: it may travel further than this machine. `place` does (errors.py).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

from contextrelay.errors import Broken, Full, Invalid, RelayError, Unavailable


def _trouble(kind: type[RelayError], message: str, hint: str) -> Callable[..., RelayError]:
    """A maker of errors, from a file and what was complained of."""

    def made(path: Path | str, why: object) -> RelayError:
        return kind(f"{message}: {why}", hint, place=path)

    return made


no_room = _trouble(
    Full,
    "the store has no room to grow",
    "free some: relay artifact rm REF, then relay gc; reads still work",
)
read_only = _trouble(
    Full,
    "the store cannot be written",
    "reads still work; make the disk or folder writable, or set RELAY_HOME to another",
)
cannot_open = _trouble(
    Broken,
    "the store cannot be opened",
    "check that the folder exists and is yours, or set RELAY_HOME to another",
)
damaged = _trouble(
    Broken,
    "the store is damaged",
    "see what with: relay verify; go back to a backup with: relay restore FILE",
)
busy = _trouble(
    Unavailable,
    "the store is being written by another program",
    "try again; if it lasts, look for a stuck process with: relay doctor",
)


def locked() -> RelayError:
    return Unavailable(
        "a restore or migration into this store is not finished: until then it is neither read nor "
        "written",
        "run the same again (relay restore FILE, relay migrate FROM TO), or give it up: "
        "relay restore --abandon",
    )


def cannot_write(path: Path | str, error: OSError | ValueError) -> RelayError:
    """The trouble with a file that somebody wanted written outside the store."""
    if isinstance(error, OSError) and _BY_ERRNO.get(error.errno or 0) is no_room:
        return Full(f"{str(path)!r} cannot be written: {error}", "free some room there")
    return Invalid(f"{str(path)!r} cannot be written: {error}", "name a file in a folder of yours")


def cannot_spool(error: OSError) -> RelayError:
    """The trouble with the temporary folder."""
    if _BY_ERRNO.get(error.errno or 0) is no_room:
        return Full(
            "the temporary folder has no room left",
            "give it more, or name another in TMPDIR; what is stored can still be read",
        )
    return Unavailable(
        f"the temporary folder cannot be used: {error.strerror or type(error).__name__}",
        "see to it; try again",
    )


def from_os(error: OSError, path: Path | str) -> RelayError:
    """The trouble behind an OSError."""
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
