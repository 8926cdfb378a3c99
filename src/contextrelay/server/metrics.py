"""Metrics: requests, bytes and listeners, counted per process, and GET /metrics for Prometheus.

All figures are integers in one row, whose order depends only on the paths. A single process keeps
the row in memory. Several processes keep their rows in memory-mapped files, so that each process
can return the sum of all rows. A process that replaces a dead one continues in the file of that
process.

Rule: counting takes about a microsecond. Everything slower is done at GET /metrics.
"""

from __future__ import annotations

import mmap
import os
import shutil
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from itertools import accumulate
from pathlib import Path
from time import perf_counter_ns

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from contextrelay.build import build
from contextrelay.client.flow import in_thread
from contextrelay.core import Stores
from contextrelay.errors import Forbidden, Invalid
from contextrelay.limits import WORKERS_MAX
from contextrelay.server.request import Exchange
from contextrelay.server.router import SERVER, Endpoint, Paths
from contextrelay.store.engine import DATABASE_NAME

NAME = "contextrelay"
NO_PLACE = "(none)"
"""The route of all unknown paths, because text made up by clients must not become a label."""
OTHER = "(other)"
"""The label of methods and statuses that are not counted separately."""

STATUSES = tuple(int(status) for status in HTTPStatus)
BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0)

# The indexes in the row of the figures that belong to no route.
IN_FLIGHT, SUBSCRIBERS, PUSHES, SIGNALS = range(4)
_GAUGES = (IN_FLIGHT, SUBSCRIBERS)
_FREE_FIGURES = 4

# The figures of each route follow: a histogram of durations, these figures, and statuses by method.
_NANOSECONDS = len(BOUNDS_S) + 1
_BYTES_IN, _BYTES_OUT, _ROUTE = _NANOSECONDS + 1, _NANOSECONDS + 2, _NANOSECONDS + 3

_BOUNDS_NS = [round(bound * 1e9) for bound in BOUNDS_S]
_STATUS_INDEX = {status: index for index, status in enumerate(STATUSES)}


class Metrics:
    """The figures of one process, and access to the figures of all processes."""

    def __init__(self, paths: Paths, folder: str = "") -> None:
        self.routes: dict[str, int] = {}
        """Maps each path to the index in the row where its figures start."""
        self.methods: dict[tuple[str, str], int] = {}
        """Maps each path and method to the index in the row where their statuses start."""
        size = _FREE_FIGURES
        for path, methods in _counted(paths):
            self.routes[path] = size
            size += _ROUTE
            for method in methods:
                self.methods[path, method] = size
                size += len(STATUSES) + 1
        self._folder = folder
        self._file = _File(Path(folder), size) if folder else None
        self._numbers = self._file.numbers if self._file else [0] * size

    def begin(self) -> int:
        """Count a request as in flight, and return its start time, which `end` needs as `begun`."""
        self._numbers[IN_FLIGHT] += 1
        return perf_counter_ns()

    def end(
        self, begun: int, path: str, method: str, status: int, bytes_in: int, bytes_out: int
    ) -> None:
        """Count an answered request. The status is 0 if the client disconnected before the
        response.
        """
        self.count(begun, path, method, status, bytes_in, bytes_out)
        self._numbers[IN_FLIGHT] -= 1

    def count(
        self, begun: int, path: str, method: str, status: int, bytes_in: int, bytes_out: int
    ) -> None:
        """Count a request that was answered at once, and was therefore never counted as in
        flight.
        """
        took_ns = perf_counter_ns() - begun
        numbers = self._numbers
        route = self.routes[path]
        statuses = self.methods.get((path, method)) or self.methods[path, OTHER]
        numbers[statuses + _STATUS_INDEX.get(status, len(STATUSES))] += 1
        numbers[route + bisect_left(_BOUNDS_NS, took_ns)] += 1
        numbers[route + _NANOSECONDS] += took_ns
        if bytes_in:
            numbers[route + _BYTES_IN] += bytes_in
        if bytes_out:
            numbers[route + _BYTES_OUT] += bytes_out

    def add(self, figure: int, amount: int = 1) -> None:
        """Add an amount to a figure that belongs to no route."""
        self._numbers[figure] += amount

    def totals(self) -> list[int]:
        """Return one row with the sums of the rows of all processes."""
        rows = _rows(Path(self._folder)) if self._folder else [list(self._numbers)]
        return [sum(column) for column in zip(*rows, strict=True)]

    def close(self) -> None:
        if self._file is not None:
            self._numbers = [0] * len(self._numbers)  # A count that arrives late does no harm.
            self._file.close()


def _counted(paths: Paths) -> Iterator[tuple[str, list[str]]]:
    """Yield every route with its counted methods, in the same order in every process."""
    yield NO_PLACE, [OTHER]
    for path, place in sorted(paths.places.items()):
        head = {"HEAD"} if "GET" in place.methods else set[str]()
        yield path, sorted({*place.methods, *head, "OPTIONS", OTHER})


