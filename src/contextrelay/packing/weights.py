"""Weights: the parameters of relevance, and the weight of a word in a block."""

from __future__ import annotations

import math

from msgspec import Struct


class Weights(Struct, frozen=True):
    """The parameters of relevance."""

    # Parameters of BM25 for blocks, which are shorter than documents: repetition means little, and
    # length matters less.
    saturation: float = 0.9
    length: float = 0.4
    group_idf: float = 0.4
    # The shares that a block gets of a word in the next blocks, and in the previous ones.
    before: tuple[float, ...] = (0.4, 0.2, 0.1, 0.06)
    behind: tuple[float, ...] = (0.5, 0.3, 0.1, 0.06)
    after_question: float = 0.7
    answer: float = 0.85  # The minimum score of an answer, relative to the score of its question.
    question: float = 0.1  # The penalty of a question, compared with a statement.
    you: float = 0.1
    """The penalty of a turn that addresses the other speaker instead of stating something."""
    group: float = 0.3
    only_group: float = 0.5
    """The factor of the group score for a block that has no query word nearby."""
    framing: float = 0.5
    synonym: float = 0.45
    beginning: float = 0.4  # The weight of a word that starts like a query word.
    speaker: float = 0.4
    date: float = 0.3
    when: float = 0.3
    number: float = 0.3
    # The exponent of the score by words, if there is an embedding. Above 1, blocks that are best by
    # words stay first, and vectors decide the order of the others.
    words_power: float = 1.5
    embedded: float = 0.25  # The score of the block nearest by embedding; 1 is the best by words.
    # The weights of neighbours in the topic of a block, the nearest first.
    embedded_lent: tuple[float, ...] = (0.6, 0.36, 0.22)


WEIGHTS = Weights()
LENGTH_BITS = 32


class WordWeights(dict[int, float]):
    """A table of the weight of a word in a block, by the word's count and the block's length.

    Many blocks share few distinct keys, so each weight is computed only once for a mean length.
    """

    def __init__(self, weights: Weights, mean: float) -> None:
        super().__init__()
        self._weights = weights
        self._mean = mean

    def at(self, mean: float) -> WordWeights:
        """Return a table for a mean length, or this table if the mean length is unchanged."""
        return self if mean == self._mean else WordWeights(self._weights, mean)

    def __missing__(self, packed: int) -> float:
        weights, length = self._weights, packed & ((1 << LENGTH_BITS) - 1)
        times = packed >> LENGTH_BITS
        longer = 1 - weights.length + weights.length * length / (self._mean or 1.0)
        weight = (weights.saturation + 1) * times / (times + weights.saturation * longer)
        self[packed] = weight
        return weight


def idf(count: int, with_it: int) -> float:
    """Return the inverse document frequency of a word in `with_it` of `count` blocks."""
    return math.log(1 + (count - with_it + 0.5) / (with_it + 0.5))
