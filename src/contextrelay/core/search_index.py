"""Index sync: update the search index from the ledger, in bounded steps.

A push does not wait for it. A search updates the index first, within a time limit, and a sweep
continues. New artifacts are first noted, newest first, then read and added, newest first: the
latest push can be found first.

Rule: the ledger is the truth. Results are looked up there before they are shown, so removed content
never appears, however outdated the index is. Sealed content is never indexed.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from heapq import nlargest
from itertools import chain, islice, takewhile
from operator import itemgetter
from pathlib import Path

from msgspec import Struct
from msgspec.json import decode, encode

from contextrelay.bounded.bodies import index_within_bounds
from contextrelay.content.search.passages import (
    SATURATION,
    IndexedText,
    IndexRequest,
    add_up,
    length_of,
    norms_of,
    rarity,
    weigh,
    with_neighbours,
)
from contextrelay.content.search.words import words
from contextrelay.core.artifacts.bodies import read_body
from contextrelay.core.artifacts.catalog import ADDED, CatalogEntry, added, entries
from contextrelay.core.artifacts.records import find_readable, has_expired
from contextrelay.core.schema import RowKind, artifact_log, tenants
from contextrelay.core.spaces import space_of
from contextrelay.core.stores import Stores
from contextrelay.errors import Broken, RelayError
from contextrelay.limits import ADDED_KEPT, DAY_S, MIB, PAGE_ROWS_MAX, UNFINISHED_PUSH_S
from contextrelay.model.artifact import Artifact, is_exchange, to_ms
from contextrelay.model.inspect import IndexState
from contextrelay.store.ledger import ONLY, Fact
from contextrelay.store.search import reads
from contextrelay.store.search.index import Damaged, IndexChange, SearchIndex
from contextrelay.store.search.reads import CHUNK, Text

# Limits per artifact: bytes of its body, number of passages, and characters of the text about it.
SEARCHED_BYTES_MAX = 4 * MIB
SEARCHED_PASSAGES_MAX = 20_000
SEARCHED_ABOUT_CHARS_MAX = 4_096
SWEEP_CATCH_UP_S = 60.0
# Limits of one transaction, and the maximum number of recorded gaps.
SEARCH_BATCH_TEXTS = 200
SEARCH_BATCH_S = 0.25
SEARCH_GAPS_MAX = 100
SEARCH_GONE_MAX = 1_000


SEARCH = "retrieval.search"
"""The capability whose results are not indexed, because a search would find earlier searches."""
FILE_NAME = "search.db"
# A full chunk with fewer remaining passages than this is emptied, and these passages are added
# again.
_THIN = CHUNK // 4


def index_of(stores: Stores) -> SearchIndex:
    """Return the search index of the store, or of the tenant's space."""
    return index_of_tenant(stores, stores.tenant)


def index_of_tenant(stores: Stores, tenant: str | None) -> SearchIndex:
    path = path_of(stores.root.engine.home, tenant)
    return stores.services.get(_name(tenant), lambda: SearchIndex(path))


def _name(tenant: str | None) -> str:
    return f"search/{tenant or ''}"


def path_of(home: Path | None, tenant: str | None) -> Path | None:
    """Return the path of an index file, or None if the index is in memory."""
    if home is None or tenant is None:
        return None if home is None else home / FILE_NAME
    # Hash the tenant's name, because it may contain characters that file names cannot.
    return home / f"search-{hashlib.sha256(tenant.encode()).hexdigest()[:16]}.db"


def catch_up(stores: Stores, index: SearchIndex, seconds_max: float) -> IndexState:
    """Update an index from the ledger of a space, within a time limit; return its state.

    Raises:
        Unavailable: another process keeps changing the index for too long.
    """
    deadline = time.monotonic() + seconds_max
    try:
        return _caught_up(stores, index, deadline)
    except Damaged:
        index.start_over()
        return _caught_up(stores, index, deadline)


def rebuild(stores: Stores, index: SearchIndex) -> IndexState:
    """Delete an index and rebuild it completely; return its state."""
    index.start_over()
    return catch_up(stores, index, float("inf"))


