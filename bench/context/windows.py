"""The context benchmark: add, format, prune, relevance, pack and export, ours and the article's.

Rule: both get the same blocks in the same run, and times are the processor's. What would take the
article's way too long is not waited for, and said so; a figure that was not measured is not there.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.context.article import ArticleSession
from contextrelay.content.tokens import count_tokens
from contextrelay.context.benchmarks import BenchmarkResult
from contextrelay.context.blocks import ContextType
from contextrelay.context.codec import to_json
from contextrelay.context.sessions import ContextManager
from contextrelay.errors import Unavailable
from contextrelay.model.package import Block
from contextrelay.packing.pack import pack
from contextrelay.packing.relevance import Relevance
from contextrelay.store.durable_files import write_whole

ROUNDS = 5
BUDGET_TOKENS = 4_096
_WORDS = 5_000
_QUERIES = 20
_PLENTY = 10**12


class Line(Struct, frozen=True, kw_only=True):
    """One operation at one size; times in seconds, by the article's way only where measured."""

    operation: str
    blocks: int
    mean_s: float
    p95_s: float
    tokens_per_second: float
    article_mean_s: float | None = None
    ratio: float | None = None
    """How many times as long the article's way takes."""
    note: str = ""


def lines(sizes: tuple[int, ...], article_blocks_max: int) -> Iterator[Line]:
    """Measure every operation at every size, the smallest first."""
    for size in sizes:
        bench = _Bench(size, size <= article_blocks_max)
        # What was loaded and measured before is not looked through for garbage again and again.
        gc.collect()
        gc.freeze()
        for name in ("add", "format", "prune", "relevance", "pack", "export"):
            yield bench.line(name)
    gc.unfreeze()


class _Bench:
    """Both sides, with the same blocks."""

    def __init__(self, size: int, has_article: bool) -> None:
        self._size = size
        chance = random.Random(size)
        names = ["".join(chance.choices("abcdefghijklmnoprstuvw", k=7)) for _ in range(_WORDS)]
        weights = [1 / (place + 10) for place in range(_WORDS)]
        self._texts = [" ".join(chance.choices(names, weights, k=40)) for _ in range(size)]
        self._queries = [" ".join(chance.choices(names, weights, k=6)) for _ in range(_QUERIES)]
        self._tokens = count_tokens(self._texts[0])
        self._manager = ContextManager(_PLENTY)
        self._session = self._manager.create_session("bench")
        self._article = ArticleSession(_PLENTY) if has_article else None
        self._index = Relevance()
        self._blocks: list[Block] = []

    def line(self, name: str) -> Line:
        ours, tokens = getattr(self, f"_{name}")()
        article, note = None, ""
        if self._article is None:
            note = "the article's way takes too long here"
        else:
            try:
                article = getattr(self, f"_article_{name}")(self._article)
            except Unavailable as error:
                note = str(error)
        result = BenchmarkResult(name, ours, [tokens] * len(ours))
        mean = None if article is None else sum(article) / len(article)
        return Line(
            operation=name,
            blocks=self._size,
            mean_s=result.mean_time,
            p95_s=result.p95_time,
            tokens_per_second=result.tokens_per_second,
            article_mean_s=mean,
            ratio=None if mean is None else mean / result.mean_time,
            note=note,
        )

    # Ours

    def _add(self) -> tuple[list[float], int]:
        times = [
            _timed(lambda text=text: self._manager.add_context(self._session, text, MEMORY, 0.5))
            for text in self._texts
        ]
        self._blocks = [Block(str(place), text) for place, text in enumerate(self._texts)]
        for block in self._blocks:
            self._index.add(block)
        return times, self._tokens

    def _format(self) -> tuple[list[float], int]:
        times = _rounds(lambda: self._manager.get_formatted_context(self._session))
        return times, self._tokens * self._size

    def _prune(self) -> tuple[list[float], int]:
        times: list[float] = []
        for _ in range(ROUNDS):
            manager = ContextManager(_PLENTY)
            session = manager.create_session("bench")
            for place, text in enumerate(self._texts):
                manager.add_context(session, text, MEMORY, place / self._size)
            total = manager.sessions[session].metrics.total_tokens
            manager.max_tokens = total
            times.append(_timed(lambda: manager._prune_context(session)))  # pyright: ignore[reportPrivateUsage]  # noqa: B023
        return times, self._tokens * self._size

    def _relevance(self) -> tuple[list[float], int]:
        times = [_timed(lambda query=query: self._index.scores(query)) for query in self._queries]
        return times, self._tokens * self._size

    def _pack(self) -> tuple[list[float], int]:
        counted = {block.content: count_tokens(block.content) for block in self._blocks}
        times = [
            _timed(
                lambda query=query: pack(
                    self._blocks,
                    query,
                    BUDGET_TOKENS,
                    relevance=self._index,
                    count=counted.__getitem__,
                )
            )
            for query in self._queries[:ROUNDS]
        ]
        return times, self._tokens * self._size

    def _export(self) -> tuple[list[float], int]:
        session = self._manager.sessions[self._session]
        session.calculate_metrics()  # Counted once, and not while it is measured.
        return _rounds(lambda: to_json(session)), self._tokens * self._size

    # The article's

    def _article_add(self, article: ArticleSession) -> list[float]:
        return [_timed(lambda text=text: article.add(text, 0.5)) for text in self._texts]

    def _article_format(self, article: ArticleSession) -> list[float]:
        return _rounds(article.format)

    def _article_prune(self, article: ArticleSession) -> list[float]:
        times: list[float] = []
        for _ in range(ROUNDS):
            full = ArticleSession(article.metrics["total_tokens"])
            full.blocks = list(article.blocks)
            times.append(_timed(full.prune))
        return times

    def _article_relevance(self, article: ArticleSession) -> list[float]:
        article.relevance(self._queries[0])  # What it imports is not counted.
        return [
            _timed(lambda query=query: article.relevance(query)) for query in self._queries[:ROUNDS]
        ]

    def _article_pack(self, article: ArticleSession) -> list[float]:
        return [
            _timed(lambda query=query: article.pack(query, BUDGET_TOKENS))
            for query in self._queries[:ROUNDS]
        ]

    def _article_export(self, article: ArticleSession) -> list[float]:
        return _rounds(article.export)


