"""Ranking: which passages of the index answer a query best.

A passage counts by its words and by those of its neighbours (content/search/bm25.py); a newer one
counts a little more than an older one, and one of an artifact that a newer one of the same name
has replaced much less.
"""

from __future__ import annotations

import sqlite3
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import chain
from operator import itemgetter

from msgspec import Struct

from contextrelay.content.search.bm25 import (
    SATURATION,
    add_up,
    norms_of,
    rarity,
    weigh,
    with_neighbours,
)
from contextrelay.limits import DAY_S
from contextrelay.store.search import reads
from contextrelay.store.search.reads import CHUNK, Text

# What being new adds at most, and in what time that halves.
_RECENCY = 0.15
_HALF_MS = 7 * DAY_S * 1000
STALE = 0.3
"""What a passage is worth of which there is a newer one, by name."""
# Looking a word up pays where it is in so many more passages than there are candidates.
_COMMON = 4

Found = list[tuple[int, "array[int]"]]
"""Where a word is: by chunk, offset, count, offset, count, ..."""


class Ranked(Struct, frozen=True):
    """A passage and how well it answers."""

    number: int
    score: float
    text: Text


class Ranking(Struct, frozen=True):
    """All that a query found."""

    best: list[Ranked]
    having: list[dict[int, array[int]]]
    """For each word the passages that have it: offsets by chunk."""
    missing: tuple[str, ...]
    """Words that are nowhere."""
    by_word: dict[str, dict[int, float]]

    def count(self) -> int:
        """How many passages have a word of the query."""
        return sum(len(offsets) for _, offsets in self._by_chunk())

    def numbers(self) -> Iterator[int]:
        """The numbers of these passages."""
        for chunk, offsets in self._by_chunk():
            yield from (chunk * CHUNK + offset for offset in offsets)

    def _by_chunk(self) -> Iterator[tuple[int, set[int]]]:
        empty = array("H")
        for chunk in {chunk for each in self.having for chunk in each}:
            yield chunk, set[int]().union(*(each.get(chunk, empty) for each in self.having))

    def words_near(self, each: Ranked) -> tuple[str, ...]:
        """The words that are in a passage or next to it."""
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
    """Rank passages for the words of a query, within spans of numbers, or all of them.

    How rare a word is, and how long passages are, is known of all of them; where the spans are to
    stand `is_apart`, of these alone, so that nothing shows what is in the others.
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
        _closely(view, best, by_word, now_ms),
        [scoring.there(found) for _, found, size in read if size],
        tuple(word for word, _, size in read if not size),
        by_word,
    )


def _is_settled(total: dict[int, float], size: int, most: float, candidates: int) -> bool:
    """Whether passages that have only words still to come cannot be among the best any more.

    Then those words, which are the common ones, are looked up for the candidates alone.
    """
    if len(total) < candidates or size < _COMMON * len(total):
        return False
    return nlargest(candidates, total.values())[-1] >= most


class _Scoring:
    """Scores one word, by what is known of all passages."""

    def __init__(self, lengths: dict[int, array[int]], holed: set[int], norms: list[float]) -> None:
        self._lengths = lengths
        self._holed = holed
        self._norms = norms

    def all(self, found: Found, weight: float) -> dict[int, float]:
        """The scores of all passages that have it."""
        scores: dict[int, float] = {}
        for chunk, places in found:
            lengths, start = self._lengths[chunk], chunk * CHUNK
            scores.update(weigh(places[::2], places[1::2], lengths, self._norms, weight, start))
        return scores

    def some(self, found: Found, weight: float, numbers: Iterable[int]) -> dict[int, float]:
        """The scores of some passages, of those that have it."""
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
        """The passages that have it, by chunk; those that are gone left out."""
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
    """The words of a query with where they are and in how many passages, the rarest first."""
    read: list[tuple[str, Found, int]] = []
    for word in query:
        found = [each for each in reads.postings(view, word) if each[0] in lengths]
        read.append((word, found, sum(len(places) // 2 for _, places in found)))
    return sorted(read, key=itemgetter(2))


def _by_rarity_apart(
    view: sqlite3.Connection, query: Sequence[str], lengths: dict[int, array[int]]
) -> list[tuple[str, Found, int]]:
    """As `_by_rarity`, of passages that have a length here and of no others."""
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
    """Lengths of what is within spans; all else as if it were gone."""
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


def _closely(
    view: sqlite3.Connection,
    best: list[tuple[int, float]],
    by_word: dict[str, dict[int, float]],
    now_ms: int,
) -> list[Ranked]:
    """Look at the best with their neighbours and their age; best first."""
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
