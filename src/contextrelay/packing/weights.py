"""Weights: what counts how much in relevance, and what a word weighs in a block."""

from __future__ import annotations

import math

from msgspec import Struct


class Weights(Struct, frozen=True):
    """What counts how much."""

    # BM25, with blocks shorter than documents: repetition says little, length matters less.
    saturation: float = 0.9
    length: float = 0.4
    group_idf: float = 0.4
    before: tuple[float, ...] = (0.4, 0.2, 0.1, 0.06)
    """What a block gains from a word in the block after it, the one after that ..."""
    behind: tuple[float, ...] = (0.5, 0.3, 0.1, 0.06)
    """... and from one in the block before it, and so on."""
    after_question: float = 0.7
    answer: float = 0.85
    """What an answer is worth at least, of its question."""
    question: float = 0.1
    """What a question is worth less than what is stated."""
    you: float = 0.1
    """What is worth less that turns to the other, instead of saying something of one's own."""
    group: float = 0.3
    only_group: float = 0.5
    """What is left of that for a block that has no word of the query near it."""
    framing: float = 0.5
    synonym: float = 0.45
    beginning: float = 0.4
    """What a word counts that begins like one of the query."""
    speaker: float = 0.4
    date: float = 0.3
    when: float = 0.3
    number: float = 0.3
    words_power: float = 1.5
    """With an embedding: over 1 the best by words stay ahead, and vectors decide further down."""
    embedded: float = 0.25
    """What the nearest by an embedding is worth, of the best by words."""
    embedded_lent: tuple[float, ...] = (0.6, 0.36, 0.22)
    """What the next neighbour adds to what a block is about, the one after that ..."""


WEIGHTS = Weights()


LENGTH_BITS = 32


class WordWeights(dict[int, float]):
    """What a word weighs in a block, by how often it is there and how long that is.

    Few of these differ among many blocks, so each is worked out once for a mean length.
    """

    def __init__(self, weights: Weights, mean: float) -> None:
        super().__init__()
        self._weights = weights
        self._mean = mean

    def at(self, mean: float) -> WordWeights:
        """The table for a mean length, which is this one if it did not change."""
        return self if mean == self._mean else WordWeights(self._weights, mean)

    def __missing__(self, packed: int) -> float:
        weights, length = self._weights, packed & ((1 << LENGTH_BITS) - 1)
        times = packed >> LENGTH_BITS
        longer = 1 - weights.length + weights.length * length / (self._mean or 1.0)
        weight = (weights.saturation + 1) * times / (times + weights.saturation * longer)
        self[packed] = weight
        return weight


def idf(count: int, with_it: int) -> float:
    """How rare a word is that `with_it` of `count` blocks have."""
    return math.log(1 + (count - with_it + 0.5) / (with_it + 0.5))
