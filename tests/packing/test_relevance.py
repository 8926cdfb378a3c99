"""Relevance: found by words, by neighbours, by who and when; grown and pruned without a refit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextrelay import Block, Invalid
from contextrelay.packing.relevance import Relevance
from tests.rigs import length


def best(index: Relevance, query: str) -> str:
    scores = index.scores(query)
    return max(scores, key=lambda block_id: scores[block_id])


def test_the_answer_of_a_question_is_worth_more_than_what_came_before_it() -> None:
    """Promise K5: neighbours, leaning towards what follows a question."""
    turns = ["Good morning!", "What did you paint?", "A sunrise.", "Nice.", "Bye."]
    index = Relevance([Block(str(n), text, group="g") for n, text in enumerate(turns)])

    scores = index.scores("paint")

    assert scores["1"] > scores["2"] > scores["0"]


@pytest.mark.parametrize(
    ("query", "said"),
    [("her children", "the kids are fine"), ("a dancer", "they went dancing")],
)
def test_another_word_for_the_same_finds_a_block_and_counts_less(query: str, said: str) -> None:
    """Promise K5: synonyms, and words that begin alike."""
    index = Relevance([Block("other", said), Block("same", query), Block("none", "rain all day")])

    scores = index.scores(query)

    assert set(scores) == {"other", "same"}
    assert scores["same"] > scores["other"]
    assert index.found(query, "other") == (query.split()[1],)


def test_how_a_question_is_asked_counts_less_than_what_it_is_about() -> None:
    blocks = [Block("kind", "one of a kind"), Block("music", "jazz music"), Block("c", "no")]

    assert best(Relevance(blocks), "What kind of music?") == "music"


def test_a_block_of_a_group_that_answers_counts_before_one_of_another_group() -> None:
    talk = ["apples", *["and so on"] * 9]
    blocks = [Block(f"a{n}", text, group="a") for n, text in enumerate(talk)]

    scores = Relevance([*blocks, Block("b", "pears", group="b")]).scores("apples")

    assert 0 < scores["a9"] < scores["a1"]
    assert "b" not in scores


def test_neighbours_do_not_reach_into_another_group() -> None:
    index = Relevance([Block("a", "about apples", group="1"), Block("b", "bananas", group="2")])

    assert set(index.scores("apples")) == {"a"}


def test_the_speaker_who_is_named_comes_first() -> None:
    said = ["Ann: I like jazz.", "Bob: I like jazz."] * 3
    index = Relevance([Block(str(n), text, group=str(n)) for n, text in enumerate(said)])

    scores = index.scores("What does Bob like?")

    assert scores["1"] > scores["0"]


def test_a_label_that_is_no_speaker_is_searched_like_any_word() -> None:
    index = Relevance([Block("a", "Warning: disk is full"), Block("b", "all is well")])

    assert best(index, "the disk that is full") == "a"


@pytest.mark.parametrize("where", ["timestamp", "metadata"])
def test_a_date_in_the_query_finds_blocks_of_that_day(where: str) -> None:
    blocks = [
        Block("may", "we met", timestamp=1683504000000, group="1"),
        Block("june", "we met", timestamp=1686182400000, group="2"),
    ]
    if where == "metadata":
        dates = ["8 May, 2023", "8 June, 2023"]
        blocks = [
            Block(block.id, block.content, metadata={"date": date}, group=block.group)
            for block, date in zip(blocks, dates, strict=True)
        ]

    assert best(Relevance(blocks), "Whom did they meet in June?") == "june"


def test_irregular_forms_are_found_by_their_base() -> None:
    index = Relevance([Block("a", "She went home"), Block("b", "He stays away")])

    assert best(index, "when did she go") == "a"


words = st.sampled_from(["alpha", "beta", "gamma", "delta?", "one", "two", "three", "four"])
texts = st.lists(words, min_size=1, max_size=6).map(" ".join)
steps = st.lists(
    st.tuples(st.integers(0, 7), texts | st.none(), st.sampled_from(["1", "2", None])), max_size=25
)


@settings(max_examples=length(50, 200, 2000), deadline=None)
@given(steps, texts)
def test_an_index_that_grew_says_what_a_new_one_says(
    changes: list[tuple[int, str | None, str | None]], query: str
) -> None:
    """Promise K4: replaced and removed blocks leave nothing behind but their empty places."""
    grown = Relevance()
    order: dict[str, Block | None] = {}
    for number, text, group in changes:
        block_id = str(number)
        if text is None:
            grown.remove(block_id)
            order.pop(block_id, None)
        elif block_id not in order:
            order[block_id] = Block(block_id, text, group=group)
            grown.add(Block(block_id, text, group=group))
    # A removed block leaves its place empty: compare where none was removed between.
    if any(text is None for _, text, _ in changes):
        assert set(grown.scores(query)) <= set(order)
        return

    fresh = Relevance([block for block in order.values() if block is not None])

    assert grown.scores(query) == fresh.scores(query)


def test_a_block_that_is_replaced_is_found_by_its_new_words() -> None:
    index = Relevance([Block("a", "apples", group="1"), Block("b", "pears", group="1")])

    index.add(Block("a", "plums", group="1"))

    assert index.scores("apples") == {}
    assert best(index, "plums") == "a"
    assert len(index) == 2


def test_an_embedding_finds_what_shares_no_word() -> None:
    """Promise K5: an embedding can be plugged in."""
    meaning = {"car": (1.0, 0.0), "automobile": (0.95, 0.1), "banana": (0.0, 1.0)}

    def embed(texts: Sequence[str]) -> list[tuple[float, float]]:
        return [meaning.get(text.split()[-1], (0.1, 0.1)) for text in texts]

    index = Relevance([Block("a", "my automobile"), Block("b", "my banana")], embed)

    assert best(index, "the car") == "a"


def test_by_an_embedding_a_turn_is_about_what_is_said_around_it() -> None:
    """Promise K5. The answer shares neither a word nor a meaning with what is asked."""
    meaning = {"car": (1.0, 0.0), "automobile": (0.95, 0.1), "banana": (0.0, 1.0)}

    def embed(texts: Sequence[str]) -> list[tuple[float, float]]:
        return [meaning.get(text.split()[-1], (0.5, 0.5)) for text in texts]

    said = [
        ("a", "1", "my automobile"),
        ("b", "1", "green"),
        ("c", "2", "green"),
        ("d", "2", "banana"),
    ]
    blocks = [Block(name, text, group=group) for name, group, text in said]
    index = Relevance(blocks, embed)

    scores = index.scores("the car")
    index.remove("a")

    assert scores["b"] > scores.get("c", 0.0)
    assert index.scores("the car") == Relevance(blocks[1:], embed).scores("the car")


def test_with_an_embedding_the_word_that_was_asked_for_stays_ahead() -> None:
    """Promise K5."""

    def embed(texts: Sequence[str]) -> list[tuple[float, float]]:
        return [(1.0, 0.0) if "vehicle" in text or "car" in text else (0.0, 1.0) for text in texts]

    blocks = [Block("a", "some vehicle"), Block("b", "plums"), Block("c", "the car, and plums")]

    assert best(Relevance(blocks, embed), "car") == "c"


def test_talk_that_turns_to_the_other_counts_less_than_what_is_said_of_oneself() -> None:
    """Promise K4."""
    blocks = [Block(name, f"{name}: {name} sails {text}", group="1") for name, text in _TO_AND_FRO]

    assert best(Relevance(blocks), "sails") == "Bob"


_TO_AND_FRO = (("Ada", "as you said you would"), ("Bob", "as they said they would"))


def test_an_embedding_that_gives_no_vectors_is_refused() -> None:
    index = Relevance([Block("a", "x"), Block("b", "y")], lambda texts: [(1.0,)])

    with pytest.raises(Invalid, match="one vector for each"):
        index.scores("x")


@settings(max_examples=length(15, 60, 600), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["apple pie", "a pear", "apple"]))),
    st.lists(st.integers(0, 9), max_size=6),
)
def test_places_that_were_left_are_taken_again_and_nothing_old_shows(
    added: Sequence[tuple[int, str]], removed: Sequence[int]
) -> None:
    """Promise K4: blocks come and go without a refit, and without growing for ever."""
    index = Relevance()
    kept: dict[str, str] = {}
    for number, text in added:
        index.add(Block(str(number), text))
        kept[str(number)] = text
        for gone in removed:
            index.remove(str(gone))
            kept.pop(str(gone), None)

    fresh = Relevance([Block(block_id, text) for block_id, text in kept.items()])

    assert index.scores("apple") == pytest.approx(fresh.scores("apple"))
    assert index.shares("apple") == pytest.approx(fresh.shares("apple"))
    assert set(index.shares("apple")) == set(kept)
    assert len(index._ids) <= 10  # pyright: ignore[reportPrivateUsage]
