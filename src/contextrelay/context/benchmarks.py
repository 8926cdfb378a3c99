"""Benchmarks: the time to add, format and prune blocks, measured as in the article."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from contextrelay.content.tokens import count_tokens
from contextrelay.context.blocks import ContextType
from contextrelay.context.sessions import ContextManager
from contextrelay.errors import Unavailable


@dataclass
class BenchmarkResult:
    """The times of one operation in seconds, and the tokens of each run."""

    operation: str
    times: list[float]
    token_counts: list[int]

    @property
    def mean_time(self) -> float:
        return statistics.mean(self.times)

    @property
    def p95_time(self) -> float:
        return statistics.quantiles(self.times, n=20)[18]

    @property
    def tokens_per_second(self) -> float:
        total = sum(self.times)
        return sum(self.token_counts) / total if total > 0 else 0


class ContextBenchmark:
    """Benchmarks of a context manager."""

    def __init__(self, context_manager: ContextManager) -> None:
        self.context_manager = context_manager
        self.results: dict[str, BenchmarkResult] = {}

    async def run_add_context_benchmark(
        self, iterations: int = 100, content_size: int = 500
    ) -> BenchmarkResult:
        """Measure adding blocks of `content_size` words."""
        session_id = self.context_manager.create_session("benchmark")
        times: list[float] = []
        counts: list[int] = []
        for number in range(iterations):
            content = f"Benchmark content iteration {number} " + "word " * content_size
            start = time.perf_counter()
            self._add(session_id, content, 0.5)
            times.append(time.perf_counter() - start)
            counts.append(count_tokens(content))
        return self._kept("add_context", times, counts)

    async def run_format_context_benchmark(
        self, iterations: int = 100, block_count: int = 20
    ) -> BenchmarkResult:
        """Measure formatting a session of `block_count` blocks."""
        session_id = self.context_manager.create_session("benchmark")
        for number in range(block_count):
            self._add(session_id, f"Benchmark content block {number} " + "word " * 100, 0.5)
        times: list[float] = []
        text = ""
        for _ in range(iterations):
            start = time.perf_counter()
            text = self.context_manager.get_formatted_context(session_id)
            times.append(time.perf_counter() - start)
        return self._kept("format_context", times, [count_tokens(text)] * iterations)

    async def run_prune_context_benchmark(
        self, iterations: int = 100, initial_blocks: int = 100
    ) -> BenchmarkResult:
        """Measure pruning sessions of `initial_blocks` blocks."""
        times: list[float] = []
        counts: list[int] = []
        for _ in range(iterations):
            session_id = self.context_manager.create_session("benchmark")
            for number in range(initial_blocks):
                content = f"Benchmark content block {number} " + "word " * 50
                self._add(session_id, content, number / initial_blocks)
            start = time.perf_counter()
            self.context_manager._prune_context(session_id)  # pyright: ignore[reportPrivateUsage]
            times.append(time.perf_counter() - start)
            counts.append(self.context_manager.sessions.pop(session_id).metrics.total_tokens)
        return self._kept("prune_context", times, counts)

    def _add(self, session_id: str, content: str, relevance: float) -> None:
        self.context_manager.add_context(session_id, content, ContextType.MEMORY, relevance)

    def _kept(self, operation: str, times: list[float], counts: list[int]) -> BenchmarkResult:
        result = self.results[operation] = BenchmarkResult(operation, times, counts)
        return result

    def plot_results(self, save_path: str | None = None) -> None:
        """Plot the results as bars, to a file or else in a window.

        Raises:
            ValueError: there are no results yet.
            Unavailable: matplotlib is not installed.
        """
        if not self.results:
            raise ValueError("No benchmark results to plot")
        try:
            plots: Any = import_module("matplotlib.pyplot")
        except ImportError as error:
            hint = "pip install 'contextrelay[plots]'"
            raise Unavailable("matplotlib is not installed", hint) from error
        figure, axes = plots.subplots(1, 3, figsize=(18, 6))
        names = list(self.results)
        for axis, title, unit, field in (
            (axes[0], "Mean operation time", "s", "mean_time"),
            (axes[1], "p95 operation time", "s", "p95_time"),
            (axes[2], "Throughput", "tokens/s", "tokens_per_second"),
        ):
            axis.bar(names, [getattr(each, field) for each in self.results.values()])
            axis.set_title(title)
            axis.set_ylabel(unit)
        figure.tight_layout()
        if save_path:
            figure.savefig(save_path)
            plots.close(figure)
        else:
            plots.show()