def state_of(index: SearchIndex) -> IndexState:
    """Return the current state of an index."""
    with index.reading() as view:
        texts, waiting, count, _ = reads.counts(view)
        gaps = _gaps(reads.mark(view, "gaps"))
    return IndexState(artifacts=texts, passages=count, waiting=waiting, is_complete=not gaps)


def _caught_up(stores: Stores, index: SearchIndex, deadline: float) -> IndexState:
    with index.reading() as view:
        ended = reads.ended(view, stores.now_ms(), SEARCH_GONE_MAX)
    remove_missing(stores, index, ended)
    if _is_behind(stores, index):
        with index.changing() as change:
            _note_new(stores, change, deadline)
        before = (_FAR_MS, "")
        while True:
            with index.changing() as change:
                behind = _add_some(stores, change, before, deadline)
            if behind is None or time.monotonic() >= deadline:
                break
            before = behind
    return state_of(index)


_FAR_MS = 1 << 62


# Finding new artifacts


def _is_behind(stores: Stores, index: SearchIndex) -> bool:
    """Return True if there are artifacts to note or to add; takes no write lock."""
    with index.reading() as view:
        if reads.waiting(view, (_FAR_MS, ""), 1) or reads.mark(view, "gaps"):
            return True
        place = _place(reads.mark(view, "followed"))
    following = None if place is None else _following(stores, place, 1)
    return following is None or bool(following)


def _following(stores: Stores, place: Followed, limit: int) -> list[Fact] | None:
    """Return the facts that were added after a place; None if the place is unknown or too far
    behind.

    A place is unknown if its facts were trimmed, or if another store is now at the same address.
    """
    seq, _ = place
    found = stores.ledger.read(ADDED, max(seq - 1, 0), limit + 1)
    if seq == 0:
        return None if found and found[0].seq != 1 else found[:limit]
    if not found or _followed(found[0]) != place:
        return None
    return found[1:]


def _pages(found: Iterator[CatalogEntry], until_ms: int) -> Iterator[list[CatalogEntry]]:
    recent = takewhile(lambda each: each.created_ms >= until_ms, found)
    while page := list(islice(recent, PAGE_ROWS_MAX)):
        yield page


def _note_new(stores: Stores, change: IndexChange, deadline: float) -> None:
    """Note artifacts that are not indexed yet, in the order of the log of additions.

    If that log cannot be followed, walk the whole catalog, newest first. If the time runs out, the
    remaining gap is recorded and filled later.
    """
    view = change.connection
    place = _place(reads.mark(view, "followed"))
    walks = _gaps(reads.mark(view, "gaps"))
    if place is None or not _follow(stores, change, place):
        # Read the position before the walk, because later additions are found by following the log.
        last = stores.ledger.last(ADDED)
        newest = stores.ledger.read(ADDED, last - 1, 1) if last else []
        _set_place(change, newest[0] if newest else None)
        walks = [("", 0)]
    left: list[tuple[str, int]] = []
    for after, until_ms in walks:
        for page in _pages(entries(stores.ledger, after), until_ms):
            _await(change, [(each.created_ms, each.ref) for each in page])
            if time.monotonic() >= deadline:
                left.append((page[-1].cursor, until_ms))
                break
    if len(left) > SEARCH_GAPS_MAX:
        left = [*left[: SEARCH_GAPS_MAX - 1], (left[SEARCH_GAPS_MAX - 1][0], left[-1][1])]
    change.set_mark("gaps", encode(left).decode() if left else "")


def _follow(stores: Stores, change: IndexChange, place: Followed) -> bool:
    """Note the artifacts added after a place; return False if it is unknown or too old."""
    if stores.ledger.last(ADDED) - place[0] > ADDED_KEPT:
        return False
    while page := _following(stores, place, PAGE_ROWS_MAX):
        _await(change, [added(fact) for fact in page])
        _set_place(change, page[-1])
        place = _followed(page[-1])
    return page is not None


