"""The article's call sequences, as its readers would write them, on clients supplied here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from contextrelay import BudgetTooSmall, Invalid
from contextrelay.context import (
    AgentCoordinator,
    ContextAwareIntentAgent,
    ContextAwareTechnicalAgent,
    ContextBenchmark,
    ContextBlock,
    ContextConcurrencyManager,
    ContextManager,
    ContextMemoryOptimizer,
    ContextMetrics,
    ContextPackage,
    ContextType,
    ContextualRelevanceCalculator,
    ContextWindowOptimizer,
    DistributedContextStore,
    MetricsCollector,
    ProductionMonitor,
    RealTimeContextOptimizer,
    start_pilot,
    start_service,
)
from contextrelay.context.codec import from_json, from_protobuf, to_json, to_protobuf
from tests.store.engines import Servers
from tests.telecom import Network, Scripted


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


def test_blocks_and_metrics_can_be_handled_by_hand() -> None:
    """Promise K2: packages built, filled and counted without a manager."""
    package = ContextPackage(
        session_id="s",
        agent_id="a",
        blocks=[],
        metrics=ContextMetrics(total_tokens=0, context_saturation=0.0, type_distribution={}),
    )
    package.blocks.append(ContextBlock("1", "hello there", 0.9, ContextType.USER))
    package.blocks.append(ContextBlock("2", "hi", 0.9, ContextType.AGENT, token_count=2))

    package.calculate_metrics()

    fields = package.to_dict()
    assert fields["metrics"]["total_tokens"] == package.blocks[0].token_count + 2
    assert sum(fields["metrics"]["type_distribution"].values()) == pytest.approx(1)
    assert (fields["version"], len(fields["trace_id"])) == (1, 36)


def test_the_benchmark_is_run_and_plotted(tmp_path: Path) -> None:
    """Promise K2: every run of the suite with its keywords, then one picture of all."""
    pytest.importorskip("matplotlib").use("Agg")
    benchmark = ContextBenchmark(ContextManager(max_tokens=8_192))

    async def run() -> None:
        await benchmark.run_add_context_benchmark(iterations=30, content_size=50)
        await benchmark.run_format_context_benchmark(iterations=30, block_count=5)
        await benchmark.run_prune_context_benchmark(iterations=5, initial_blocks=20)

    asyncio.run(run())
    for name in ("plot.png", "plot.svg"):
        benchmark.plot_results(save_path=str(tmp_path / name))
        assert (tmp_path / name).stat().st_size > 5_000

    assert list(benchmark.results) == ["add_context", "format_context", "prune_context"]
    for result in benchmark.results.values():
        assert result.mean_time > 0
        assert result.tokens_per_second > 0


def test_pruning_can_be_forced_as_its_benchmark_does() -> None:
    """Promise K2: saturation is set by hand, and the session is pruned if it is too full."""
    manager = ContextManager(max_tokens=100)
    session_id = manager.create_session("benchmark")
    for number in range(8):
        manager.add_context(session_id, "word " * 10, ContextType.MEMORY, number / 8)
    manager.sessions[session_id].metrics.context_saturation = 0.95

    manager._prune_context(session_id)  # pyright: ignore[reportPrivateUsage]

    assert manager.sessions[session_id].metrics.total_tokens <= 80


def test_a_session_is_shared_changed_in_part_and_deleted(redis_url: str) -> None:
    """Promise K2: the distributed store, by its keywords."""
    store = DistributedContextStore(redis_url, ttl=1_800)
    manager = ContextManager()
    session_id = manager.create_session("agent")
    manager.add_context(session_id, "first", ContextType.USER)
    session = manager.sessions[session_id]

    store.store_session(session)
    session.blocks[0].relevance_score = 0.25
    store.update_block(session_id, session.blocks[0])
    found = store.retrieve_session(session_id)
    store.delete_session(session_id)

    assert found is not None
    assert found.blocks[0].relevance_score == 0.25
    assert store.retrieve_session(session_id) is None
    store.close()


def test_the_telecom_service_is_wired_as_the_article_does_it(redis_url: str) -> None:
    """Promises K2, K8: telecom_service_enhancement, with the clients supplied here."""
    model = Scripted('{"primary_intent": "network outage"}', '{"root_cause": "fibre cut"}')

    async def telecom_service() -> Any:
        context_store = DistributedContextStore(redis_url)
        manager = ContextManager(max_tokens=8_192)
        optimizer = RealTimeContextOptimizer(
            context_manager=manager,
            token_budget=4_096,
            optimization_interval=0.05,
            relevance_decay_factor=0.98,
        )
        intent_agent = ContextAwareIntentAgent(
            llm_client=model, agent_role="intent_agent", context_manager=manager
        )
        technical_agent = ContextAwareTechnicalAgent(
            llm_client=model, network_api=Network(), context_manager=manager
        )
        coordinator = AgentCoordinator(
            agents={"intent": intent_agent, "technical": technical_agent},
            context_manager=manager,
            context_store=context_store,
        )
        metrics_collector = MetricsCollector(prometheus_endpoint="http://127.0.0.1:9/metrics")
        service = await start_service(coordinator, metrics_collector)
        answer = await service.handle("No signal at all", "c7")
        await optimizer.optimize_session(answer["session_id"])
        return answer, context_store, coordinator

    answer, context_store, coordinator = asyncio.run(telecom_service())

    assert answer["diagnosis"]["root_cause"] == "fibre cut"
    stored = context_store.retrieve_session(answer["session_id"])
    kinds = [block.type.name for block in stored.blocks]
    assert kinds == ["SYSTEM", "USER", "AGENT", "USER", "MEMORY", "TOOL", "AGENT"]
    assert coordinator.resume(answer["session_id"], "technical")
    context_store.close()


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


@pytest.mark.parametrize("tokens", [0, -1])
def test_a_budget_of_nothing_is_refused_everywhere(tokens: int) -> None:
    """Promise K3: negative or zero."""
    manager = ContextManager()
    session_id = manager.create_session("a")
    for act in (
        lambda: ContextManager(max_tokens=tokens),
        lambda: RealTimeContextOptimizer(manager, token_budget=tokens),
        lambda: asyncio.run(ContextWindowOptimizer(manager).optimize_session(session_id, tokens)),
    ):
        with pytest.raises(Invalid, match="budget"):
            act()


def test_system_blocks_larger_than_a_window_are_an_error_and_change_nothing() -> None:
    """Promise K3: BudgetTooSmall, by every way of bringing a session within a budget."""
    manager = ContextManager(max_tokens=1_000)
    session_id = manager.create_session("a")
    manager.add_context(session_id, "rule " * 100, ContextType.SYSTEM)
    manager.add_context(session_id, "hello", ContextType.USER)
    session = manager.sessions[session_id]
    small = ContextManager(max_tokens=50)

    for act in (
        lambda: asyncio.run(ContextWindowOptimizer(manager).optimize_session(session_id, 50)),
        lambda: asyncio.run(
            RealTimeContextOptimizer(manager, token_budget=50).optimize_session(session_id)
        ),
        lambda: small.import_session(manager.export_session(session_id)),
    ):
        with pytest.raises(BudgetTooSmall, match="SYSTEM blocks take"):
            act()

    assert [block.type.name for block in session.blocks] == ["SYSTEM", "USER"]
    assert small.sessions == {}


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -float("inf")])
def test_a_relevance_that_is_no_number_is_refused(score: float) -> None:
    """Promise K2: NaN would make an order of nothing."""
    manager = ContextManager()
    session_id = manager.create_session("a")

    with pytest.raises(Invalid, match="relevance"):
        manager.add_context(session_id, "x", ContextType.USER, score)

    assert manager.sessions[session_id].blocks == []


def test_a_type_that_is_none_is_refused() -> None:
    """Promise K2: unknown types."""
    manager = ContextManager()
    session_id = manager.create_session("a")
    kind: Any = "USER"

    with pytest.raises(Invalid, match="ContextType"):
        manager.add_context(session_id, "x", kind)


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


def test_half_a_character_is_refused_and_leaves_the_session_as_it_was() -> None:
    """Promise K2."""
    manager = ContextManager()
    session_id = manager.create_session("a")

    with pytest.raises(Invalid, match="half a character"):
        manager.add_context(session_id, "x\ud800y", ContextType.USER)

    assert manager.sessions[session_id].blocks == []
    assert manager.sessions[session_id].metrics.total_tokens == 0
