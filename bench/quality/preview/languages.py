"""Languages: facts about code, by the outline as it is and by its lines alone, without a parser.

The languages that no installed package has sources of can be judged on a folder with some: its name
is in BENCH_SOURCES.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from bench.quality.preview.files import SIZE_BYTES_MAX, SIZE_BYTES_MIN, File, collect
from bench.quality.preview.judged import Share, by_lines_alone, by_outline, judge, total

LANGUAGES = {
    "py": "Python",
    "js": "JavaScript",
    "mjs": "JavaScript",
    "ts": "TypeScript",
    "go": "Go",
    "rs": "Rust",
    "java": "Java",
    "c": "C",
    "h": "C",
}
FILES_EACH = 25


def shares(folder: Path) -> Iterator[tuple[str, Share, Share]]:
    """By language: how the outline did, and how its lines alone would have done."""
    found: dict[str, list[File]] = defaultdict(list)
    for file in (*collect("held", folder), *_given()):
        if file.kind == "code":
            found[LANGUAGES[file.name.rpartition(".")[2]]].append(file)
    for language, files in sorted(found.items()):
        ways = {"outline": by_outline, "lines": by_lines_alone}
        judged = total(judge(files[:FILES_EACH], ways))
        yield language, judged["outline"]["all"], judged["lines"]["all"]


def _given() -> Iterator[File]:
    """Files of a folder that somebody names, drawn by lot."""
    root = os.environ.get("BENCH_SOURCES")
    if not root:
        return
    paths = sorted(path for path in Path(root).rglob("*") if path.suffix[1:] in LANGUAGES)
    random.Random(7).shuffle(paths)
    counts: dict[str, int] = defaultdict(int)
    for path in paths:
        language = LANGUAGES[path.suffix[1:]]
        if counts[language] == FILES_EACH or not path.is_file():
            continue
        if not SIZE_BYTES_MIN <= path.stat().st_size <= SIZE_BYTES_MAX:
            continue
        counts[language] += 1
        yield File("code", path.name, path.read_bytes())
