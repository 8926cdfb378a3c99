"""The user's cache folder: what is made once and serves every project, in no project's folder.

Rule: whoever removes it loses nothing but time.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_SECRET, _SECRET_BYTES = "briefs.key", 32


def cache_path(name: str) -> Path:
    """Where a file of the cache is."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "contextrelay" / name


def secret() -> bytes | None:
    """Random bytes that only this user has, made when first asked for; None where none are kept.

    What is written into a project is signed by them, and so told from what came with it.
    """
    found = _read()
    if found is None:
        with suppress(OSError, RuntimeError):
            path = cache_path(_SECRET)
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f"{_SECRET}.{os.urandom(8).hex()}")
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(handle, os.urandom(_SECRET_BYTES))
            finally:
                os.close(handle)
            draft.replace(path)
        found = _read()
    return found


def _read() -> bytes | None:
    with suppress(OSError, RuntimeError):
        handle = os.open(cache_path(_SECRET), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            found = os.read(handle, _SECRET_BYTES + 1)
        finally:
            os.close(handle)
        return found if len(found) == _SECRET_BYTES else None
    return None
