"""The article's call sequences, as its readers would write them, on clients supplied here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from typing import Any

import pytest

from contextrelay import Invalid
from contextrelay.context import (
    ContextAwareIntentAgent,
    ContextConcurrencyManager,
    ContextManager,
    ContextMemoryOptimizer,
    ContextType,
    ContextualRelevanceCalculator,
    ContextWindowOptimizer,
    DistributedContextStore,
    ProductionMonitor,
    RealTimeContextOptimizer,
    start_pilot,
)
from contextrelay.context.codec import from_json, from_protobuf, to_json, to_protobuf
from tests.store.engines import Servers
from tests.telecom import Scripted


@pytest.fixture(scope="module")
def redis_url() -> Generator[str]:
    servers = Servers()
    yield servers.single()
    servers.stop()


def test_add_format_score_optimise_shrink_and_move_in_one_go() -> None:
    """Promise K2: the sequence of its chapters on one session."""
    manager = ContextManager(max_tokens=600, relevance_threshold=0.2)
    session_id = manager.create_session("support")
    manager.add_context(
        session_id=session_id,
        content="Be brief.",
        context_type=ContextType.SYSTEM,
        relevance_score=1.0,
        metadata={"type": "system_prompt"},
    )
    for number in range(20):
        kind = (ContextType.USER, ContextType.AGENT, ContextType.TOOL)[number % 3]
        manager.add_context(session_id, f"turn {number} about the router and its lamp", kind, 0.6)
    session = manager.sessions[session_id]

    ContextualRelevanceCalculator().update_relevance_scores("which lamp?", manager, session_id)
    asyncio.run(ContextWindowOptimizer(manager).optimize_session(session_id, max_tokens=120))
    saved = ContextMemoryOptimizer(manager).optimize_memory_usage(session_id)
    text = manager.get_formatted_context(session_id)
    other = ContextManager(max_tokens=600)
    moved = other.import_session(json.loads(json.dumps(manager.export_session(session_id))))

    assert text.startswith("[SYSTEM]\nBe brief.\n\n[")
    assert session.metrics.total_tokens <= 120
    assert len(session.blocks) + len(session.dropped) == 21
    assert saved >= 0
    assert other.get_formatted_context(moved) == text


def test_the_pilot_is_deployed_as_the_article_does_it(redis_url: str) -> None:
    """Promise K2: pilot_deployment; 5 % of the callers, and the same ones each time."""
    calls = 200
    model = Scripted(*['{"primary_intent": "billing"}'] * calls)

    async def pilot_deployment() -> Any:
        context_store = DistributedContextStore(redis_url, ttl=1_800)
        agent = ContextAwareIntentAgent(
            llm_client=model,
            agent_role="intent_agent",
            context_manager=ContextManager(max_tokens=4_096),
        )
        monitor = ProductionMonitor(
            datadog_api_key="YOUR_API_KEY", experiment_name="pycontext_pilot", sample_rate=0.1
        )
        pilot = await start_pilot(
            agent=agent, context_store=context_store, traffic_ratio=0.05, monitor=monitor
        )
        shares = [pilot.takes(f"caller {number}") for number in range(2_000)]
        for number in range(20):
            await pilot.handle("Where is my bill?", f"caller {number}")
        return pilot, shares, context_store

    pilot, shares, context_store = asyncio.run(pilot_deployment())

    assert 60 < sum(shares) < 140
    report = pilot.report()
    assert report["experiment"] == "pycontext_pilot"
    assert sum(arm["interactions"] for arm in report["arms"].values()) == 20
    assert context_store.retrieve_session(pilot.agent.session_id) is not None
    context_store.close()


def test_locks_are_held_by_session_as_the_article_does_it() -> None:
    """Promises K2, K8."""
    locks = ContextConcurrencyManager(max_concurrent_sessions=10, max_concurrent_contexts=10)

    async def work() -> str:
        async with locks.session_context("s"), locks.context_operation():
            return "done"

    assert asyncio.run(work()) == "done"
    locks.cleanup_session("s")
    assert locks.session_locks == {}


def test_a_budget_of_nothing_is_refused_everywhere() -> None:
    """Promise K3: negative or zero."""
    tokens = 0
    manager = ContextManager()
    session_id = manager.create_session("a")
    for act in (
        lambda: ContextManager(max_tokens=tokens),
        lambda: RealTimeContextOptimizer(manager, token_budget=tokens),
        lambda: asyncio.run(ContextWindowOptimizer(manager).optimize_session(session_id, tokens)),
    ):
        with pytest.raises(Invalid, match="budget"):
            act()


def test_a_relevance_that_is_no_number_is_refused() -> None:
    """Promise K2: NaN would make an order of nothing."""
    score = float("nan")
    manager = ContextManager()
    session_id = manager.create_session("a")

    with pytest.raises(Invalid, match="relevance"):
        manager.add_context(session_id, "x", ContextType.USER, score)

    assert manager.sessions[session_id].blocks == []


def test_what_is_imported_is_counted_here_and_kept_within_the_budget() -> None:
    """Promise K3: the counts of others are words, or worse."""
    giver = ContextManager(max_tokens=100_000)
    session_id = giver.create_session("a")
    for number in range(100):
        giver.add_context(session_id, f"internationalisation, {number}!", ContextType.MEMORY)
    exported = giver.export_session(session_id)
    for block in exported["blocks"]:
        block["token_count"] = 0
    receiver = ContextManager(max_tokens=200)

    receiver.import_session(exported)

    session = receiver.sessions[session_id]
    assert 0 < session.metrics.total_tokens <= 200
    assert len(session.blocks) + len(session.dropped) == 100


def test_a_package_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    """Promise K1: more fields are passed over; a type that is not known is refused."""
    manager = ContextManager()
    session_id = manager.create_session("a")
    manager.add_context(session_id, "x", ContextType.USER)
    session = manager.sessions[session_id]
    later = json.loads(to_json(session)) | {"colour": "red"}
    field_99 = b"\x9a\x06\x03red"

    assert from_json(json.dumps(later).encode()) == session
    assert from_protobuf(to_protobuf(session) + field_99).blocks == session.blocks
    later["blocks"][0]["type"] = "PICTURE"
    with pytest.raises(Invalid, match="PICTURE"):
        from_json(json.dumps(later).encode())
    with pytest.raises(Invalid):
        from_protobuf(to_protobuf(session).replace(b"\x30\x01", b"\x30\x09"))
    for version in (0, -1, "2", None):
        with pytest.raises(Invalid):
            from_json(json.dumps(later | {"version": version}).encode())
