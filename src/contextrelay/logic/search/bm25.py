"""BM25: how well passages answer the words of a query, by words in and beside them.

`Bm25` is a whole index in memory. An index that lies elsewhere keeps the same things, for each word
where it is and how often, and calls the functions below with what it has read.

Rule: adding costs what the passage's words cost, however many passages there are; scoring costs
what the postings of the query's words cost. Nothing is refitted.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log

from contextrelay.limits import PASSAGE_WORDS_MAX

# How soon more of the same word stops counting, and how much a passage's length does.
SATURATION = 1.2
LENGTH_WEIGHT = 0.75
# A word beside a passage counts for it too, by how many passages away it is. What follows a passage
# tells more of it than what precedes: an answer stands behind its question.
NEIGHBOURS = ((-2, 0.2), (-1, 0.35), (1, 0.45), (2, 0.25))


class Postings:
    """Where a word is: numbers of passages, ascending, and how often in each."""

    __slots__ = ("counts", "numbers")

    def __init__(self) -> None:
        self.numbers = array("I")
        self.counts = array("H")


class Bm25:
    """Passages by their words. Numbers are given in order, from 0, and never again."""

    def __init__(self) -> None:
        self._postings: dict[str, Postings] = {}
        self._lengths = array("H")  # Of passages that were removed, 0.
        self._groups = array("I")
        self._words = 0
        self._there = 0

    def __len__(self) -> int:
        return self._there

    def add(self, words: Sequence[str], group: int = 0) -> int:
        """Take in a passage by its words; its number. Those that follow each other in a group are
        neighbours."""
        number = len(self._lengths)
        length = length_of(words)
        self._lengths.append(length)
        self._groups.append(group)
        self._words += length
        self._there += 1
        for word, count in Counter(words).items():
            postings = self._postings.get(word)
            if postings is None:
                postings = self._postings[word] = Postings()
            postings.numbers.append(number)
            postings.counts.append(min(count, _COUNT_MAX))
        return number

    def remove(self, number: int) -> None:
        """Let go of a passage; a second time does nothing."""
        if not self._lengths[number]:
            return
        self._words -= self._lengths[number]
        self._lengths[number] = 0
        self._there -= 1
        # What it left is taken out when it has become half of everything: a constant each.
        if len(self._lengths) - self._there > max(self._there, self._swept + 1_000):
            self._sweep()

    def scores(
        self,
        query: Iterable[str],
        neighbours: Sequence[tuple[int, float]] = NEIGHBOURS,
    ) -> dict[int, float]:
        """Score the passages that have, or stand beside, a word of the query.

        Without neighbours, those that have one.
        """
        found = [self._postings[word] for word in dict.fromkeys(query) if word in self._postings]
        if not found:
            return {}
        norms = norms_of(self._words / max(self._there, 1))
        total: dict[int, float] = {}
        for postings in found:
            rare = rarity(len(postings.numbers), len(self._lengths))
            scores = weigh(postings.numbers, postings.counts, self._lengths, norms, rare)
            add_up(total, self._spread(scores, neighbours) if neighbours else scores)
        return total

    def _spread(
        self, scores: dict[int, float], neighbours: Sequence[tuple[int, float]]
    ) -> dict[int, float]:
        """A word's scores with what its passages lend their neighbours: the most, not the sum."""
        groups, lengths, stop = self._groups, self._lengths, len(self._groups)
        lent: dict[int, float] = {}
        for offset, weight in neighbours:
            for number, score in scores.items():
                beside = number - offset
                if 0 <= beside < stop and groups[beside] == groups[number] and lengths[beside]:
                    part = score * weight
                    if part > lent.get(beside, 0.0):
                        lent[beside] = part
        for number, score in scores.items():
            if score > lent.get(number, 0.0):
                lent[number] = score
        return lent

    _swept = 0

    def _sweep(self) -> None:
        lengths = self._lengths
        for word, postings in list(self._postings.items()):
            there = [index for index, each in enumerate(postings.numbers) if lengths[each]]
            if not there:
                del self._postings[word]
                continue
            postings.counts = array("H", [postings.counts[index] for index in there])
            postings.numbers = array("I", [postings.numbers[index] for index in there])
        self._swept = len(self._lengths) - self._there


_COUNT_MAX = 0xFFFF


def length_of(words: Sequence[str]) -> int:
    """A passage's length as it is scored: at least 1, because 0 says that it is gone."""
    return min(max(len(words), 1), PASSAGE_WORDS_MAX)


def rarity(found: int, total: int) -> float:
    """What a word tells that is in `found` of `total` passages."""
    return log(1 + (total - found + 0.5) / (found + 0.5))


def norms_of(average: float) -> list[float]:
    """What a length makes of a count, for every length there may be."""
    slope = SATURATION * LENGTH_WEIGHT / max(average, 1.0)
    start = SATURATION * (1 - LENGTH_WEIGHT)
    return [start + slope * length for length in range(PASSAGE_WORDS_MAX + 1)]


def weigh(
    numbers: Sequence[int],
    counts: Sequence[int],
    lengths: Sequence[int],
    norms: Sequence[float],
    weight: float,
    start: int = 0,
) -> dict[int, float]:
    """Score one word: passages that are gone (length 0) left out, numbers told from `start` on."""
    full = weight * (SATURATION + 1)
    return {
        start + number: full * count / (count + norms[lengths[number]])
        for number, count in zip(numbers, counts, strict=True)
        if lengths[number]
    }


def add_up(total: dict[int, float], scores: dict[int, float]) -> None:
    """Add the scores of a word to those of the words before it."""
    # Few passages have both words: all but those are taken over at once, which is twice as fast.
    both = {number: total[number] + scores[number] for number in total.keys() & scores.keys()}
    total.update(scores)
    total.update(both)


def with_neighbours(
    number: int, start: int, stop: int, by_word: Sequence[Mapping[int, float]]
) -> float:
    """The score of one passage of a text, whose passages are start:stop, with its neighbours'."""
    total = 0.0
    for scores in by_word:
        best = scores.get(number, 0.0)
        for offset, weight in NEIGHBOURS:
            beside = number + offset
            if start <= beside < stop:
                best = max(best, weight * scores.get(beside, 0.0))
        total += best
    return total
