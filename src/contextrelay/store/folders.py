"""Folders: files that are whole or absent, under names as durable as their content."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make what was created, renamed or deleted in a folder survive a power loss."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, durably, for its owner alone; an existing one is fine."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


def write_whole(path: Path, chunks: Iterable[bytes]) -> int:
    """Write a file so that it is either whole or as it was before; its size in bytes.

    A link at `path` is replaced, not followed.
    """
    draft = path.with_name(f".{path.name[:100]}.{os.urandom(4).hex()}.part")
    size_bytes = 0
    try:
        with draft.open("xb") as file:
            for chunk in chunks:
                size_bytes += file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return size_bytes