MEMORY = ContextType.MEMORY


def _timed(act: Callable[[], Any]) -> float:
    """The processor's time, not the clock's: nothing here waits, and others may be at work."""
    start = time.thread_time()
    act()
    return time.thread_time() - start


def _rounds(act: Callable[[], Any]) -> list[float]:
    return [_timed(act) for _ in range(ROUNDS)]


def plot(lines: list[Line], folder: Path) -> list[Path]:
    """Draw the lines as PNG and SVG into a folder; the files.

    Raises:
        Unavailable: matplotlib is not installed.
    """
    try:
        matplotlib: Any = import_module("matplotlib")
        matplotlib.use("Agg")
        plots: Any = import_module("matplotlib.pyplot")
    except ImportError as error:
        raise Unavailable(
            "matplotlib is not installed", "pip install 'contextrelay[plots]'"
        ) from error
    names = list(dict.fromkeys(line.operation for line in lines))
    figure, axes = plots.subplots(2, -(-len(names) // 2), figsize=(14, 7), squeeze=False)
    for axis, name in zip(axes.flat, names, strict=False):
        some = [line for line in lines if line.operation == name]
        axis.plot([line.blocks for line in some], [line.mean_s * 1e3 for line in some], "o-")
        both = [(line.blocks, line.article_mean_s * 1e3) for line in some if line.article_mean_s]
        if both:
            axis.plot([each[0] for each in both], [each[1] for each in both], "s--")
        axis.set_title(name)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("blocks")
        axis.set_ylabel("ms, mean")
        axis.legend(["ours", "the article's"][: 1 + bool(both)])
        axis.grid(visible=True, alpha=0.3)
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"context.{form}" for form in ("png", "svg")]
    for file in files:
        drawn = BytesIO()
        figure.savefig(drawn, format=file.suffix[1:])
        # A link that stands there is replaced, not written through.
        write_whole(file, [drawn.getvalue()])
    plots.close(figure)
    return files
