"""Agents, services, pilots and benchmarks of the article's layer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from contextrelay.context import (
    AgentCoordinator,
    BenchmarkResult,
    ContextAwareIntentAgent,
    ContextAwareTechnicalAgent,
    ContextBenchmark,
    ContextManager,
    MetricsCollector,
    ProductionMonitor,
    start_pilot,
    start_service,
)
from tests.telecom import Network, Scripted


def test_an_agent_asks_its_model_with_its_session() -> None:
    """Promise K2: ContextAwareAgent."""
    model = Scripted('{"primary_intent": "technical_support", "confidence": 0.9}', "no JSON")
    agent = ContextAwareIntentAgent(llm_client=model, agent_role="intent_agent")

    answer = asyncio.run(agent.analyze_intent("My internet is slow"))
    unsure = asyncio.run(agent.analyze_intent("Hello?"))

    assert answer["primary_intent"] == "technical_support"
    assert unsure["primary_intent"] == "unknown"
    assert model.prompts[0].startswith("[SYSTEM]\n")
    assert "\n\n[USER]\nMy internet is slow\n\n[PROMPT]\n" in model.prompts[0]
    assert agent.session_id is not None
    scores = [
        block.relevance_score for block in agent.context_manager.sessions[agent.session_id].blocks
    ]
    assert scores == [1.0, 0.9, 0.9, 0.9, 0.9]


def test_the_telecom_service_passes_one_session_from_agent_to_agent() -> None:
    """Promise K8: the telecom example, end to end on a scripted model."""
    manager = ContextManager(max_tokens=8_192)
    model = Scripted(
        '{"primary_intent": "technical: slow connection"}', '{"root_cause": "packet loss"}'
    )
    coordinator = AgentCoordinator(
        agents={
            "intent": ContextAwareIntentAgent(model, "intent_agent", manager),
            "technical": ContextAwareTechnicalAgent(model, Network(), manager),
        },
        context_manager=manager,
    )
    metrics = MetricsCollector(prometheus_endpoint="http://127.0.0.1:9/metrics")

    async def serve() -> dict[str, Any]:
        service = await start_service(coordinator, metrics)
        answer = await service.handle("My internet is slow", "c42")
        await service.stop()
        with pytest.raises(RuntimeError):
            await service.handle("again")
        return answer

    answer = asyncio.run(serve())

    assert answer["diagnosis"]["root_cause"] == "packet loss"
    assert "packet_loss" in model.prompts[1]
    assert "technical: slow connection" in model.prompts[1], "the first agent's answer goes along"
    assert 'context_requests_total{agent="coordinator",result="ok"} 1.0' in metrics.render()


def test_a_pilot_takes_its_share_and_reports_both_sides() -> None:
    """Promise K2: start_pilot; the split is the same each time for the same caller."""
    calls = 400
    model = Scripted(*['{"primary_intent": "billing"}'] * calls)
    agent = ContextAwareIntentAgent(model)
    monitor = ProductionMonitor("key", "pycontext_pilot", sample_rate=0.5, seed=1)

    async def baseline(query: str) -> str:
        return "before"

    async def run() -> dict[str, Any]:
        pilot = await start_pilot(agent, None, 0.25, monitor, baseline)
        for number in range(calls):
            await pilot.handle("bill?", f"caller {number}")
        assert [pilot.takes("x")] * 3 == [pilot.takes("x") for _ in range(3)]
        return pilot.report()

    arms = asyncio.run(run())["arms"]

    assert arms["pilot"]["interactions"] + arms["baseline"]["interactions"] == calls
    assert 0.15 * calls < arms["pilot"]["interactions"] < 0.35 * calls
    assert arms["pilot"]["mean_tokens"] > 0
    assert 0.4 * calls < len(monitor.samples) < 0.6 * calls
    with pytest.raises(ValueError, match="between 0 and 1"):
        asyncio.run(start_pilot(agent, traffic_ratio=2))


def test_the_articles_benchmark_runs(tmp_path: Path) -> None:
    """Promise K2: ContextBenchmark."""
    benchmark = ContextBenchmark(ContextManager())
    with pytest.raises(ValueError, match="No benchmark results to plot"):
        benchmark.plot_results()

    async def run() -> list[BenchmarkResult]:
        return [
            await benchmark.run_add_context_benchmark(20, 50),
            await benchmark.run_format_context_benchmark(20, 5),
            await benchmark.run_prune_context_benchmark(3, 20),
        ]

    results = asyncio.run(run())

    assert [each.operation for each in results] == [
        "add_context", "format_context", "prune_context",
    ]  # fmt: skip
    assert all(0 < each.mean_time <= 10 * each.p95_time for each in results)
    assert all(each.tokens_per_second > 0 for each in results)
    pytest.importorskip("matplotlib").use("Agg")
    benchmark.plot_results(str(tmp_path / "plot.png"))
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
