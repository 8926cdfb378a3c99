"""The article's context layer: its names and call sequences; counts, order and drops mended."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextrelay import BudgetTooSmall, Invalid, Relay
from contextrelay import context as layer
from contextrelay.content.tokens import count_tokens
from contextrelay.context import (
    ContextBlock,
    ContextConcurrencyManager,
    ContextManager,
    ContextMemoryOptimizer,
    ContextMetrics,
    ContextPackage,
    ContextType,
    ContextualRelevanceCalculator,
    ContextWindowOptimizer,
    RealTimeContextOptimizer,
)
from contextrelay.context.codec import (
    from_json,
    from_protobuf,
    to_json,
    to_protobuf,
)
from tests.rigs import length

MEMORY, SYSTEM, USER, AGENT = (
    ContextType.MEMORY,
    ContextType.SYSTEM,
    ContextType.USER,
    ContextType.AGENT,
)


def filled(max_tokens: int = 8_192, *kinds: ContextType) -> tuple[ContextManager, ContextPackage]:
    manager = ContextManager(max_tokens)
    session = manager.sessions[manager.create_session("agent")]
    for number, kind in enumerate(kinds):
        manager.add_context(session.session_id, f"block {number}", kind, 0.5)
    return manager, session


def test_every_name_of_the_article_is_there_with_its_defaults() -> None:
    """Promise K2."""
    expected = {
        "ContextManager": {"max_tokens": 8192, "relevance_threshold": 0.2},
        "RealTimeContextOptimizer": {
            "token_budget": 4096,
            "optimization_interval": 0.1,
            "relevance_decay_factor": 0.95,
        },
        "DistributedContextStore": {"ttl": 3600},
        "ContextConcurrencyManager": {
            "max_concurrent_sessions": 1000,
            "max_concurrent_contexts": 5000,
        },
        "ContextPackage": {"version": 1, "trace_id": None},
        "ContextBlock": {"metadata": None, "timestamp": None, "token_count": None},
    }
    for name, defaults in expected.items():
        parameters = inspect.signature(getattr(layer, name)).parameters
        for parameter, default in defaults.items():
            assert parameters[parameter].default == default, (name, parameter)
    assert [kind.name for kind in ContextType] == [
        "SYSTEM", "USER", "AGENT", "MEMORY", "KNOWLEDGE", "TOOL",
    ]  # fmt: skip
    window = inspect.signature(ContextWindowOptimizer.optimize_session).parameters
    assert window["max_tokens"].default == 4096


def test_an_unknown_session_is_an_error_in_the_articles_words() -> None:
    """Promise K2: error texts."""
    manager = ContextManager()
    for act in (
        lambda: manager.add_context("nope", "x", MEMORY),
        lambda: manager.get_formatted_context("nope"),
        lambda: manager.export_session("nope"),
        lambda: ContextualRelevanceCalculator().update_relevance_scores("q", manager, "nope"),
    ):
        with pytest.raises(ValueError, match=r"^Session nope does not exist$"):
            act()


def test_a_session_is_formatted_as_the_article_does_it() -> None:
    """Promise K2: the format and the threshold."""
    manager, session = filled(8_192, SYSTEM, USER)
    manager.add_context(session.session_id, "too weak", MEMORY, 0.19)

    text = manager.get_formatted_context(session.session_id)

    assert text == "[SYSTEM]\nblock 0\n\n[USER]\nblock 1"
    assert (
        manager.get_formatted_context(session.session_id, lambda package: package.agent_id)
        == "agent"
    )


def test_a_full_session_is_pruned_to_80_percent_and_says_what_went() -> None:
    """Promise K3: at 0.9 to 0.8, SYSTEM and order kept, the dropped listed."""
    manager, session = filled(200, SYSTEM)
    for number in range(60):
        relevance = (number % 10) / 10
        manager.add_context(session.session_id, f"note number {number}", MEMORY, relevance)

    assert session.metrics.total_tokens < 0.9 * 200
    assert session.blocks[0].type is SYSTEM
    numbers = [int(block.content.split()[-1]) for block in session.blocks[1:]]
    assert numbers == sorted(numbers)
    assert len(session.blocks) + len(session.dropped) == 61
    kept = min(block.relevance_score for block in session.blocks[1:])
    assert session.dropped[0].reason.startswith("pruned at relevance 0.0")
    assert kept >= 0.3


def test_what_was_pruned_can_be_got_from_the_relay() -> None:
    """Promise K3: recoverable by ref."""
    with Relay("memory:") as relay:
        manager = ContextManager(60, relay=relay)
        session_id = manager.create_session("agent")
        for number in range(12):
            manager.add_context(session_id, f"a note of some words, number {number}", MEMORY, 0.5)
        dropped = manager.sessions[session_id].dropped

        assert dropped
        assert dropped[0].ref is not None
        assert relay.pull(dropped[0].ref).decode() == dropped[0].block.content


def test_system_blocks_over_the_budget_are_refused() -> None:
    """Promise K3: BudgetTooSmall."""
    manager, session = filled(10)

    with pytest.raises(BudgetTooSmall):
        manager.add_context(session.session_id, "word " * 50, SYSTEM)
    assert session.blocks == []


def test_adding_never_looks_at_what_is_there() -> None:
    """Promise K4: no count is taken of what nobody asks about."""
    manager, session = filled(10**9)
    for number in range(2_000):
        manager.add_context(session.session_id, f"note {number}", MEMORY)

    assert not any("token_count" in block.__dict__ for block in session.blocks)
    assert session.metrics.total_tokens == sum(block.token_count for block in session.blocks)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
some_blocks = st.lists(
    st.builds(
        ContextBlock,
        id=st.uuids().map(str),
        content=texts,
        relevance_score=st.floats(0, 1, width=32),
        type=st.sampled_from(ContextType),
        metadata=st.dictionaries(texts, texts, max_size=3),
        timestamp=st.integers(0, 2**50),
        references=st.lists(texts, max_size=2),
    ),
    max_size=8,
    unique_by=lambda block: block.id,
)


@settings(max_examples=length(25, 100, 1000), deadline=None)
@given(some_blocks)
def test_a_session_comes_back_from_json_and_protobuf(blocks: list[ContextBlock]) -> None:
    """Promise K1: both round-trip."""
    session = ContextPackage("s", "a", blocks, ContextMetrics(0, 0.0, {}), 3, "trace")
    session.calculate_metrics()

    by_json, by_protobuf = from_json(to_json(session)), from_protobuf(to_protobuf(session))

    assert by_json == session
    assert by_protobuf.blocks == session.blocks
    assert by_protobuf.metrics.total_tokens == session.metrics.total_tokens
    assert by_protobuf.metrics.context_saturation == pytest.approx(
        session.metrics.context_saturation
    )
    assert (by_protobuf.version, by_protobuf.trace_id) == (3, "trace")


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff"],
)
def test_what_is_no_package_is_refused(body: bytes) -> None:
    with pytest.raises(Invalid):
        from_json(body)


def test_truncated_protobuf_is_refused() -> None:
    _, session = filled(100, SYSTEM, USER)
    whole = to_protobuf(session)

    for cut in range(1, len(whole)):
        try:
            read = from_protobuf(whole[:cut])
        except Invalid:
            continue
        assert len(read.blocks) < 2 or read.version != session.version or not read.trace_id


def test_the_window_keeps_system_and_the_newest_talk_in_order() -> None:
    """Promise K2: 70 % for the newest turns, then the rest by relevance."""
    manager, session = filled(10_000)
    for number in range(30):
        kind = (USER, AGENT, MEMORY)[number % 3]
        manager.add_context(session.session_id, f"turn number {number}", kind, number / 30)
        session.blocks[-1].timestamp = number
    manager.add_context(session.session_id, "be kind", SYSTEM)

    asyncio.run(ContextWindowOptimizer(manager).optimize_session(session.session_id, 60))

    assert session.metrics.total_tokens <= 60
    assert session.blocks[-1].type is SYSTEM
    stamps = [block.timestamp for block in session.blocks[:-1]]
    assert stamps == sorted(stamps)
    talk = [block for block in session.blocks if block.type in (USER, AGENT)]
    assert sum(block.token_count for block in talk) <= 0.7 * 60
    assert max(block.timestamp for block in talk) == 28


def test_the_window_is_filled_by_relevance_and_a_drop_says_the_true_reason() -> None:
    """Promise K3: an old turn of score 1.0 stays where there is room, one below 0.2 goes."""
    manager, session = filled(10_000)
    for number, score in enumerate((1.0, 0.05, 0.3, 0.3, 0.3, 0.3, 0.1)):
        turn = f"turn number {number} " + "and so on " * 5
        manager.add_context(session.session_id, turn, USER, score)
        session.blocks[-1].timestamp = number
    whole = session.metrics.total_tokens
    each = session.blocks[0].token_count

    asyncio.run(ContextWindowOptimizer(manager).optimize_session(session.session_id, 5 * each - 1))

    assert [block.timestamp for block in session.blocks] == [0, 3, 4, 5]
    free = 5 * each - 1 - session.metrics.total_tokens
    reasons = {drop.block.timestamp: drop.reason for drop in session.dropped}
    assert whole - session.metrics.total_tokens == 3 * each
    assert reasons == {
        1: "relevance 0.05 is below the threshold of 0.2",
        2: f"no room for its {each} tokens at rank 2 in a window of {5 * each - 1} tokens, "
        f"{3 * each} of them for SYSTEM and the newest turns",
        6: "relevance 0.10 is below the threshold of 0.2",
    }
    assert free < each


@settings(max_examples=length(15, 60, 600), deadline=None)
@given(
    sizes=st.lists(
        st.tuples(st.sampled_from(list(ContextType)), st.integers(1, 30), st.floats(0, 1)),
        min_size=1,
        max_size=20,
    ),
    tokens=st.integers(40, 200),
)
def test_whatever_is_dropped_for_room_would_not_have_fitted(
    sizes: list[tuple[ContextType, int, float]], tokens: int
) -> None:
    """Promise K3: for both optimizers."""
    for optimizer in (ContextWindowOptimizer, RealTimeContextOptimizer):
        manager, session = filled(100_000)
        for number, (kind, words, score) in enumerate(sizes):
            kind = AGENT if kind is SYSTEM else kind
            manager.add_context(session.session_id, f"{number}" + " word" * words, kind, score)
        before = session.metrics.total_tokens

        if optimizer is ContextWindowOptimizer:
            asyncio.run(optimizer(manager).optimize_session(session.session_id, tokens))
        else:
            real_time = RealTimeContextOptimizer(manager, tokens)
            asyncio.run(real_time.optimize_session(session.session_id))

        free = tokens - session.metrics.total_tokens
        assert free >= 0
        assert before > tokens or not session.dropped
        for drop in session.dropped:
            if drop.reason.startswith("no room"):
                assert drop.block.token_count > free
            else:
                assert drop.block.relevance_score < manager.relevance_threshold
                assert "below the threshold" in drop.reason


def test_relevance_is_an_index_that_follows_changes() -> None:
    """Promises K2, K4."""
    manager, session = filled(10_000)
    ids = [
        manager.add_context(session.session_id, text, MEMORY)
        for text in ("the router is red", "lunch is soup", "the modem blinks")
    ]
    manager.add_context(session.session_id, "be kind", SYSTEM)
    calculator = ContextualRelevanceCalculator()

    calculator.update_relevance_scores("which router", manager, session.session_id)

    scores = {block.id: block.relevance_score for block in session.blocks}
    assert scores[ids[0]] == 1.0
    assert scores[ids[1]] == 0.0
    assert session.blocks[-1].relevance_score == 1.0
    session.blocks[1].content = "another router for lunch"
    assert calculator.calculate_relevance("lunch", session.blocks[:3])[ids[1]] == 1.0
    assert set(calculator.calculate_relevance(" ", session.blocks).values()) == {0.5}


def test_decay_does_not_compound() -> None:
    """Promise K5: 0.95 a minute of age, floor 0.1, however often it is applied."""
    manager, session = filled(8_192, MEMORY, MEMORY)
    session.blocks[0].timestamp -= 10 * 60_000
    session.blocks[1].timestamp -= 10**9
    optimizer = RealTimeContextOptimizer(manager)

    for _ in range(5):
        asyncio.run(optimizer.optimize_session(session.session_id))

    assert session.blocks[0].relevance_score == pytest.approx(0.5 * 0.95**10, rel=0.01)
    assert session.blocks[1].relevance_score == 0.1


def test_the_real_time_loop_keeps_to_its_budget_until_it_is_stopped() -> None:
    """Promise K2: priority SYSTEM, recent talk, TOOL, MEMORY, KNOWLEDGE."""
    manager, session = filled(
        8_192, SYSTEM, ContextType.KNOWLEDGE, MEMORY, ContextType.TOOL, AGENT, USER
    )
    optimizer = RealTimeContextOptimizer(manager, token_budget=12, optimization_interval=0)

    async def loop() -> None:
        running = asyncio.create_task(optimizer.start_optimization_loop(session.session_id))
        while not session.dropped:  # noqa: ASYNC110 - the loop under test has no event to wait for.
            await asyncio.sleep(0)
        optimizer.stop_optimization_loop()
        await running

    asyncio.run(asyncio.wait_for(loop(), 30))

    assert [block.type for block in session.blocks] == [SYSTEM, ContextType.TOOL, AGENT, USER]
    assert optimizer.performance_metrics


def test_memory_is_saved_and_the_whole_stays_in_the_relay() -> None:
    """Promise K8."""
    with Relay("memory:") as relay:
        manager = ContextManager(100_000, relay=relay)
        session = manager.sessions[manager.create_session("agent")]
        long = " ".join(f"word{number}" for number in range(2_000))
        for content, metadata in (
            ("same", {"note": "x" * 200, "empty": ""}),
            ("same", {}),
            (long, {}),
        ):
            manager.add_context(session.session_id, content, MEMORY, 0.5, metadata)

        saved = ContextMemoryOptimizer(manager).optimize_memory_usage(session.session_id)

        assert saved > 0
        assert [each.reason for each in session.dropped] == [f"duplicate of {session.blocks[0].id}"]
        assert session.blocks[0].metadata == {"note": "x" * 97 + "..."}
        cut = session.blocks[1]
        assert cut.content.endswith("word949 [... content truncated ...]")
        assert cut.token_count == count_tokens(cut.content)
        assert relay.pull(cut.metadata["whole"]).decode() == long


def test_one_at_a_time_in_a_session_and_so_many_in_all() -> None:
    """Promise K8: concurrency limits."""
    manager = ContextConcurrencyManager(max_concurrent_sessions=2, max_concurrent_contexts=3)
    inside: dict[str, int] = {}
    most = {"one": 0, "all": 0, "operations": 0}

    async def work(session: str) -> None:
        async with manager.session_context(session):
            inside[session] = inside.get(session, 0) + 1
            most["one"] = max(most["one"], inside[session])
            most["all"] = max(most["all"], sum(inside.values()))
            await asyncio.sleep(0)
            inside[session] -= 1

    async def operate() -> None:
        async with manager.context_operation():
            inside["op"] = inside.get("op", 0) + 1
            most["operations"] = max(most["operations"], inside["op"])
            await asyncio.sleep(0)
            inside["op"] -= 1

    async def every() -> None:
        await asyncio.gather(*(work(f"s{number % 4}") for number in range(20)))
        await asyncio.gather(*(operate() for _ in range(20)))

    asyncio.run(every())
    manager.cleanup_session("s1")

    assert most == {"one": 1, "all": 2, "operations": 3}
    assert set(manager.session_locks) == {"s0", "s2", "s3"}
