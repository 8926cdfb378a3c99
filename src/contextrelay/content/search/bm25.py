"""BM25: score passages for a query, by the words in them and in their neighbours.

An index stores for each word the passages and counts, and passes them to these functions. The cost
of scoring is proportional to the postings of the query's words; nothing is recomputed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

PASSAGE_WORDS_MAX = 1_023


# BM25 parameters: saturation of repeated words (k1), and influence of the passage length (b).
SATURATION = 1.2
LENGTH_WEIGHT = 0.75
# A word in a neighbouring passage counts too, depending on the distance. What follows a passage
# says more about it than what precedes it: an answer comes after its question.
NEIGHBOURS = ((-2, 0.2), (-1, 0.35), (1, 0.45), (2, 0.25))


def length_of(words: Sequence[str]) -> int:
    """Return a passage's length for scoring: at least 1, because 0 means deleted."""
    return min(max(len(words), 1), PASSAGE_WORDS_MAX)


def rarity(found: int, total: int) -> float:
    """Return the weight of a word that occurs in `found` of `total` passages."""
    return log(1 + (total - found + 0.5) / (found + 0.5))


def norms_of(average: float) -> list[float]:
    """Return the length normalisation for every possible length."""
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
    """Score one word, skipping deleted passages (length 0); numbers count from `start`."""
    full = weight * (SATURATION + 1)
    return {
        start + number: full * count / (count + norms[lengths[number]])
        for number, count in zip(numbers, counts, strict=True)
        if lengths[number]
    }


def add_up(total: dict[int, float], scores: dict[int, float]) -> None:
    """Add the scores of a word to those of the previous words."""
    # Few passages have both words: the others are copied at once, which is twice as fast.
    both = {number: total[number] + scores[number] for number in total.keys() & scores.keys()}
    total.update(scores)
    total.update(both)


def with_neighbours(
    number: int, start: int, stop: int, by_word: Sequence[Mapping[int, float]]
) -> float:
    """Return the score of one passage plus its neighbours' in the same text, start:stop."""
    total = 0.0
    for scores in by_word:
        best = scores.get(number, 0.0)
        for offset, weight in NEIGHBOURS:
            neighbour = number + offset
            if start <= neighbour < stop:
                best = max(best, weight * scores.get(neighbour, 0.0))
        total += best
    return total
