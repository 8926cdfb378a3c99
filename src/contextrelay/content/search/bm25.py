"""BM25: how well passages answer the words of a query, by words in them and in their neighbours.

An index keeps for each word where it is and how often, and calls these functions with what it has
read. Scoring costs what the postings of the query's words cost; nothing is refitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

PASSAGE_WORDS_MAX = 1_023


# How soon more of the same word stops counting, and how much a passage's length does.
SATURATION = 1.2
LENGTH_WEIGHT = 0.75
# A word in a neighbouring passage counts too, by how many passages away it is. What follows a
# passage says more about it than what precedes it: an answer comes after its question.
NEIGHBOURS = ((-2, 0.2), (-1, 0.35), (1, 0.45), (2, 0.25))


def length_of(words: Sequence[str]) -> int:
    """A passage's length as it is scored: at least 1, because 0 says that it is gone."""
    return min(max(len(words), 1), PASSAGE_WORDS_MAX)


def rarity(found: int, total: int) -> float:
    """The weight of a word that is in `found` of `total` passages."""
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
    """Score one word: passages that are gone (length 0) left out, numbers counted from `start`."""
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
            neighbour = number + offset
            if start <= neighbour < stop:
                best = max(best, weight * scores.get(neighbour, 0.0))
        total += best
    return total
