"""Kinds without a name: how often a body is taken for what its name says that it is.

`python -m bench.quality.look.kinds [seen|held] [ENDING...]`: of each ending that the product knows,
files of this machine, of .node-parts and of BENCH_LOOK, drawn by lot. What is taken for something
else is shown by name for the set that is looked at, counted for both.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from bench.quality.look.files import given, is_held, roots
from contextrelay.content.artifact_type import artifact_type
from contextrelay.limits import HEAD_BYTES_MAX

FILES_EACH, EACH_FOLDER_MAX, SIZE_BYTES_MIN = 30, 3, 200
# Those that say what the content is.
ENDINGS = frozenset(
    f".{ending}"
    for line in (
        "md json jsonl ndjson geojson html htm xhtml xml xsd xsl yaml yml toml ini svg eml",
        "rst py pyi js mjs cjs jsx ts tsx mts sh c h cpp cc hpp java kt kts cs go rs rb php",
        "properties swift scala lua pl pm r css scss less sql proto csv tsv log diff patch",
    )
    for ending in line.split()
)
# The name says less than the content.
SETTINGS, SETTINGS_TYPES = (".ini", ".properties"), ("application/toml", "text/x-java-properties")
NODE_PARTS = Path(__file__).parents[3] / ".node-parts"


def main(words: list[str]) -> None:
    """Print, for each ending, how many files are known and what the others are taken for."""
    is_seen = "held" not in words
    asked = known_of_all = 0
    for ending, paths in sorted(_pools(is_seen, words).items()):
        known, others = 0, Counter[str]()
        for path, head in paths:
            by_name, unnamed = _kinds(path.name, head)
            known += by_name == unnamed
            if by_name != unnamed:
                others[unnamed] += 1
                if is_seen:
                    print(f"    {path} is taken for {unnamed}")
        asked, known_of_all = asked + len(paths), known_of_all + known
        taken = ", ".join(f"{kind} {count}" for kind, count in others.most_common())
        print(f"{ending:12} {known:3} of {len(paths):3}  {taken}")
    print(f"{'all':12} {known_of_all} of {asked}")


def _kinds(name: str, head: bytes) -> tuple[str, str]:
    """What a body is by its name, and without it; the same for what no content can show."""
    by_name, unnamed = (artifact_type(each, None, head, True)[1] for each in (name, None))
    is_same = (name.endswith(SETTINGS) and unnamed in SETTINGS_TYPES) or (
        name.endswith(".h") and unnamed == "text/x-c++"
    )
    return by_name, by_name if is_same else unnamed


def _pools(is_seen: bool, words: list[str]) -> dict[str, list[tuple[Path, bytes]]]:
    """Files by ending, as many as are asked for."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in _files():
        if is_held(path) != is_seen:
            found[path.suffix.lower()].append(path)
    chosen: dict[str, list[tuple[Path, bytes]]] = {}
    for ending, paths in found.items():
        if any(word.startswith(".") for word in words) and ending not in words:
            continue
        random.Random(f"{ending} 19").shuffle(paths)
        chosen[ending] = list(_heads(paths))
    return chosen


def _files() -> Iterator[Path]:
    for root in (*roots(), NODE_PARTS, Path("/etc"), Path("/var/log"), *given()):
        for folder, names, files in os.walk(root):
            names.sort()
            yield from (
                Path(folder, name)
                for name in sorted(files)
                if os.path.splitext(name)[1].lower() in ENDINGS and "contextrelay" not in folder
            )


def _heads(paths: list[Path]) -> Iterator[tuple[Path, bytes]]:
    folders = Counter[Path]()
    for path in paths:
        if folders.total() == FILES_EACH:
            return
        try:
            if path.stat().st_size < SIZE_BYTES_MIN or folders[path.parent] >= EACH_FOLDER_MAX:
                continue
            with path.open("rb") as file:
                head = file.read(HEAD_BYTES_MAX)
            head.decode(errors="ignore" if len(head) == HEAD_BYTES_MAX else "strict")
        except (OSError, UnicodeDecodeError):
            continue
        if b"\0" not in head:
            folders[path.parent] += 1
            yield path, head


if __name__ == "__main__":
    main(sys.argv[1:])
