"""A small disk: a file system of its own, in memory, which is soon full."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.parts import has_command, needs


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Generator[Path]:
    """Mount one; the test is skipped where that is not allowed, because we are not root."""
    needs("mount", has_command("mount"))
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "relay-test", str(folder)]
    needs("mount", subprocess.run(command, capture_output=True).returncode == 0)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_with_junk(disk: Path) -> None:
    """Another program takes what is left."""
    with (disk / "junk").open("wb", buffering=0) as file:
        for size_bytes in (65_536, 4_096):
            try:
                while file.write(b"x" * size_bytes) == size_bytes:
                    pass
            except OSError:
                continue


def make_read_only(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
