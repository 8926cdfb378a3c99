"""Our own parts against the kept libraries that do the same (docs/decisions/0019).

Stemming against snowballstemmer, canonical JSON against rfc8785, argument checks against
jsonschema, and the search index against SQLite's FTS5: recall on LoCoMo, speed and size at 100,000
passages. What is not installed (`pip install -e '.[bench]'`) skips the whole file.
"""

from __future__ import annotations

import sqlite3
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.measure import Curve, Result, Skipped, interleaved, timed
from bench.quality.locomo import read_talks
from bench.search import PASSAGES_EACH, QUERIES, Texts
from contextrelay.content.search.passages import length_of
from contextrelay.content.search.words import IRREGULAR, query_words, stem, words
from contextrelay.core.search_index import rank
from contextrelay.documents.args_schema import validate_args
from contextrelay.documents.canonical import canonical
from contextrelay.limits import SEARCH_CANDIDATES
from contextrelay.store.search.index import SearchIndex
from contextrelay.store.search.reads import PLACE_BYTES, Text

PASSAGES = 100_000
SHOWN = (5, 10, 20)
TIMES = 200

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": 1_000},
        "limit": {"type": "integer", "minimum": 1, "maximum": 50},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 10},
    },
    "required": ["query"],
    "additionalProperties": False,
}
ARGS = {"query": "which port", "limit": 5, "tags": ["a", "b", "c"]}
DESCRIPTION = {
    "name": "notes.md",
    "metadata": {f"key {n}": {"share": n * 1.5, "list": [n, "été", None, True]} for n in range(30)},
}
FTS5 = {
    "FTS5, text kept": "CREATE VIRTUAL TABLE passage USING fts5(text, tokenize='porter unicode61')",
    "FTS5, contentless": "CREATE VIRTUAL TABLE passage "
    "USING fts5(text, content='', tokenize='porter unicode61')",
}
BEST = "SELECT rowid FROM passage WHERE passage MATCH ? ORDER BY rank LIMIT ?"


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    yield from small_parts()
    yield from recall()
    yield from index_at_size(folder)


def small_parts() -> Iterator[Result | Curve]:
    try:
        stemmer = import_module("snowballstemmer").stemmer("porter")
        theirs = import_module("rfc8785")
        validator = import_module("jsonschema").Draft202012Validator(SCHEMA)
    except ModuleNotFoundError as error:
        raise Skipped(f"{error.name} is not installed") from error
    vocabulary = sorted(
        {
            word
            for text in _own_texts()
            for word in text.split()
            if word.isalpha() and word not in IRREGULAR
        }
    )
    differing = sum(stem(word) != stemmer.stemWord(word) for word in vocabulary)
    yield _figures("stems that differ from snowballstemmer's porter", {"words": len(vocabulary)})
    yield _figures("... of these", {"differ": differing})
    yield _compared(
        "stem a word / snowballstemmer, pure Python",
        lambda: [stem(word) for word in vocabulary],
        lambda: stemmer.stemWords(vocabulary),
        len(vocabulary),
    )
    yield _compared(
        "canonical JSON / rfc8785",
        lambda: [canonical(DESCRIPTION) for _ in range(TIMES)],
        lambda: [theirs.dumps(DESCRIPTION) for _ in range(TIMES)],
        TIMES,
    )
    yield _compared(
        "check arguments / jsonschema, its validator kept",
        lambda: [validate_args(ARGS, SCHEMA) for _ in range(TIMES)],
        lambda: [validator.validate(ARGS) for _ in range(TIMES)],
        TIMES,
    )
    started = {
        name: statistics.median(1e3 * timed(lambda name=name: _start(name)) for _ in range(9))
        for name in ("msgspec", "snowballstemmer", "rfc8785", "jsonschema")
    }
    yield _figures("start Python and import, ms", started)