def _await(change: IndexChange, places: list[tuple[int, str]]) -> None:
    missing = reads.unknown(change.connection, [ref for _, ref in places])
    change.await_texts((created_ms, ref) for created_ms, ref in places if ref in missing)


Followed = tuple[int, str]
"""A place in the log of additions: the seq and the text of a fact."""


def _place(noted: str | None) -> Followed | None:
    return decode(noted, type=Followed) if noted else None


def _followed(fact: Fact) -> Followed:
    return fact.seq, fact.body.decode(errors="replace")


def _set_place(change: IndexChange, fact: Fact | None) -> None:
    place = (0, "") if fact is None else _followed(fact)
    change.set_mark("followed", encode(place).decode())


def _gaps(noted: str | None) -> list[tuple[str, int]]:
    """Decode the gaps of interrupted walks: the cursor and the time at their ends."""
    return decode(noted, type=list[tuple[str, int]]) if noted else []


# Adding


def _add_some(
    stores: Stores, change: IndexChange, before: tuple[int, str], deadline: float
) -> tuple[int, str] | None:
    """Add a batch of waiting artifacts, newest first; return the last place, or None."""
    batch = reads.waiting(change.connection, before, SEARCH_BATCH_TEXTS)
    stop = min(deadline, time.monotonic() + SEARCH_BATCH_S)
    done: list[str] = []
    for place in batch:
        created_ms, ref = before = place
        artifact = find_readable(stores.ledger, ref)
        if artifact is not None and _is_searched(artifact, stores.now_ms()):
            if _add(stores, change, artifact):
                done.append(ref)
        elif artifact is not None or created_ms < stores.now_ms() - UNFINISHED_PUSH_S * 1000:
            # The artifact is not to be indexed, or is gone, or its push is unfinished.
            done.append(ref)
        elif stores.ledger.get(artifact_log(ref), RowKind.TOMBSTONE, ONLY) is not None:
            done.append(ref)
        if time.monotonic() >= stop:
            break
    change.added(done)
    return before if batch else None


def _is_searched(artifact: Artifact, now_ms: int) -> bool:
    if artifact.sealed is not None or is_exchange(artifact) or has_expired(artifact, now_ms):
        return False
    return artifact.provenance.capability != SEARCH


def _add(stores: Stores, change: IndexChange, artifact: Artifact) -> bool:
    """Add an artifact to the index; return False if time ran out and the artifact has to wait."""
    indexing = _indexing(stores, artifact) if artifact.is_text else IndexedText([])
    if indexing is None:
        return False
    start = change.next_number()
    kept = indexing.passages
    is_cut = artifact.size_bytes > SEARCHED_BYTES_MAX and artifact.is_text
    text = Text(
        ref=artifact.ref,
        created_ms=to_ms(artifact.created_at),
        expires_ms=None if artifact.expires_at is None else to_ms(artifact.expires_at),
        name=artifact.name,
        thread=artifact.thread,
        channel=artifact.channel,
        start=start,
        count=len(kept) + 1,
        is_cut=is_cut or indexing.is_cut,
    )
    stems = words(about(artifact))
    passages = chain(
        ((length_of(stems), Counter(stems)),), ((each.length, each.stems) for each in kept)
    )
    # The lines and bytes of each passage. The first passage is about the artifact and has none.
    places = b"".join(
        PLACE.pack(each.start_line, each.stop_line, each.start_byte, each.stop_byte)
        for each in kept
    )
    has_pointers = any(each.pointer is not None for each in kept)
    pointers = encode([each.pointer for each in kept]) if has_pointers else None
    change.add(text, passages, places, pointers)
    return True


PLACE = struct.Struct("<IIII")
assert PLACE.size == reads.PLACE_BYTES


def about(artifact: Artifact) -> str:
    """Return the searchable text about an artifact besides its content: its name and metadata."""
    metadata = encode(artifact.metadata).decode() if artifact.metadata else ""
    return f"{artifact.name or ''}\n{metadata[:SEARCHED_ABOUT_CHARS_MAX]}"


