"""Packing: never over the budget, nothing lost, in order, the same every time, and for a reason."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import convert
from msgspec.json import decode, encode

from contextrelay import Block, Budget, BudgetTooSmall, Invalid, NotFound, Package, pack
from contextrelay.content.tokens import count_tokens
from contextrelay.model.package import BLOCK_TYPES
from contextrelay.packing.pack import decay
from contextrelay.packing.relevance import Relevance
from tests.rigs import length

TALK = [
    Block("s", "You are a careful assistant.", "SYSTEM"),
    Block("u1", "Which database do we use for orders?", "USER", group="1"),
    Block("a1", "PostgreSQL, since the last review.", "AGENT", group="1"),
    Block("u2", "And what is for lunch?", "USER", group="2"),
    Block("a2", "Soup, as every Monday.", "AGENT", group="2"),
]

contents = st.text(min_size=0, max_size=120) | st.sampled_from(
    ["same", "again and again", "日本語"]
)
some_blocks = st.lists(
    st.builds(
        Block,
        id=st.uuids().map(str),
        content=contents,
        type=st.sampled_from(BLOCK_TYPES),
        relevance_score=st.floats(0, 1),
        timestamp=st.integers(0, 2**41),
        group=st.none() | st.sampled_from(["1", "2"]),
    ),
    max_size=30,
    unique_by=lambda block: block.id,
)


def count_words(text: str) -> int:
    return len(text.split())


def count_chars(text: str) -> int:
    return len(text)


COUNTS: list[Callable[[str], int]] = [count_tokens, count_words, count_chars]


@settings(max_examples=length(75, 300, 3000), deadline=None)
@given(
    some_blocks,
    st.integers(1, 400),
    st.text(max_size=60),
    st.sampled_from(COUNTS),
    st.integers(0, 5),
)
def test_never_over_budget_nothing_lost_and_the_order_kept(
    blocks: list[Block],
    budget_tokens: int,
    query: str,
    count: Callable[[str], int],
    each_tokens: int,
) -> None:
    """Promise K5, K3."""
    budget = Budget(budget_tokens, each_tokens=each_tokens)
    try:
        package = pack(blocks, query, budget, count=count)
    except BudgetTooSmall:
        must = [block for block in blocks if block.type == "SYSTEM"]
        assert sum(count(block.content) + each_tokens for block in must) > budget_tokens
        return

    spent = sum(count(block.content) + each_tokens for block in package.blocks)
    kept = {block.id for block in package.blocks}
    dropped = {block.id for block in package.dropped}
    assert spent == package.total_tokens <= budget_tokens
    assert kept | dropped == {block.id for block in blocks}
    assert not kept & dropped
    assert [block.id for block in package.blocks] == [b.id for b in blocks if b.id in kept]
    assert all(package.why(block.id).verdict == "kept" for block in package.blocks)
    assert all(package.why(block.id).verdict == "dropped" for block in package.dropped)
    assert pack(blocks, query, budget, count=count) == package
    assert pack(blocks, query, budget, count=count).sha256 == package.sha256


def test_the_answer_next_to_a_question_is_chosen_with_it() -> None:
    """Promise K5: neighbours count."""
    package = pack(TALK, "which database for orders", 24)

    assert [block.id for block in package.blocks] == ["s", "u1", "a1"]
    assert "database" in package.why("u1").words
    assert package.why("a2").because == "over_budget"


def test_pins_and_system_are_always_in() -> None:
    """Promise K5: pins."""
    package = pack(TALK, "database", 16, pins=["a2"])

    assert {"s", "a2"} <= {block.id for block in package.blocks}
    assert str(package.why("a2")) == "kept: pinned"


def test_a_budget_that_the_system_alone_breaks_is_refused() -> None:
    """Promise K3."""
    with pytest.raises(BudgetTooSmall, match="of 3"):
        pack(TALK, "database", 3)


def test_a_repeated_block_is_dropped_and_says_of_which() -> None:
    """Promise K5: duplicates."""
    package = pack([Block("a", "twice"), Block("b", "once"), Block("c", "twice")], "", 100)

    assert [block.id for block in package.blocks] == ["a", "b"]
    assert str(package.why("c")) == "dropped: duplicate of a"


def test_of_repeats_the_pinned_one_stays() -> None:
    package = pack([Block("a", "twice"), Block("b", "twice")], "", 100, pins=["b"])

    assert [block.id for block in package.blocks] == ["b"]


def test_without_a_query_the_new_come_before_the_old() -> None:
    """Promise K5: recency and decay."""
    blocks = [Block(f"b{n}", f"note number {n}", timestamp=60_000 * n) for n in range(1, 9)]

    package = pack(blocks, "", 8)

    assert [block.id for block in package.blocks] == ["b7", "b8"]


def test_decay_is_by_age_with_a_floor() -> None:
    """Promise K5: 0.95 a minute, floor 0.1."""
    assert decay(0) == 1
    assert decay(60_000) == pytest.approx(0.95)
    assert decay(120_000) == pytest.approx(0.95**2)
    assert decay(10**12) == 0.1


def test_a_large_block_is_shown_by_what_stands_in_for_it() -> None:
    """Promise K6, in a package."""
    blocks = [Block("log", "error in line\n" * 500, "TOOL"), Block("u", "why the error?", "USER")]

    package = pack(
        blocks, "error", 60, shorten=lambda b, tokens: "500 errors, ref r1" if tokens > 99 else None
    )

    assert [block.content for block in package.blocks] == ["500 errors, ref r1", "why the error?"]
    assert package.why("log").is_digest


def test_an_index_that_is_kept_gives_the_same_package() -> None:
    """Promise K4."""
    kept = Relevance(TALK[:3])

    assert pack(TALK, "lunch", 30, relevance=kept) == pack(TALK, "lunch", 30)
    assert len(kept) == len(TALK)


@pytest.mark.parametrize("tokens", [0, -1, 1.5, None])
def test_a_budget_that_is_none_is_refused(tokens: int) -> None:
    with pytest.raises(Invalid):
        pack(TALK, "x", tokens)


def test_wrong_blocks_are_refused() -> None:
    wrongs: list[dict[str, Any]] = [
        {"type": "SPAM"},
        {"relevance_score": float("nan")},
        {"timestamp": -1},
        {"timestamp": "now"},
        {"id": ""},
        {"content": 7},
    ]
    for wrong in wrongs:
        fields: dict[str, Any] = {"id": "a", "content": "x"} | wrong
        with pytest.raises(Invalid):
            Block(**fields)


def test_ids_that_repeat_and_pins_of_nothing_are_refused() -> None:
    with pytest.raises(Invalid, match="duplicate block"):
        pack([Block("a", "x"), Block("a", "y")], "", 10)
    with pytest.raises(Invalid, match="pinned"):
        pack([Block("a", "x")], "", 10, pins=["b"])


def test_why_of_a_stranger_is_not_found() -> None:
    with pytest.raises(NotFound):
        pack(TALK, "", 100).why("stranger")


def test_what_else_a_package_shows() -> None:
    """Promise K1: metrics."""
    package = pack(TALK, "", 100)

    assert sum(package.type_distribution.values()) == pytest.approx(1)
    assert package.context_saturation == package.total_tokens / 100
    assert package.text.startswith("[SYSTEM]\nYou are a careful assistant.\n\n[USER]\nWhich")


def test_times_and_groups_may_be_given_as_others_spell_them() -> None:
    at = datetime(2023, 5, 8, tzinfo=UTC)
    block = Block("a", "x", timestamp=at, group=3, references=["r"])  # pyright: ignore[reportArgumentType]

    assert (block.timestamp, block.group, block.references) == (1683504000000, "3", ("r",))


def test_a_package_carries_its_hash_and_one_that_was_changed_is_refused() -> None:
    """Promise K1: hash, version and trace id travel with it."""
    package = pack(TALK, "database", 100)
    plain = decode(encode(package))

    assert convert(plain, Package) == package
    assert plain["sha256"] == package.sha256 == pack(TALK, "database", 100).sha256
    assert {"version", "trace_id"} <= set(plain)
    changes: list[dict[str, Any]] = [{"version": 2}, {"version": 0}, {"sha256": "0" * 64}]
    for change in (*changes, {"blocks": plain["blocks"][:1]}):
        with pytest.raises(Invalid):
            convert(plain | change, Package)


def test_a_placeholder_is_reported() -> None:
    """Promise K5: why."""
    package = pack(TALK, "database", 100, digests={"a1"})

    assert package.why("a1").is_digest
    assert "the full text by its ref" in str(package.why("a1"))
    assert not package.why("u1").is_digest


@pytest.mark.parametrize("field", ["id", "content"])
def test_half_a_character_is_refused(field: str) -> None:
    """Promise K1: what could not be written is not taken in."""
    with pytest.raises(Invalid, match="half a character"):
        convert({"id": "a", "content": "b"} | {field: "x\ud800y"}, Block)


def test_what_others_leave_out_is_taken_for_nothing() -> None:
    nothing: Any = None
    block = Block("a", "x", metadata=nothing, references=nothing)

    assert (block.metadata, block.references) == ({}, ())
    assert pack([block], nothing, 10).blocks == (block,)
    assert len(pack([Block("a", "x", metadata={"any": object()})], "", 10).sha256) == 64
