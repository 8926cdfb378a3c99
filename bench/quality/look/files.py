"""Files of others: found on this machine, in ../shared/data/look-dev, and in a folder of your own.

Rule: which files are taken is drawn by lot, by a seed, from all that there are; nobody chooses. The
sets `seen` and `held` have no file in common, nor the same folder: outlines are improved on one and
judged by the other. What is in look-dev belongs to `seen`. BENCH_LOOK names folders with more.
"""

from __future__ import annotations

import os
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

Which = Literal["seen", "held"]
DEV = Path(__file__).parents[4] / "shared" / "data" / "look-dev"
# Smaller ones a reader would simply load.
SIZE_BYTES_MIN, SIZE_BYTES_MAX = 4_000, 1_000_000
FILES_EACH = 14
EACH_PACKAGE_MAX = 6
KINDS = {
    "json": (".json",),
    "jsonl": (".jsonl", ".ndjson"),
    "csv": (".csv", ".tsv"),
    "yaml": (".yaml", ".yml"),
    "xml": (".xml",),
    "settings": (".toml", ".ini", ".cfg"),
    "python": (".py",),
    "javascript": (".js", ".mjs", ".cjs", ".ts"),
    "c": (".c", ".h"),
    "markdown": (".md",),
    "log": (".log",),
    "diff": (".diff", ".patch"),
}


class File(Struct, frozen=True):
    """A file with the kind that it is."""

    kind: str
    name: str
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8-sig", "replace")


def collect(which: Which) -> list[File]:
    """The files of a set."""
    pools = _pools()
    chosen: list[File] = []
    for kind, paths in pools.items():
        paths.sort(key=str)
        random.Random(f"{kind} 19").shuffle(paths)
        half = [path for path in paths if is_held(path) == (which == "held")]
        chosen += list(_readable(kind, half))
    if which == "seen" and DEV.is_dir():
        kind_of = {suffix: kind for kind, suffixes in KINDS.items() for suffix in suffixes}
        for path in sorted(DEV.iterdir()):
            if path.suffix in kind_of:
                chosen.append(File(kind_of[path.suffix], path.name, path.read_bytes()))
    return chosen


def is_held(path: Path) -> bool:
    """Whether a file is held back: by lot, the same for all files of a folder."""
    group = path.name if _is_given(path) else str(path.parent)
    return random.Random(f"19 {group}").random() < 0.5


def roots() -> list[Path]:
    paths = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "/usr/include"]
    paths += ["/usr/share", "/usr/lib/node_modules"]
    return [Path(each) for each in paths]


def given() -> list[Path]:
    return [Path(each) for each in os.environ.get("BENCH_LOOK", "").split(":") if each]


def _is_given(path: Path) -> bool:
    return any(path.is_relative_to(root) for root in given())


def _pools() -> dict[str, list[Path]]:
    """All the files there are, by kind; few of each package, so that no package is all there is."""
    kind_of = {suffix: kind for kind, suffixes in KINDS.items() for suffix in suffixes}
    pools: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    seen: dict[tuple[str, str], int] = {}
    for root in (*roots(), *given()):
        for folder, names, files in os.walk(root):
            names.sort()
            for name in sorted(files):
                kind = kind_of.get(os.path.splitext(name)[1])
                if kind is None or "contextrelay" in folder or folder.startswith("/usr/share/zone"):
                    continue
                package = os.path.relpath(folder, root).partition("/")[0]
                place = (package if package != "." else name, kind)
                seen[place] = seen.get(place, 0) + 1
                if seen[place] <= EACH_PACKAGE_MAX or root in given():
                    pools[kind].append(Path(folder, name))
    return pools


def _readable(kind: str, paths: list[Path]) -> Iterator[File]:
    seen: set[bytes] = set()
    for path in paths:
        if len(seen) == FILES_EACH:
            return
        try:
            if not SIZE_BYTES_MIN <= path.stat().st_size <= SIZE_BYTES_MAX:
                continue
            body = path.read_bytes()
            body.decode()
        except (OSError, UnicodeDecodeError):
            continue
        if body not in seen:
            seen.add(body)
            yield File(kind, path.name, body)
