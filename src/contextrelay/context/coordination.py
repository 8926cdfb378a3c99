"""Coordination: agents that hand over a session, a service with limits, and a pilot."""

from __future__ import annotations

import asyncio
import hashlib
import statistics
import time
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from contextrelay.context.agents import (
    ContextAwareAgent,
    ContextAwareIntentAgent,
    ContextAwareTechnicalAgent,
)
from contextrelay.context.distributed import DistributedContextStore
from contextrelay.context.sessions import ContextManager
from contextrelay.errors import Unavailable

Baseline = Callable[[str], Awaitable[Any]]
SESSIONS_MAX = 1_000
CONTEXTS_MAX = 5_000
_SPLIT = 2**32
_TECHNICAL = ("technical", "network", "outage", "slow", "connection")


class AgentCoordinator:
    """Detects the intent, then lets the agent for it continue the same session."""

    def __init__(
        self,
        agents: dict[str, ContextAwareAgent],
        context_manager: ContextManager | None = None,
        context_store: DistributedContextStore | None = None,
    ) -> None:
        self.agents = agents
        self.context_manager = context_manager or ContextManager()
        self.context_store = context_store

    async def process(self, query: str, customer_id: str = "") -> dict[str, Any]:
        """Handle one query: return the intent and, for a technical one, the diagnosis."""
        intent_agent = self.agents["intent"]
        assert isinstance(intent_agent, ContextAwareIntentAgent)
        await intent_agent.initialize_session()
        answer: dict[str, Any] = {"intent": await intent_agent.analyze_intent(query)}
        technical = self.agents.get("technical")
        intent = answer["intent"]
        words = f"{intent.get('primary_intent', '')} {intent.get('secondary_intents', '')}".lower()
        is_technical = any(word in words for word in _TECHNICAL)
        if isinstance(technical, ContextAwareTechnicalAgent) and is_technical:
            self.transfer("intent", "technical")
            answer["diagnosis"] = await technical.diagnose_issue(query, customer_id)
        answer["session_id"] = intent_agent.session_id
        self.save(intent_agent.session_id or "")
        return answer

    def transfer(self, giver: str, receiver: str) -> str:
        """Let one agent continue another's session; return the session's id.

        Raises:
            ValueError: the giver has no session.
        """
        session = self.agents[giver].export_context()
        self.agents[receiver].import_context(session)
        self.save(session["session_id"])
        return session["session_id"]

    def save(self, session_id: str) -> None:
        """Store a session for other servers, if a shared store is configured."""
        session = self.context_manager.sessions.get(session_id)
        if self.context_store is not None and session is not None:
            self.context_store.store_session(session)

    def resume(self, session_id: str, agent: str) -> bool:
        """Let an agent continue a stored session; return False if it does not exist."""
        if self.context_store is None:
            return False
        session = self.context_store.retrieve_session(session_id)
        if session is None:
            return False
        self.agents[agent].import_context(session.to_dict())
        return True


class ContextConcurrencyManager:
    """Locks and limits for concurrent users of a context manager."""

    def __init__(
        self,
        max_concurrent_sessions: int = SESSIONS_MAX,
        max_concurrent_contexts: int = CONTEXTS_MAX,
    ) -> None:
        self.session_semaphore = asyncio.Semaphore(max_concurrent_sessions)
        self.context_semaphore = asyncio.Semaphore(max_concurrent_contexts)
        self.session_locks: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def session_context(self, session_id: str) -> AsyncGenerator[None]:
        """Hold the exclusive lock of a session."""
        lock = self.session_locks.setdefault(session_id, asyncio.Lock())
        # The lock first: waiting for a session must not use up the limit for others.
        async with lock, self.session_semaphore:
            yield

    @asynccontextmanager
    async def context_operation(self) -> AsyncGenerator[None]:
        """Run one operation, within the limit of concurrent ones."""
        async with self.context_semaphore:
            yield

    def cleanup_session(self, session_id: str) -> None:
        """Remove the lock of a finished session, unless it is in use."""
        lock = self.session_locks.get(session_id)
        if lock is not None and not lock.locked():
            del self.session_locks[session_id]


