"""Monitoring: requests, durations and tokens, for Prometheus and for reports.

Rule: nothing is sent automatically. Callers read the figures, or call `push`.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from contextrelay.errors import Unavailable

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