def _indexing(stores: Stores, artifact: Artifact) -> IndexedText | None:
    """Return the searchable passages of an artifact's text, or None if time ran out."""
    read = partial(read_body, stores, artifact)
    size_bytes = min(artifact.size_bytes, SEARCHED_BYTES_MAX)
    try:
        return index_within_bounds(
            IndexRequest(artifact.type, SEARCHED_PASSAGES_MAX), size_bytes, read
        )
    except Broken:
        # A search must not fail because of a damaged body; `verify` reports it.
        return IndexedText([])


# Maintenance


def maintain_all(stores: Stores) -> None:
    """Maintain and update the existing indexes of a store and of its tenants."""
    for tenant in (None, *tenants(stores.ledger)):
        path = path_of(stores.engine.home, tenant)
        if not stores.services.has(_name(tenant)) and (path is None or not path.exists()):
            continue
        space, index = space_of(stores, tenant), index_of_tenant(stores, tenant)
        with suppress(RelayError):  # The next search or sweep tries again.
            maintain(space, index)
            catch_up(space, index, SWEEP_CATCH_UP_S)


def maintain(stores: Stores, index: SearchIndex) -> None:
    """Remove artifacts that are gone, reclaim their space, and look for missed artifacts."""
    try:
        _maintain(stores, index)
    except Damaged:
        index.start_over()


def _maintain(stores: Stores, index: SearchIndex) -> None:
    after = ""
    while True:
        with index.reading() as view:
            page = reads.refs(view, after, PAGE_ROWS_MAX)
        if not page:
            # Pushes by an earlier version are not in the log of additions, so walk the whole
            # catalog.
            with index.changing() as change:
                change.set_mark("followed", "")
            break
        after = page[-1]
        remove_missing(stores, index, page)
    with index.changing() as change:
        for chunk in reads.thin_chunks(change.connection, _THIN):
            again = reads.texts_in(change.connection, chunk)
            for _, ref in again:
                change.remove(ref)
            change.await_texts(again)
            change.drop_chunk(chunk)


def remove_missing(stores: Stores, index: SearchIndex, refs: list[str]) -> int:
    """Remove artifacts that are gone from the index, and update the expiry of those that were
    extended.

    Return the number of artifacts removed.
    """
    if not refs:
        return 0
    now_ms = stores.now_ms()
    found = {ref: find_readable(stores.ledger, ref) for ref in refs}
    gone = [
        ref for ref, artifact in found.items() if not (artifact and _is_searched(artifact, now_ms))
    ]
    kept = [(_end_ms(artifact), ref) for ref, artifact in found.items() if artifact]
    with index.changing() as change:
        for ref in gone:
            change.remove(ref)
        change.connection.executemany("UPDATE text SET expires_ms = ? WHERE ref = ?", kept)
    return len(gone)


def _end_ms(artifact: Artifact) -> int | None:
    return None if artifact.expires_at is None else to_ms(artifact.expires_at)


# The highest bonus for new passages, and the time in which the bonus halves.
_RECENCY = 0.15
_HALF_MS = 7 * DAY_S * 1000
STALE = 0.3
"""The factor applied to the score of a passage if a newer artifact has the same name."""
# A word is looked up only for the candidates if the number of passages with it is at least this
# many times the number of candidates.
_COMMON = 4

Found = list[tuple[int, "array[int]"]]
"""The positions of a word: pairs of a chunk and an array of alternating offsets and counts."""


class Ranked(Struct, frozen=True):
    """A passage and its score."""

    number: int
    score: float
    text: Text


