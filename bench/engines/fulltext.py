"""Search on a shared engine: our index in each server, against PostgreSQL's own full text.

`python -m bench.engines.fulltext` prints what docs/decisions/0031-search-on-shared-engines.md
compares: the evidence found of LoCoMo, and time and size for passages of 45 words.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from typing import Any

import psycopg

from bench.libraries import SHOWN, fill, passage_of, ranked, text_of
from bench.quality.locomo import read_talks
from bench.search import Texts
from contextrelay.content.search.words import query_words
from contextrelay.core.search_index import rank
from contextrelay.limits import SEARCH_CANDIDATES
from contextrelay.store.search.index import SearchIndex
from tests.store.postgres.server import PostgresServer

PASSAGES = 50_000
QUERIES = 20
TABLE = "CREATE TABLE passage (id int PRIMARY KEY, words tsvector)"
INDEX = "CREATE INDEX ON passage USING gin (words)"
ADD = "INSERT INTO passage SELECT %s, to_tsvector('english', %s)"
BEST = """SELECT id FROM passage, to_tsquery('english', %s) AS asked
          WHERE words @@ asked ORDER BY ts_rank(words, asked) DESC, id LIMIT %s"""


def main() -> None:
    server = PostgresServer()
    server.start()
    try:
        with psycopg.connect(server.url, autocommit=True) as database:
            _recall(database)
            _size(database)
    finally:
        server.end()


def _recall(database: Any) -> None:
    """Of the turns that answer a question, how many are among the first hits, in percent."""
    sums = {name: dict.fromkeys(SHOWN, 0.0) for name in ("ours", "PostgreSQL")}
    asked = 0
    for talk in read_talks():
        _fill(database, (block.content for block in talk.blocks))
        index = SearchIndex(None)
        with index.changing() as change:
            groups: dict[str, list[str]] = {}
            for block in talk.blocks:
                groups.setdefault(block.group or "", []).append(block.content)
            start = 0
            for name, turns in groups.items():
                change.add(text_of(name, start, len(turns)), map(passage_of, turns), b"", None)
                start += len(turns)
        with index.reading() as view:
            for question, evidence in talk.questions:
                asked += 1
                best = rank(view, list(query_words(question)), None, 0, SEARCH_CANDIDATES).best
                found = {
                    "ours": [each.number for each in best],
                    "PostgreSQL": _best(database, question, max(SHOWN)),
                }
                for name, numbers in found.items():
                    for count in SHOWN:
                        shown = {talk.blocks[number].id for number in numbers[:count]}
                        sums[name][count] += len(shown & evidence) / len(evidence)
        index.close()
    for name, found in sums.items():
        print(name, {count: round(100 * total / asked, 1) for count, total in found.items()})


def _size(database: Any) -> None:
    texts = Texts()
    queries = [" ".join(texts.query()) for _ in range(QUERIES)]
    passages = [texts.passage() for _ in range(PASSAGES)]
    start = time.perf_counter()
    _fill(database, passages)
    theirs_s = time.perf_counter() - start
    index = SearchIndex(None)
    start = time.perf_counter()
    fill(index, passages)
    ours_s = time.perf_counter() - start
    ours_ms: list[float] = []
    theirs_ms: list[float] = []
    with index.reading() as view:
        for query in queries:
            start = time.perf_counter()
            ranked(view, query)
            between = time.perf_counter()
            _best(database, query, SEARCH_CANDIDATES)
            ours_ms.append((between - start) * 1e3)
            theirs_ms.append((time.perf_counter() - between) * 1e3)
    size = "SELECT pg_total_relation_size('passage')"
    (total,) = database.execute(size).fetchone()
    print(f"fill {PASSAGES:,} passages: ours {ours_s:.1f} s, PostgreSQL {theirs_s:.1f} s")
    ours, theirs = statistics.median(ours_ms), statistics.median(theirs_ms)
    print(
        f"the best {SEARCH_CANDIDATES} for three words: ours {ours:.1f} ms, theirs {theirs:.1f} ms"
    )
    print(f"{sum(map(len, passages)) / 1e6:.0f} MB of text: PostgreSQL {total / 1e6:.0f} MB")


def _fill(database: Any, passages: Iterable[str]) -> None:
    database.execute("DROP TABLE IF EXISTS passage")
    database.execute(TABLE)
    database.execute(INDEX)
    with database.transaction(), database.cursor() as cursor:
        cursor.executemany(ADD, list(enumerate(passages)))


def _best(database: Any, query: str, count: int) -> list[int]:
    """As ours asks: any of the words that matter, the best first."""
    words = " | ".join(f"'{word}'" for word in query_words(query).values())
    if not words:
        return []
    found: list[tuple[int]] = database.execute(BEST, (words, count)).fetchall()
    return [number for (number,) in found]


if __name__ == "__main__":
    main()
