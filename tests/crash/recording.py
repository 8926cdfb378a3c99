"""Recordings: a real writer run under strace, and its calls as disk.py understands them.

This sees what SQLite itself writes and syncs, in the build that Python comes with, next to our own
files; a VFS of our own (as apsw offers) would see neither. What it cannot show:

- memory-mapped writes: only the wal-index (-shm) is mapped, and SQLite rebuilds that after a crash;
- sectors smaller than 512 bytes, writes that a disk acknowledges and loses in spite of a sync, and
  bits that rot: only the hashes help there, and they are tested in test_broken.py;
- what a particular file system keeps beyond the rules of disk.py: those are the strictest we know.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.crash import disk
from tests.crash.disk import Call
from tests.crash.report import Entry, decode

ROOT = Path(__file__).parents[2]

# All that changes files or says which file is meant. Whatever else could change one is here too,
# so that the parser can refuse it.
CALLS = (
    "open,openat,creat,close,dup,dup2,dup3,fcntl,lseek,write,pwrite64,writev,pwritev,pwritev2,"
    "truncate,ftruncate,fallocate,fsync,fdatasync,sync_file_range,rename,renameat,renameat2,"
    "unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,copy_file_range,sendfile"
)
RECORDING_S_MAX = 120


def record(arguments: list[str], recording: Path) -> None:
    """Run a Python module under strace, its calls written to a file."""
    command = ["strace", "-f", "-y", "-xx", "-s", "400000", "-o", str(recording)]
    subprocess.run(
        [*command, "-e", f"trace={CALLS}", sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=RECORDING_S_MAX,
    )


def calls_in(recording: Path) -> Iterator[Call | Entry]:
    """The calls of a recording that matter, and the entries in between, in order."""
    with recording.open() as lines:
        for line in lines:
            found = _parse(line)
            if found is not None:
                yield found


_LINE = re.compile(r"\d+ +(\w+)\((.*)\) += (-?\d+)(?:<.*>)?(?: .*)?$", re.DOTALL)
_FD = re.compile(r"(\d+)<[^>]*>(?:, )?")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_STDOUT = "1"


def _parse(line: str) -> Call | Entry | None:
    if "unfinished" in line or "resumed" in line:
        raise AssertionError("a recorded writer must have one thread and no children")
    match = _LINE.match(line)
    if match is None or match[3].startswith("-"):
        return None  # A signal, an exit, or a call that failed and changed nothing.
    name, arguments, result = match[1], match[2], int(match[3])
    if name == "write" and arguments.startswith(f"{_STDOUT}<"):
        text = _TEXT.search(arguments)
        assert text is not None
        assert text[2] is None
        return decode(_bytes(text[1]))
    if name not in _PARSERS:
        raise AssertionError(f"the model of a disk does not know {name}: {line[:200]}")
    return _PARSERS[name](arguments, result)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _texts(arguments: str) -> list[bytes]:
    found: list[bytes] = []
    for match in _TEXT.finditer(arguments):
        assert match[2] is None, "strace has cut a string; it needs a larger -s"
        found.append(_bytes(match[1]))
    return found


def _paths(arguments: str) -> list[str]:
    paths = [os.fsdecode(text) for text in _texts(arguments)]
    assert all(path.startswith("/") for path in paths), f"a path that is not absolute: {paths}"
    return paths


def _fd(arguments: str) -> int:
    match = _FD.match(arguments)
    return int(match[1]) if match else int(arguments.partition(",")[0].partition("<")[0])


def _last_number(arguments: str) -> int:
    return int(arguments.rpartition(", ")[2])


def _opened(arguments: str, result: int) -> Call | None:
    path = os.fsdecode(_texts(arguments)[0])
    if not path.startswith("/"):
        return disk.Closed(result)  # Not ours: we always open by absolute paths.
    assert "O_APPEND" not in arguments or "O_CREAT" not in arguments, arguments[-80:]
    return disk.Opened(result, path, makes="O_CREAT" in arguments, empties="O_TRUNC" in arguments)


def _wrote(arguments: str, result: int) -> Call:
    return disk.Wrote(_fd(arguments), _texts(arguments)[0][:result])


def _wrote_at(arguments: str, result: int) -> Call:
    content = _texts(arguments)[0][:result]
    return disk.Wrote(_fd(arguments), content, _last_number(arguments))


def _controlled(arguments: str, result: int) -> Call | None:
    return disk.Doubled(_fd(arguments), result) if "F_DUPFD" in arguments else None


def _allocated(arguments: str, result: int) -> Call:
    mode, offset, length = (int(number) for number in arguments.split(", ")[1:])
    assert mode == 0, "only plain fallocate is known"
    return disk.Resized(_fd(arguments), offset + length, is_growth=True)


_PARSERS: dict[str, Callable[[str, int], Call | None]] = {
    "open": _opened,
    "openat": _opened,
    "close": lambda arguments, _: disk.Closed(_fd(arguments)),
    "dup": lambda arguments, result: disk.Doubled(_fd(arguments), result),
    "dup2": lambda arguments, result: disk.Doubled(_fd(arguments), result),
    "dup3": lambda arguments, result: disk.Doubled(_fd(arguments), result),
    "fcntl": _controlled,
    "lseek": lambda arguments, result: disk.Moved(_fd(arguments), result),
    "write": _wrote,
    "pwrite64": _wrote_at,
    "ftruncate": lambda arguments, _: disk.Resized(_fd(arguments), _last_number(arguments)),
    "fallocate": _allocated,
    "fsync": lambda arguments, _: disk.Synced(_fd(arguments)),
    "fdatasync": lambda arguments, _: disk.Synced(_fd(arguments)),
    "rename": lambda arguments, _: disk.Renamed(*_paths(arguments)),
    "unlink": lambda arguments, _: disk.Removed(*_paths(arguments)),
    "mkdir": lambda arguments, _: disk.MadeFolder(*_paths(arguments)),
}