class Ranking(Struct, frozen=True):
    """All results of a query."""

    best: list[Ranked]
    having: list[dict[int, array[int]]]
    """For each word of the query, the passages that contain it: arrays of offsets by chunk."""
    missing: tuple[str, ...]
    """Words of the query that do not occur in any passage."""
    by_word: dict[str, dict[int, float]]

    def count(self) -> int:
        """Return the number of passages that contain a word of the query."""
        return sum(len(offsets) for _, offsets in self._by_chunk())

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the passages that contain a word of the query."""
        for chunk, offsets in self._by_chunk():
            yield from (chunk * CHUNK + offset for offset in offsets)

    def _by_chunk(self) -> Iterator[tuple[int, set[int]]]:
        empty = array("H")
        for chunk in {chunk for each in self.having for chunk in each}:
            yield chunk, set[int]().union(*(each.get(chunk, empty) for each in self.having))

    def words_near(self, each: Ranked) -> tuple[str, ...]:
        """Return the words of the query that are in a passage or in one next to it."""
        start, stop = max(each.text.start, each.number - 2), min(each.text.stop, each.number + 3)
        near = range(start, stop)
        return tuple(word for word, at in self.by_word.items() if any(n in at for n in near))


def rank(
    view: sqlite3.Connection,
    query: Sequence[str],
    spans: list[tuple[int, int]] | None,
    now_ms: int,
    candidates: int,
    is_apart: bool = False,
) -> Ranking:
    """Rank passages for the words of a query, within ranges of passage numbers, or all passages.

    Word frequencies and passage lengths are those of all passages; with `is_apart`, of the given
    ranges alone, so that scores reveal nothing about other passages.
    """
    lengths, holed = reads.all_lengths(view)
    if spans is not None:
        lengths = _within(lengths, spans)
        holed = set(lengths)
    if is_apart:
        there = count = sum(map(bool, chain.from_iterable(lengths.values())))
        words = sum(map(sum, lengths.values()))
        read = _by_rarity_apart(view, query, lengths)
    else:
        there = sum(map(len, lengths.values()))
        _, _, count, words = reads.counts(view)
        read = _by_rarity(view, query, lengths)
    scoring = _Scoring(lengths, holed, norms_of(words / max(count, 1)))
    weights = [rarity(size, max(there, size)) for _, _, size in read]
    by_word: dict[str, dict[int, float]] = {}
    late: list[tuple[str, Found, float]] = []
    total: dict[int, float] = {}
    for index, (word, found, size) in enumerate(read):
        if not size:
            continue
        if late or _is_settled(total, size, (SATURATION + 1) * sum(weights[index:]), candidates):
            late.append((word, found, weights[index]))
            continue
        by_word[word] = scoring.all(found, weights[index])
        add_up(total, by_word[word])
    for _, found, weight in late:
        add_up(total, scoring.some(found, weight, total.keys()))
    best = nlargest(candidates, total.items(), key=itemgetter(1))
    near = {number + offset for number, _ in best for offset in range(-2, 3)}
    for word, found, weight in late:
        by_word[word] = scoring.some(found, weight, near)
    return Ranking(
        _rescore_best(view, best, by_word, now_ms),
        [scoring.there(found) for _, found, size in read if size],
        tuple(word for word, _, size in read if not size),
        by_word,
    )


def _is_settled(total: dict[int, float], size: int, most: float, candidates: int) -> bool:
    """Return True if passages that contain only the remaining words cannot be among the best.

    The remaining words, which are common, are then looked up only for the candidates.
    """
    if len(total) < candidates or size < _COMMON * len(total):
        return False
    return nlargest(candidates, total.values())[-1] >= most


class _Scoring:
    """Computes the scores of passages for one word, from statistics of all passages."""

    def __init__(self, lengths: dict[int, array[int]], holed: set[int], norms: list[float]) -> None:
        self._lengths = lengths
        self._holed = holed
        self._norms = norms

    def all(self, found: Found, weight: float) -> dict[int, float]:
        """Return a dict that maps all passages with the word to their scores."""
        scores: dict[int, float] = {}
        for chunk, places in found:
            lengths, start = self._lengths[chunk], chunk * CHUNK
            scores.update(weigh(places[::2], places[1::2], lengths, self._norms, weight, start))
        return scores

    def some(self, found: Found, weight: float, numbers: Iterable[int]) -> dict[int, float]:
        """Return the scores of the given passages; passages without the word are omitted."""
        by_chunk = {chunk: (places[::2], places[1::2]) for chunk, places in found}
        full = weight * (SATURATION + 1)
        scores: dict[int, float] = {}
        for number in numbers:
            chunk, offset = divmod(number, CHUNK)
            if chunk not in by_chunk:
                continue
            offsets, counts = by_chunk[chunk]
            index = bisect_left(offsets, offset)
            if index < len(offsets) and offsets[index] == offset and self._lengths[chunk][offset]:
                norm = self._norms[self._lengths[chunk][offset]]
                scores[number] = full * counts[index] / (counts[index] + norm)
        return scores

    def there(self, found: Found) -> dict[int, array[int]]:
        """Return the offsets of passages that have the word, by chunk, without removed passages."""
        kept: dict[int, array[int]] = {}
        for chunk, places in found:
            lengths, offsets = self._lengths[chunk], places[::2]
            if chunk in self._holed:
                offsets = array("H", [offset for offset in offsets if lengths[offset]])
            kept[chunk] = offsets
        return kept


def _by_rarity(
    view: sqlite3.Connection, query: Sequence[str], lengths: dict[int, array[int]]
) -> list[tuple[str, Found, int]]:
    """Return the words of a query with positions and numbers of passages, rarest first."""
    read: list[tuple[str, Found, int]] = []
    for word in query:
        found = [each for each in reads.postings(view, word) if each[0] in lengths]
        read.append((word, found, sum(len(places) // 2 for _, places in found)))
    return sorted(read, key=itemgetter(2))


def _by_rarity_apart(
    view: sqlite3.Connection, query: Sequence[str], lengths: dict[int, array[int]]
) -> list[tuple[str, Found, int]]:
    """Return the same as `_by_rarity`, but only for passages that have a length in `lengths`."""
    read: list[tuple[str, Found, int]] = []
    for word in query:
        found: Found = []
        for chunk, places in reads.postings_in(view, word, lengths):
            of = lengths[chunk]
            kept = array("H")
            for offset, count in zip(places[::2], places[1::2], strict=True):
                if of[offset]:
                    kept.extend((offset, count))
            if kept:
                found.append((chunk, kept))
        read.append((word, found, sum(len(places) // 2 for _, places in found)))
    return sorted(read, key=itemgetter(2))


def _within(lengths: dict[int, array[int]], spans: list[tuple[int, int]]) -> dict[int, array[int]]:
    """Return the passage lengths within ranges; all others are 0, as for removed passages."""
    kept: dict[int, array[int]] = {}
    for start, stop in spans:
        for chunk in range(start // CHUNK, (stop - 1) // CHUNK + 1):
            if chunk not in lengths:
                continue
            if chunk not in kept:
                kept[chunk] = array("H", bytes(2 * len(lengths[chunk])))
            first, last = max(0, start - chunk * CHUNK), min(CHUNK, stop - chunk * CHUNK)
            kept[chunk][first:last] = lengths[chunk][first:last]
    return kept


def _rescore_best(
    view: sqlite3.Connection,
    best: list[tuple[int, float]],
    by_word: dict[str, dict[int, float]],
    now_ms: int,
) -> list[Ranked]:
    """Score the best passages again with their neighbours and age; return them, best first."""
    ranked: list[Ranked] = []
    texts = reads.texts_of(view, [number for number, _ in best])
    starts = [text.start for text in texts]
    scores = list(by_word.values())
    for number, _ in best:
        text = texts[bisect_right(starts, number) - 1] if texts else None
        if text is None or not text.start <= number < text.stop:
            continue
        age_ms = max(0, now_ms - text.created_ms)
        fresh = 1 + _RECENCY * 0.5 ** (age_ms / _HALF_MS)
        score = fresh * with_neighbours(number, text.start, text.stop, scores)
        ranked.append(Ranked(number, score, text))
    return sorted(ranked, key=lambda each: (-each.score, -each.text.created_ms, each.number))
