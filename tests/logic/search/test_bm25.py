"""BM25: beside the formula written out, and how it grows."""

from __future__ import annotations

import math
import random
import time
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from contextrelay.logic.search.bm25 import LENGTH_WEIGHT, SATURATION, Bm25, rarity

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


@given(Passages, st.lists(st.sampled_from("abcdefghxyz"), max_size=5))
def test_scores_are_those_of_the_formula(passages: list[list[str]], query: list[str]) -> None:
    """Promise L3."""
    index = Bm25()
    for each in passages:
        index.add(each)

    scores = index.scores(query, neighbours=())

    expected = written_out(passages, query)
    assert scores.keys() == expected.keys()
    assert all(math.isclose(scores[each], expected[each]) for each in expected)


def test_what_was_removed_scores_no_more_and_leaves_no_room() -> None:
    index = Bm25()
    numbers = [index.add([f"word{number}", "common"]) for number in range(5_000)]
    for number in numbers[:4_990]:
        index.remove(number)
        index.remove(number)

    assert index.scores(["common"], ()).keys() == set(numbers[4_990:])
    assert index.scores(["word7"]) == {}
    assert len(index) == 10


def test_a_passage_gains_from_its_neighbours_of_the_same_group_alone() -> None:
    """Promise L3: neighbours."""
    index = Bm25()
    lone = index.add(["key"], group=1)
    beside = index.add(["other"], group=1)
    stranger = index.add(["other"], group=2)

    scores = index.scores(["key"])

    assert scores[lone] > scores[beside] > 0
    assert stranger not in scores


def test_adding_costs_the_same_however_many_there_are_and_scoring_is_quick() -> None:
    """Promise L3."""
    chance = random.Random(7)
    vocabulary = [f"w{number}" for number in range(5_000)]
    weights = [1 / (rank + 1) for rank in range(5_000)]
    texts = [chance.choices(vocabulary, weights, k=40) for _ in range(10_000)]
    index = Bm25()

    def added_s(part: list[list[str]]) -> float:
        begun = time.process_time()
        for each in part:
            index.add(each)
        return time.process_time() - begun

    first_s = added_s(texts[:2_000])
    added_s(texts[2_000:8_000])
    last_s = added_s(texts[8_000:])
    begun = time.process_time()
    for _ in range(10):
        index.scores(["w3", "w40", "w400", "w4000"])
    scored_s = (time.process_time() - begun) / 10

    assert last_s < 4 * first_s
    assert scored_s < 0.1
    assert rarity(1, 10_000) > rarity(5_000, 10_000) > 0
