"""Search: against a scan of the same passages, and how updates, memory and the file grow."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

from bench.measure import Curve, Result, each, faster, flat, interleaved, timed
from contextrelay import Gone, Relay
from contextrelay.client.transport.local import Local
from contextrelay.core.search_index import FILE_NAME, catch_up, index_of

PASSAGES_EACH = 10
SIZES = (100, 1_000, 10_000, 100_000)
QUERIES = 20
UPDATES = 40
QUERY_US_MAX = 20_000
WORDS = 20_000

ASKING = """
import resource, sys
from contextrelay import Relay
with Relay(sys.argv[1]) as relay:
    for query in sys.argv[2:]:
        relay.search(query)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


class Texts:
    """Texts whose words are as unevenly spread as those of writing, the same each time."""

    def __init__(self) -> None:
        self._chance = random.Random(11)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self.words = ["".join(self._chance.choices(letters, k=7)) for _ in range(WORDS)]
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(WORDS)))

    def passage(self) -> str:
        return " ".join(self._chance.choices(self.words, cum_weights=self._weights, k=45))

    def text(self) -> str:
        return "\n\n".join(self.passage() for _ in range(PASSAGES_EACH))

    def query(self) -> list[str]:
        """Words as people ask: one common, one less, one rare."""
        return [self.words[self._chance.randrange(*of)] for of in _RANKS]


_RANKS = ((20, 200), (200, 2_000), (2_000, WORDS))


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    texts = Texts()
    queries = [texts.query() for _ in range(QUERIES)]
    update_us: dict[str, float] = {}
    memory_mb: dict[str, float] = {}
    query_us: dict[str, float] = {}
    file_share: dict[str, float] = {}
    kept: list[str] = []
    relay = Relay(folder / "store")
    for size in SIZES:
        _fill(relay, texts, kept, size)
        name = f"{size:,}"
        update_us[name] = each(lambda _: _update(relay, texts), UPDATES)
        query_us[name] = statistics.median(
            1e6 * timed(lambda query=query: relay.search(" ".join(query))) for query in queries
        )
        asked = [" ".join(query) for query in queries]
        memory_mb[name] = _asked_mb(folder / "store", asked)
        written = (folder / "store" / FILE_NAME).stat().st_size
        file_share[name] = written / sum(map(len, kept))
    ours, anchor = interleaved(
        lambda: statistics.median(
            1e6 * timed(lambda query=query: relay.search(" ".join(query))) for query in queries
        ),
        lambda: 1e6 * timed(lambda: scan(kept, queries[0])),
    )
    yield faster("search 100,000 passages / scan them, all in memory", ours, anchor, "us", 10)
    stored = 1e6 * timed(lambda: scan(_pulled(relay), queries[0]))
    yield faster(
        "search 100,000 passages / scan them where they are stored", ours, stored, "us", 20
    )
    yield flat("add an artifact to the index, by passages there", update_us, "us", 3)
    is_quick = query_us[f"{SIZES[-1]:,}"] < QUERY_US_MAX
    yield Curve("query, by passages", "us", query_us, "< 20,000 at 100,000", is_quick)
    yield flat("memory of a process that queries, by passages", memory_mb, "MB", 2)
    yield Curve("index file / text, by passages", "x", file_share, "", True)
    relay.close()


def _fill(relay: Relay, texts: Texts, kept: list[str], size: int) -> None:
    """Push until there are so many passages, and bring the index up."""
    while len(kept) * PASSAGES_EACH < size:
        count = min(500, size // PASSAGES_EACH - len(kept))
        fresh = [texts.text() for _ in range(count)]
        relay.push_many([(text, {"ttl_s": None}) for text in fresh])
        kept += fresh
    assert isinstance(relay.transport, Local)
    catch_up(relay.transport.stores, index_of(relay.transport.stores), float("inf"))


def _update(relay: Relay, texts: Texts) -> None:
    """What a query pays for one artifact that was pushed before it."""
    relay.push(texts.text(), ttl_s=60)
    assert isinstance(relay.transport, Local)
    catch_up(relay.transport.stores, index_of(relay.transport.stores), 60)


def _pulled(relay: Relay) -> Iterator[str]:
    """Every text, as it is read where there is no index."""
    after = ""
    while True:
        page = relay.list(limit=1_000, after=after)
        for artifact in page.artifacts:
            with suppress(Gone):  # Those of the updates live for a minute.
                yield relay.pull(artifact.ref).decode()
        after = page.next
        if not after:
            return


def scan(kept: Iterable[str], query: list[str]) -> list[tuple[int, str]]:
    """The best passages by going through all of them: most of the words, then most often."""
    found: list[tuple[int, int, str]] = []
    for text in kept:
        for passage in text.split("\n\n"):
            folded = passage.casefold()
            counts = [folded.count(word) for word in query]
            if any(counts):
                found.append((sum(map(bool, counts)), sum(counts), passage))
    found.sort(reverse=True)
    return [(words, passage) for words, _, passage in found[:10]]


def _asked_mb(store: Path, queries: list[str]) -> float:
    done = subprocess.run(
        [sys.executable, "-c", ASKING, str(store), *queries],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)