class Service:
    """A running coordinator: one query per session at a time, each counted."""

    def __init__(self, coordinator: AgentCoordinator, metrics: MetricsCollector | None) -> None:
        self.coordinator = coordinator
        self.metrics = metrics
        self.is_running = True
        self._turns = ContextConcurrencyManager()

    async def handle(self, query: str, customer_id: str = "") -> dict[str, Any]:
        """Handle one query.

        Raises:
            RuntimeError: the service was stopped.
        """
        if not self.is_running:
            raise RuntimeError("the service was stopped")
        start, answer = time.perf_counter(), dict[str, Any]()
        # Agents have one session at a time, so their queries are sequential.
        async with self._turns.session_context("agents"), self._turns.context_operation():
            try:
                answer = await self.coordinator.process(query, customer_id)
                return answer
            finally:
                if self.metrics is not None:
                    sessions = self.coordinator.context_manager.sessions
                    session = sessions.get(answer.get("session_id", ""))
                    tokens = session.metrics.total_tokens if session else 0
                    seconds = time.perf_counter() - start
                    self.metrics.record("coordinator", seconds, tokens, bool(answer))

    async def stop(self) -> None:
        self.is_running = False


async def start_service(
    coordinator: AgentCoordinator, metrics_collector: MetricsCollector | None = None
) -> Service:
    """Start handling queries."""
    return Service(coordinator, metrics_collector)


class Pilot:
    """Sends a share of the traffic to an agent and the rest to the previous implementation."""

    def __init__(
        self,
        agent: ContextAwareIntentAgent,
        context_store: DistributedContextStore | None,
        traffic_ratio: float,
        monitor: ProductionMonitor,
        baseline: Baseline | None,
    ) -> None:
        self.agent = agent
        self.context_store = context_store
        self.traffic_ratio = traffic_ratio
        self.monitor = monitor
        self.baseline = baseline

    def takes(self, caller: str) -> bool:
        """Return True if a caller is in the pilot; the result for a caller never changes."""
        digest = hashlib.sha256(caller.encode()).digest()
        return int.from_bytes(digest[:4]) < self.traffic_ratio * _SPLIT

    async def handle(self, query: str, caller: str = "") -> Any:
        """Handle a query on the caller's side of the pilot."""
        is_pilot = self.takes(caller or str(uuid.uuid4()))
        start, is_good, tokens = time.perf_counter(), False, 0
        try:
            if is_pilot or self.baseline is None:
                await self.agent.initialize_session()
                answer = await self.agent.analyze_intent(query)
                session = self.agent.context_manager.session(self.agent.session_id or "")
                if self.context_store is not None:
                    self.context_store.store_session(session)
                tokens = session.metrics.total_tokens
            else:
                answer = await self.baseline(query)
            is_good = True
            return answer
        finally:
            arm = "pilot" if is_pilot or self.baseline is None else "baseline"
            seconds = time.perf_counter() - start
            self.monitor.record(arm, seconds, tokens, is_good, {"query": query})

    def report(self) -> dict[str, Any]:
        """Return the figures of pilot and baseline."""
        return self.monitor.report()


async def start_pilot(
    agent: ContextAwareIntentAgent,
    context_store: DistributedContextStore | None = None,
    traffic_ratio: float = 0.05,
    monitor: ProductionMonitor | None = None,
    baseline: Baseline | None = None,
) -> Pilot:
    """Start a pilot for a share of the traffic.

    Raises:
        ValueError: the ratio is not between 0 and 1.
    """
    if not 0 <= traffic_ratio <= 1:
        raise ValueError("traffic_ratio must be between 0 and 1")
    return Pilot(agent, context_store, traffic_ratio, monitor or ProductionMonitor(), baseline)


