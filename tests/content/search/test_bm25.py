"""BM25: compared with the formula written out."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from contextrelay.content.search.passages import (
    LENGTH_WEIGHT,
    SATURATION,
    add_up,
    length_of,
    norms_of,
    rarity,
    weigh,
    with_neighbours,
)

Passages = st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12), max_size=20)


def written_out(passages: list[list[str]], query: list[str]) -> dict[int, float]:
    average = sum(map(len, passages)) / max(len(passages), 1)
    scores: dict[int, float] = {}
    for word in dict.fromkeys(query):
        having = [index for index, each in enumerate(passages) if word in each]
        for index in having:
            count = Counter(passages[index])[word]
            norm = 1 - LENGTH_WEIGHT + LENGTH_WEIGHT * len(passages[index]) / average
            part = count * (SATURATION + 1) / (count + SATURATION * norm)
            weight = math.log(1 + (len(passages) - len(having) + 0.5) / (len(having) + 0.5))
            scores[index] = scores.get(index, 0) + weight * part
    return scores


def scored(passages: list[list[str]], query: list[str]) -> dict[int, float]:
    """Scores as an index gets them: word by word, from where each is and how often."""
    lengths = [length_of(each) for each in passages]
    norms = norms_of(sum(lengths) / max(len(lengths), 1))
    total: dict[int, float] = {}
    for word in dict.fromkeys(query):
        numbers = [number for number, each in enumerate(passages) if word in each]
        counts = [passages[number].count(word) for number in numbers]
        weight = rarity(len(numbers), len(passages))
        add_up(total, weigh(numbers, counts, lengths, norms, weight))
    return total


@given(Passages, st.lists(st.sampled_from("abcdefghxyz"), max_size=5))
def test_scores_are_those_of_the_formula(passages: list[list[str]], query: list[str]) -> None:
    """Promise L3."""
    scores = scored(passages, query)

    expected = written_out(passages, query)
    assert scores.keys() == expected.keys()
    assert all(math.isclose(scores[each], expected[each]) for each in expected)


def test_a_passage_gains_from_its_neighbours_of_the_same_text_alone() -> None:
    """Promise L3: neighbours."""
    by_word = [{7: 2.0}]

    lone, after, before, stranger = (
        with_neighbours(number, start, stop, by_word)
        for number, start, stop in ((7, 5, 10), (8, 5, 10), (6, 5, 10), (8, 8, 10))
    )

    assert lone > before > after > stranger == 0