class _File:
    """A row in a memory-mapped file. Only the process that holds the lock of the file writes to the
    row.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self._handle = _locked_file(folder)
        os.ftruncate(self._handle, 8 * size)
        self._map = mmap.mmap(self._handle, 8 * size)
        self.numbers = memoryview(self._map).cast("q")
        self._clear_gauges()  # A dead process has no requests in flight and no listeners.

    def _clear_gauges(self) -> None:
        for gauge in _GAUGES:
            self.numbers[gauge] = 0

    def close(self) -> None:
        self._clear_gauges()
        self.numbers.release()
        self._map.close()
        os.close(self._handle)


def _locked_file(folder: Path) -> int:
    """Open and lock the first file that no living process has locked, and return the file
    descriptor.
    """
    import fcntl

    for index in range(WORKERS_MAX):
        handle = os.open(folder / str(index), os.O_RDWR | os.O_CREAT, 0o600)
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        os.close(handle)
    raise Invalid(
        "too many processes for the metrics", f"the limit is {WORKERS_MAX}; start fewer workers"
    )


def _rows(folder: Path) -> list[list[int]]:
    """Return the rows of all processes. Incomplete files are skipped."""
    rows = [list(memoryview(each.read_bytes()).cast("q")) for each in sorted(folder.iterdir())]
    size = max(map(len, rows), default=0)
    return [row for row in rows if len(row) == size]


# GET /metrics


async def scrape(exchange: Exchange) -> None:
    """Return the metrics of the server for Prometheus, in the format named by Accept."""
    key = exchange.visitor.key
    if key is not None and not key.is_owners:
        raise Forbidden("metrics cover the whole store", "use a key without restrictions")
    encoder, media_type = choose_encoder(exchange.header("accept"))

    def text() -> bytes:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collected(exchange.door.metrics, exchange.door.relay.stores))
        return encoder(registry)

    headers = [(b"cache-control", b"no-store")]
    await exchange.reply(200, await in_thread(text), media_type.encode(), headers)


class _Collected(Collector):
    """A collector that returns the figures as Prometheus metric families."""

    def __init__(self, metrics: Metrics, stores: Stores) -> None:
        self._metrics = metrics
        self._stores = stores

    def collect(self) -> Iterator[Metric]:
        totals = self._metrics.totals()
        yield from _by_route(self._metrics, totals)
        for kind, name, documentation, figure in _FREE:
            yield kind(f"{NAME}_{name}", documentation, totals[figure])
        yield from _store_sizes(self._stores)
        about = GaugeMetricFamily(f"{NAME}_build_info", "Running version.", labels=["version"])
        about.add_metric([build().version], 1)
        yield about


_FREE = (
    (
        GaugeMetricFamily,
        "http_requests_in_flight",
        "Requests in flight.",
        IN_FLIGHT,
    ),
    (
        GaugeMetricFamily,
        "subscribers",
        "Open WebSockets, event streams and long polls.",
        SUBSCRIBERS,
    ),
    (CounterMetricFamily, "pushes", "Artifacts pushed over HTTP.", PUSHES),
    (CounterMetricFamily, "signals", "Signals sent over HTTP.", SIGNALS),
)


def _by_route(metrics: Metrics, totals: list[int]) -> Iterator[Metric]:
    """Yield the metrics of each route that has had requests."""
    requests = CounterMetricFamily(
        f"{NAME}_http_requests", "Answered requests.", labels=["route", "method", "status"]
    )
    for (path, method), start in metrics.methods.items():
        counts = totals[start : start + len(STATUSES) + 1]
        for status, count in zip((*STATUSES, OTHER), counts, strict=True):
            if count:
                requests.add_metric([path, method, str(status)], count)
    seconds = HistogramMetricFamily(
        f"{NAME}_http_request_seconds",
        "Time from the headers of a request to the end of its response, including waits.",
        labels=["route"],
    )
    bytes_in = CounterMetricFamily(
        f"{NAME}_http_received_bytes", "Request bodies.", labels=["route"]
    )
    bytes_out = CounterMetricFamily(f"{NAME}_http_sent_bytes", "Response bodies.", labels=["route"])
    bounds = [*map(str, BOUNDS_S), "+Inf"]
    for path, start in metrics.routes.items():
        figures = totals[start : start + _ROUTE]
        if any(figures):
            buckets = zip(bounds, accumulate(figures[:_NANOSECONDS]), strict=True)
            seconds.add_metric([path], list(buckets), figures[_NANOSECONDS] / 1e9)
            bytes_in.add_metric([path], figures[_BYTES_IN])
            bytes_out.add_metric([path], figures[_BYTES_OUT])
    yield from (requests, seconds, bytes_in, bytes_out)


def _store_sizes(stores: Stores) -> Iterator[Metric]:
    """Yield the metrics of sizes that can be read in constant time."""
    home = stores.engine.home
    if home is None:
        return
    files = (home / DATABASE_NAME, home / f"{DATABASE_NAME}-wal")
    size_bytes = sum(path.stat().st_size for path in files if path.exists())
    yield GaugeMetricFamily(f"{NAME}_store_ledger_bytes", "Size of the ledger.", size_bytes)
    yield GaugeMetricFamily(
        f"{NAME}_store_free_bytes", "Free space on the store's disk.", shutil.disk_usage(home).free
    )


ENDPOINTS = [
    Endpoint(
        http="GET /metrics",
        handler=scrape,
        id="metrics",
        tag=SERVER,
        also={200: ("text/plain", "application/openmetrics-text")},
    )
]