SAMPLES_MAX = 10_000


class MetricsCollector:
    """Counts requests, tokens and seconds, by agent."""

    def __init__(self, prometheus_endpoint: str | None = None) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Histogram
        except ImportError as error:
            hint = "pip install 'contextrelay[server]'"
            raise Unavailable("the Prometheus client is not installed", hint) from error
        self.prometheus_endpoint = prometheus_endpoint  # The push gateway for `push`.
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "context_requests", "Requests by agent and result.", ["agent", "result"],
            registry=self.registry,
        )  # fmt: skip
        self._tokens = Counter(
            "context_tokens", "Tokens of the sessions sent.", ["agent"], registry=self.registry
        )
        self._seconds = Histogram(
            "context_seconds", "How long requests took.", ["agent"], registry=self.registry
        )

    def record(self, agent: str, seconds: float, tokens: int, is_good: bool = True) -> None:
        """Count one request."""
        self._requests.labels(agent, "ok" if is_good else "error").inc()
        self._tokens.labels(agent).inc(tokens)
        self._seconds.labels(agent).observe(seconds)

    def render(self) -> str:
        """Return everything in the Prometheus text format."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry).decode()

    def push(self, job: str = "contextrelay") -> None:
        """Send everything to the push gateway.

        Raises:
            Unavailable: none is configured, or it cannot be reached.
        """
        from prometheus_client import push_to_gateway  # pyright: ignore[reportUnknownVariableType]

        if not self.prometheus_endpoint:
            hint = "MetricsCollector(prometheus_endpoint=...)"
            raise Unavailable("no push gateway: pass prometheus_endpoint", hint)
        try:
            push_to_gateway(self.prometheus_endpoint, job, self.registry)
        except OSError as error:
            wrong = f"{self.prometheus_endpoint} cannot be reached: {error}"
            raise Unavailable(wrong, "try again later") from error


class ProductionMonitor:
    """Records the requests of an experiment, a sample of them in detail."""

    def __init__(
        self,
        datadog_api_key: str | None = None,
        experiment_name: str = "experiment",
        sample_rate: float = 1.0,
        send: Callable[[dict[str, Any]], object] | None = None,
        seed: int | None = None,
    ) -> None:
        if not 0 <= sample_rate <= 1:
            raise ValueError("sample_rate must be between 0 and 1")
        self.datadog_api_key = datadog_api_key
        """For `send`, a callback that forwards interactions; not used otherwise."""
        self.experiment_name = experiment_name
        self.sample_rate = sample_rate
        self.samples: deque[dict[str, Any]] = deque(maxlen=SAMPLES_MAX)
        self._send = send
        self._chance = Random(seed)
        self._arms: dict[str, list[tuple[float, int, bool]]] = {}

    def record(
        self, arm: str, seconds: float, tokens: int, is_good: bool, detail: dict[str, Any]
    ) -> None:
        """Record one interaction."""
        seen = self._arms.setdefault(arm, [])
        seen.append((seconds, tokens, is_good))
        del seen[:-SAMPLES_MAX]
        if self._chance.random() < self.sample_rate:
            sample = {"experiment": self.experiment_name, "arm": arm, **detail}
            self.samples.append(sample)
            if self._send is not None:
                self._send(sample)

    def report(self) -> dict[str, Any]:
        """Return the figures of both arms: requests, durations, tokens, failures."""
        arms: dict[str, Any] = {}
        for arm, seen in sorted(self._arms.items()):
            times = [seconds for seconds, _, _ in seen]
            is_single = len(times) == 1
            arms[arm] = {
                "interactions": len(seen),
                "mean_seconds": statistics.fmean(times),
                "p95_seconds": times[0] if is_single else statistics.quantiles(times, n=20)[18],
                "mean_tokens": statistics.fmean(tokens for _, tokens, _ in seen),
                "failed": sum(not is_good for _, _, is_good in seen),
            }
        return {"experiment": self.experiment_name, "arms": arms}
