"""Files of others: found in what is installed, or printed by tools that are.

Rule: which files are taken is drawn by lot, by a seed, from all that there are; nobody chooses. The
two sets `dev` and `held` have no file in common: outlines are improved on one, judged by the other.
"""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

Which = Literal["dev", "held"]
# Smaller ones a reader would simply load.
SIZE_BYTES_MIN, SIZE_BYTES_MAX = 6_000, 600_000
WAIT_S = 120
# How many files of a kind are in a set.
COUNTS = {"json": 12, "code": 18, "markdown": 12, "csv": 8, "log": 8, "diff": 10, "html": 8}
CODE = (".py", ".js", ".ts", ".h", ".c", ".go", ".rs", ".java")


# Files of the standard library that have much in common.
ALIKE = (
    ("ntpath.py", "posixpath.py"),
    ("asyncio/proactor_events.py", "asyncio/selector_events.py"),
    ("asyncio/unix_events.py", "asyncio/windows_events.py"),
    ("concurrent/futures/process.py", "concurrent/futures/thread.py"),
    ("multiprocessing/popen_fork.py", "multiprocessing/popen_spawn_posix.py"),
    ("http/client.py", "http/server.py"),
    ("email/message.py", "email/headerregistry.py"),
    ("gzip.py", "lzma.py"),
)


class File(Struct, frozen=True):
    """A file with the kind that it is."""

    kind: str
    name: str
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def collect(which: Which, folder: Path) -> list[File]:
    """The files of a set; what is printed by tools is kept in the folder."""
    _print_all(folder)
    chosen: list[File] = []
    for kind, count in COUNTS.items():
        pool = sorted(_candidates(kind, folder), key=str)
        random.Random(f"{kind} 7").shuffle(pool)
        halves = pool[0::2] if which == "dev" else pool[1::2]
        chosen += list(_readable(kind, halves, count))
    return chosen


def _readable(kind: str, paths: list[Path], count: int) -> Iterator[File]:
    seen: set[bytes] = set()
    for path in paths:
        if len(seen) == count:
            return
        try:
            body = path.read_bytes()
            body.decode()
        except (OSError, UnicodeDecodeError):
            continue
        if SIZE_BYTES_MIN <= len(body) <= SIZE_BYTES_MAX and body not in seen:
            seen.add(body)
            yield File(kind, path.name, body)


def _candidates(kind: str, folder: Path) -> Iterator[Path]:
    """All the files there are of a kind, few of each package."""
    if kind in ("log", "diff"):
        yield from (folder / kind).iterdir()
        if kind == "log":
            yield from _here(Path("/var/log").rglob("*.log"))
        return
    packages = Path(sysconfig.get_path("purelib"))
    library = Path(sysconfig.get_path("stdlib"))
    includes = Path(sysconfig.get_path("include"))
    if kind == "csv":
        yield from packages.glob("*.dist-info/RECORD")
        yield from (folder / kind).iterdir()
        yield from _here(packages.rglob("*.csv"))
        yield from _here(packages.rglob("*.tsv"))
    elif kind == "code":
        yield from library.glob("*.py")
        yield from includes.glob("*.h")
        for suffix in CODE:
            yield from _some_of_each(packages, suffix)
    else:
        suffix = {"json": ".json", "markdown": ".md", "html": ".html"}[kind]
        yield from _some_of_each(packages, suffix)
        if (folder / kind).is_dir():
            yield from (folder / kind).iterdir()


def _here(paths: Iterator[Path]) -> Iterator[Path]:
    return (path for path in paths if path.is_file())


def _some_of_each(root: Path, suffix: str) -> Iterator[Path]:
    """At most a dozen of each folder below the first, so that no package is all there is."""
    counts: dict[Path, int] = {}
    for path in sorted(root.rglob(f"*{suffix}")):
        if "contextrelay" in path.parts:
            continue
        counts[path.parent] = counts.get(path.parent, 0) + 1
        if counts[path.parent] <= 12 and path.is_file():
            yield path


# What tools print


def _print_all(folder: Path) -> None:
    for kind in ("log", "diff", "csv", "html", "json"):
        (folder / kind).mkdir(exist_ok=True)
    _print_logs(folder / "log")
    _print_diffs(folder / "diff")
    _print_pages(folder / "html")
    _print_tables(folder / "csv")
    _run(folder / "json" / "inspect.json", sys.executable, "-m", "pip", "inspect", "--local")


