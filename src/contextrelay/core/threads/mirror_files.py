"""The files of a thread's mirror: their paths, reading them, and removing them.

Rule: links are not followed, and only files that a mirror wrote are deleted.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

from msgspec.json import encode, format

from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import state_at
from contextrelay.documents.values import read_json
from contextrelay.errors import Invalid, RelayError
from contextrelay.limits import STATE_BYTES_MAX, UNFINISHED_PUSH_S
from contextrelay.model.ref import is_ref

# A state is written with indentation, which makes the file larger.
FILE_BYTES_MAX = 4 * STATE_BYTES_MAX
REF_CHARS = 36
_DRAFT = re.compile(r"\..+\.[0-9a-f]{8}\.part")
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def mirror_folder(stores: Stores, thread: str) -> Path:
    home = stores.engine.home
    if home is None:
        raise Invalid("only a store in a folder has files", "use --store FOLDER")
    folder = home / "threads" / thread
    for each in (folder.parent, folder, folder / "artifacts"):
        if each.is_symlink():
            raise Invalid(f"{each} is a symbolic link", "remove the link")
    return folder


def spelled_state(stores: Stores, thread: str, version: int) -> bytes:
    return format(encode(state_at(stores, thread, version).document), indent=2) + b"\n"


def put_edit_aside(stores: Stores, thread: str) -> None:
    """Rename an edited state.json by its hash, so that it is not overwritten."""
    path = mirror_folder(stores, thread) / "state.json"
    if not path.is_file() or path.is_symlink():
        return
    text = read_plain(path)
    try:
        version = read_json(text, str(path), FILE_BYTES_MAX)["version"]
        is_ours = text == spelled_state(stores, thread, version)
    except (RelayError, LookupError, TypeError, ValueError):
        is_ours = False
    if not is_ours:
        path.rename(path.with_name(f"state.{hashlib.sha256(text).hexdigest()[:8]}.edited.json"))


def read_plain(path: Path) -> bytes:
    """Return the content of a regular file of limited size.

    Links are not followed, and a pipe does not block.
    """
    handle = os.open(path, os.O_RDONLY | _NO_FOLLOW)
    with open(handle, "rb") as file:
        seen = os.fstat(handle)
        if not S_ISREG(seen.st_mode):
            raise Invalid(f"{path} is not a regular file", "write it again: relay thread files")
        if seen.st_size > FILE_BYTES_MAX:
            raise Invalid(f"{path} is too large", f"at most {FILE_BYTES_MAX} bytes")
        return file.read(FILE_BYTES_MAX + 1)


def tidy(folder: Path, now_ms: int) -> list[os.DirEntry[str]]:
    """Delete temporary files of killed writers; return the files and links in a folder."""
    with os.scandir(folder) as entries:
        files = [entry for entry in entries if not entry.is_dir(follow_symlinks=False)]
    for entry in files:
        with suppress(FileNotFoundError):
            written_ms = entry.stat(follow_symlinks=False).st_mtime * 1000
            if _DRAFT.fullmatch(entry.name) and written_ms < now_ms - UNFINISHED_PUSH_S * 1000:
                os.unlink(entry.path)
    return files


def sha256_of(path: Path) -> str | None:
    """Return the hash of a regular file, or None if the path has to be replaced."""
    try:
        with open(os.open(path, os.O_RDONLY | _NO_FOLLOW), "rb") as file:
            if not S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def keep_edit(stores: Stores, thread: str) -> None:
    """Rename an edited state.json, if there is one, before the thread is removed."""
    with suppress(RelayError, OSError):
        if stores.engine.home is not None:
            put_edit_aside(stores, thread)


def remove_mirror(stores: Stores, thread: str) -> None:
    """Delete the files of a mirror, and its folder if that is then empty."""
    if stores.engine.home is None:
        return
    with suppress(RelayError, OSError):  # The thread is removed even if this fails.
        folder = mirror_folder(stores, thread)
        if not folder.is_dir():
            return
        for path in (folder / "state.json", folder / "events.log"):
            path.unlink(missing_ok=True)
        for place in (folder / "artifacts", folder):
            with suppress(OSError):
                for entry in tidy(place, stores.now_ms()):
                    if is_ref(entry.name[:REF_CHARS]):
                        os.unlink(entry.path)
                place.rmdir()