def recall() -> Iterator[Curve]:
    """Of the turns that answer a question, how many are among the first hits."""
    ours = dict.fromkeys(SHOWN, 0.0)
    fts = dict.fromkeys(SHOWN, 0.0)
    asked = 0
    for talk in read_talks():
        index, start = SearchIndex(None), 0
        with index.changing() as change:
            sessions: dict[str, list[str]] = {}
            for block in talk.blocks:
                sessions.setdefault(block.group or "", []).append(block.content)
            for name, turns in sessions.items():
                change.add(text_of(name, start, len(turns)), map(passage_of, turns), b"", None)
                start += len(turns)
        database = _filled(":memory:", FTS5["FTS5, text kept"], (b.content for b in talk.blocks))
        with index.reading() as view:
            for question, evidence in talk.questions:
                asked += 1
                best = rank(view, list(query_words(question)), None, 0, SEARCH_CANDIDATES).best
                found = [each.number for each in best]
                theirs = [number - 1 for number in _fts_best(database, question, max(SHOWN))]
                for count in SHOWN:
                    for sums, numbers in ((ours, found), (fts, theirs)):
                        shown = {talk.blocks[number].id for number in numbers[:count]}
                        sums[count] += len(shown & evidence) / len(evidence)
        index.close()
    for name, sums in (("ours", ours), ("FTS5", fts)):
        points = {f"{count} hits": 100 * total / asked for count, total in sums.items()}
        yield Curve(f"LoCoMo: evidence found, {name}", "%", points, "", True)


def index_at_size(folder: Path) -> Iterator[Result | Curve]:
    """Time to fill, time to ask, and bytes on the disk, of the same 100,000 passages."""
    texts = Texts()
    queries = [" ".join(texts.query()) for _ in range(QUERIES)]
    passages = [texts.passage() for _ in range(PASSAGES)]
    index = SearchIndex(folder / "search.db")
    fill_s = {"ours": timed(lambda: fill(index, passages))}
    with index.reading() as view:
        ask_ms = {"ours": _median_ms(queries, partial(ranked, view))}
    index.close()
    file_mb = {"ours": _megabytes(folder / "search.db")}
    for number, (name, table) in enumerate(FTS5.items()):
        path = folder / f"fts{number}.db"
        start = time.perf_counter()
        database = _filled(path, table, passages)
        fill_s[name] = time.perf_counter() - start
        ask_ms[name] = _median_ms(queries, partial(_fts_best, database))
        database.close()
        file_mb[name] = _megabytes(path)
    file_mb["the text"] = sum(map(len, passages)) / 1e6
    yield _figures("fill an index with 100,000 passages, s", fill_s)
    yield _figures(f"the best {SEARCH_CANDIDATES} for three words, ms", ask_ms)
    yield _figures("file, MB", file_mb)


def fill(index: SearchIndex, passages: list[str]) -> None:
    with index.changing() as change:
        for start in range(0, len(passages), PASSAGES_EACH):
            some = passages[start : start + PASSAGES_EACH]
            places = bytes(PLACE_BYTES * len(some))
            change.add(text_of(str(start), start, len(some)), map(passage_of, some), places, None)


def ranked(view: sqlite3.Connection, query: str) -> object:
    return rank(view, list(query_words(query)), None, 0, SEARCH_CANDIDATES)


def passage_of(text: str) -> tuple[int, Counter[str]]:
    stems = words(text)
    return length_of(stems), Counter(stems)


def text_of(ref: str, start: int, count: int) -> Text:
    return Text(ref, 0, None, None, None, None, start, count, False)


def _filled(path: Path | str, table: str, passages: Any) -> sqlite3.Connection:
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(table)
    rows = ((number, text) for number, text in enumerate(passages, 1))
    database.executemany("INSERT INTO passage (rowid, text) VALUES (?, ?)", rows)
    database.commit()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return database


def _fts_best(
    database: sqlite3.Connection, query: str, count: int = SEARCH_CANDIDATES
) -> list[int]:
    asked = " OR ".join(f'"{word}"' for word in query_words(query).values())
    return [number for (number,) in database.execute(BEST, (asked, count))] if asked else []


def _median_ms(queries: list[str], ask: Callable[[str], object]) -> float:
    return statistics.median(1e3 * timed(lambda query=query: ask(query)) for query in queries)


def _megabytes(path: Path) -> float:
    return path.stat().st_size / 1e6


def _start(name: str) -> None:
    subprocess.run([sys.executable, "-c", f"import {name}"], check=True)


def _own_texts() -> Iterator[str]:
    for folder in ("src", "docs"):
        for path in (Path(__file__).parents[1] / folder).rglob("*"):
            if path.suffix in (".py", ".md"):
                yield path.read_text(encoding="utf-8").lower()


def _compared(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], count: int
) -> Result:
    mine, other = interleaved(
        lambda: 1e6 * timed(ours) / count, lambda: 1e6 * timed(theirs) / count
    )
    return Result(name, mine, other, "us", mine / other, "", True)


def _figures(name: str, points: dict[str, float]) -> Curve:
    return Curve(name, "", points, "", True)