def _run(path: Path, *words: str, also_errors: bool = False, **more: str) -> None:
    """Keep what a command prints."""
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if also_errors else subprocess.DEVNULL,
        timeout=WAIT_S,
        check=False,
        cwd=more.get("cwd"),
    )
    path.write_bytes(done.stdout)


def _print_logs(folder: Path) -> None:
    python = sys.executable
    for module in ("json", "email.mime.text", "http.server", "sqlite3", "xml.dom.minidom"):
        words = (python, "-v", "-c", f"import {module}")
        _run(folder / f"imports-{module}.log", *words, also_errors=True)
    for module in ("asyncio", "unittest.mock"):
        words = (python, "-X", "importtime", "-c", f"import {module}")
        _run(folder / f"times-{module}.log", *words, also_errors=True)
    for asked in ("list", "check", "show pip", "debug", "install --no-index no-such-thing-here"):
        log = str(folder / f"pip-{asked.split()[0]}.log")
        subprocess.run(
            [python, "-m", "pip", "-vvv", "--log", log, *asked.split()],
            capture_output=True,
            timeout=WAIT_S,
            check=False,
        )
    _run(folder / "compile.log", python, "-m", "compileall", "-f", str(folder), also_errors=True)
    for name in ("test_textwrap", "test_shlex", "test_bisect"):
        words = (python, "-m", "unittest", "-v", f"test.{name}")
        _run(folder / f"unittest-{name}.log", *words, also_errors=True)
    _print_served(folder / "served.log")


def _print_served(path: Path) -> None:
    """What the standard library's web server logs, about pages that are there and others."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [sys.executable, "-u", "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    with path.open("wb") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log, cwd=path.parent)
        try:
            deadline = time.monotonic() + 20
            lot = random.Random(5)
            for index in range(150):
                page = lot.choice(["", "served.log", "missing", "old/page", "favicon.ico"])
                _ask(f"http://127.0.0.1:{port}/{page}?n={index}", deadline)
        finally:
            server.terminate()
            server.wait()


def _ask(url: str, deadline: float) -> None:
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=5).read()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
            continue
        return


def _print_diffs(folder: Path) -> None:
    """What differs between packages that others carry along and those that are installed, and
    between files of the standard library that do the same on two systems."""
    packages = Path(sysconfig.get_path("purelib"))
    library = Path(sysconfig.get_path("stdlib"))
    git = shutil.which("git")
    if git is None:
        return
    for one, other in ALIKE:
        words = (git, "diff", "--no-index", "--no-color", str(library / one), str(library / other))
        _run(folder / f"{Path(one).stem}-{Path(other).stem}.diff", *words)
    vendors = [packages / name / "_vendor" for name in ("pip", "setuptools")]
    for old in sorted(each for folder in vendors if folder.is_dir() for each in folder.iterdir()):
        new = packages / old.name
        if old.is_dir() and new.is_dir():
            words = (git, "diff", "--no-index", "--no-color", str(old), str(new))
            _run(folder / f"{old.name}.diff", *words)
            for file in sorted(old.rglob("*.py"))[:8]:
                newer = new / file.relative_to(old)
                if newer.is_file():
                    words = (git, "diff", "--no-index", "--no-color", str(file), str(newer))
                    _run(folder / f"{old.name}-{file.stem}.diff", *words)


def _print_pages(folder: Path) -> None:
    modules = ("json", "textwrap", "shlex", "csv", "heapq", "string", "statistics", "fractions")
    for module in modules:
        words = (sys.executable, "-m", "pydoc", "-w", module)
        _run(folder / f"{module}.out", *words, cwd=str(folder))
    for path in folder.glob("*.out"):
        path.unlink()


def _print_tables(folder: Path) -> None:
    """Tables that tools write: profiles of a run, and the sizes of a library's files."""
    library = Path(sysconfig.get_path("stdlib"))
    rows = ["name,size,lines,modified"]
    for path in sorted(library.glob("*.py")):
        found = path.stat()
        lines = path.read_bytes().count(b"\n")
        rows.append(f"{path.name},{found.st_size},{lines},{int(found.st_mtime)}")
    (folder / "library.csv").write_text("\n".join(rows))
    words = "import csv,sys,unicodedata as u;w=csv.writer(sys.stdout,delimiter=chr(9));"
    words += "w.writerow(['code','name','category','width','combining']);"
    words += "[w.writerow([i,u.name(chr(i),''),u.category(chr(i)),u.east_asian_width(chr(i)),"
    words += "u.combining(chr(i))]) for i in range(32,3000)]"
    _run(folder / "characters.tsv", sys.executable, "-c", words)
