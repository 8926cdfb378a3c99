"""Scraping: GET /metrics, the figures of all processes as Prometheus reads them."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from contextrelay.client.transport.local import in_thread
from contextrelay.core.stores import Stores
from contextrelay.doors.build import build
from contextrelay.doors.http.metrics.metrics import (
    BOUNDS_S,
    IN_FLIGHT,
    PUSHES,
    SIGNALS,
    SUBSCRIBERS,
    Figures,
)
from contextrelay.doors.http.server.request import Exchange
from contextrelay.errors import Refused
from contextrelay.store.engine import DATABASE_NAME

if TYPE_CHECKING:
    from contextrelay.doors.http.app import Door
    from contextrelay.doors.http.server.router import Paths

NAME = "contextrelay"
LEDGER_FILES = (DATABASE_NAME, f"{DATABASE_NAME}-wal")


def add_to(paths: Paths) -> None:
    paths.add("GET", "/metrics", scrape)


async def scrape(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """The figures, in the format that is asked for: Prometheus text or OpenMetrics."""
    key = exchange.visitor.key
    if key is not None and not key.is_owners:
        raise Refused(
            "figures are those of the whole store", "use a key that is for all of it", status=403
        )
    spell, media_type = choose_encoder(exchange.header("accept"))

    def spelled() -> bytes:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collected(door.metrics.figures(), door.relay.stores))
        return spell(registry)

    text = await in_thread(spelled)
    await exchange.reply(200, text, media_type.encode(), [(b"cache-control", b"no-store")])


class _Collected(Collector):
    """Figures as metric families."""

    def __init__(self, figures: Figures, stores: Stores) -> None:
        self._figures = figures
        self._stores = stores

    def collect(self) -> Iterator[Metric]:
        yield from _requests(self._figures)
        yield from _doings(self._figures)
        yield from _store(self._stores)
        about = GaugeMetricFamily(f"{NAME}_build_info", "Which version runs.", labels=["version"])
        about.add_metric([build().version], 1)
        yield about


def _requests(figures: Figures) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        f"{NAME}_http_requests", "Requests answered.", labels=["route", "method", "status"]
    )
    seconds = HistogramMetricFamily(
        f"{NAME}_http_request_seconds",
        "From a request's headers to the end of its answer, waits for news included.",
        labels=["route"],
    )
    bytes_in = CounterMetricFamily(
        f"{NAME}_http_received_bytes", "Bodies of requests.", labels=["route"]
    )
    bytes_out = CounterMetricFamily(
        f"{NAME}_http_sent_bytes", "Bodies of answers.", labels=["route"]
    )
    buckets: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS_S) + 1))
    sums: dict[str, tuple[float, int, int]] = defaultdict(lambda: (0.0, 0, 0))
    for part in figures.parts():
        for status, count in part.statuses.items():
            requests.add_metric([part.path, part.method, status], count)
        summed = buckets[part.path]
        summed[:] = [mine + more for mine, more in zip(summed, part.buckets, strict=True)]
        took_s, came, went = sums[part.path]
        sums[part.path] = (took_s + part.seconds, came + part.bytes_in, went + part.bytes_out)
    for path, counts in buckets.items():
        took_s, came, went = sums[path]
        bounds = [*map(str, BOUNDS_S), "+Inf"]
        seconds.add_metric([path], list(zip(bounds, accumulate(counts), strict=True)), took_s)
        bytes_in.add_metric([path], came)
        bytes_out.add_metric([path], went)
    yield from (requests, seconds, bytes_in, bytes_out)


def _doings(figures: Figures) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        f"{NAME}_http_requests_in_flight",
        "Requests that are being answered now.",
        figures.free(IN_FLIGHT),
    )
    yield GaugeMetricFamily(
        f"{NAME}_subscribers",
        "Who waits for news now: WebSockets, streams of events, long-polls.",
        figures.free(SUBSCRIBERS),
    )
    yield CounterMetricFamily(
        f"{NAME}_pushes", "Artifacts that came over HTTP.", figures.free(PUSHES)
    )
    yield CounterMetricFamily(
        f"{NAME}_signals", "Signals that came over HTTP.", figures.free(SIGNALS)
    )


def _store(stores: Stores) -> Iterator[Metric]:
    """What can be told of the store at once, however much is in it."""
    home = stores.engine.home
    if home is None:
        return
    sizes = [os.stat(path).st_size for name in LEDGER_FILES if (path := home / name).exists()]
    yield GaugeMetricFamily(f"{NAME}_store_ledger_bytes", "Size of the ledger.", sum(sizes))
    yield GaugeMetricFamily(
        f"{NAME}_store_free_bytes", "Room left on the store's disk.", shutil.disk_usage(home).free
    )
