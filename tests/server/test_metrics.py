"""GET /metrics: what the server did, by route, of all its processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from contextrelay.server.metrics import IN_FLIGHT, STATUSES, Metrics
from contextrelay.server.router import Paths
from tests.server.serving import Served, serving_apart
from tests.store.engines import until

NAME = "contextrelay_"
# It counts one request, has another one open, and dies.
DYING = """
import os, signal, sys
from contextrelay.server.metrics import Metrics
from contextrelay.server.router import Paths
metrics = Metrics(Paths(), sys.argv[1])
metrics.end(metrics.begin(), "(none)", "GET", 404, 0, 0)
metrics.begin()
os.kill(os.getpid(), signal.SIGKILL)
"""


def figure(url: str, name: str, **labels: str) -> float:
    """The sum of a metric's samples that have these labels."""
    text = httpx2.get(f"{url}/metrics").raise_for_status().text
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == NAME + name and labels.items() <= sample.labels.items()
    )


def test_requests_are_counted_by_route_method_and_status(served: Served) -> None:
    """Promise U4."""
    url = httpx2.post(f"{served.url}/push", json={"data": "x" * 100, "channel": "c"}).json()["url"]
    for _ in range(3):
        assert httpx2.get(url).status_code == 200
    assert httpx2.head(url).status_code == 200
    assert httpx2.get(f"{served.url}/pull/none").status_code == 404

    counted = [
        figure(served.url, "http_requests_total", route="/pull/{ref}", method=method, status=status)
        for method, status in (("GET", "200"), ("HEAD", "200"), ("GET", "404"))
    ]
    assert counted == [3, 1, 1]
    assert figure(served.url, "http_request_seconds_count", route="/pull/{ref}") == 5
    assert figure(served.url, "http_received_bytes_total", route="/push") > 100
    assert figure(served.url, "http_sent_bytes_total", route="/pull/{ref}") > 300
    assert figure(served.url, "pushes_total") == 1
    assert figure(served.url, "signals_total") == 1
    assert figure(served.url, "http_requests_in_flight") == 1  # The one that asks.
    assert figure(served.url, "store_ledger_bytes") > 0


def test_what_clients_make_up_does_not_become_a_label(served: Served) -> None:
    """Promise U4. Promise Z3."""
    for number in range(20):
        httpx2.get(f"{served.url}/made/up/{number}")
        httpx2.request("PROPFIND", f"{served.url}/push")

    text = httpx2.get(f"{served.url}/metrics").text
    assert "made" not in text
    assert "PROPFIND" not in text
    assert figure(served.url, "http_requests_total", route="(none)") == 20
    assert figure(served.url, "http_requests_total", route="/push", method="(other)") == 20


def test_who_listens_is_counted_while_listening(served: Served) -> None:
    """Promise U4."""
    with httpx2.stream("GET", f"{served.url}/v1/channels/c/events") as stream:
        assert stream.status_code == 200
        assert figure(served.url, "subscribers") == 1

    until(lambda: figure(served.url, "subscribers") == 0, "it to be gone")


def test_each_process_gives_the_sum_of_all(tmp_path: Path) -> None:
    """Promise U4."""
    with serving_apart(tmp_path / "store", workers=2) as apart:
        # A connection of its own for each, so that both processes get some.
        for _ in range(40):
            httpx2.get(f"{apart.url}/health").raise_for_status()

        counted = {figure(apart.url, "http_requests_total", route="/health") for _ in range(10)}

    assert counted == {40}


def test_a_process_that_takes_the_place_of_a_dead_one_counts_on(tmp_path: Path) -> None:
    """Promise U4."""
    paths = Paths()
    dead = subprocess.run([sys.executable, "-c", DYING, tmp_path], check=False)
    assert dead.returncode == -signal.SIGKILL

    here = Metrics(paths, str(tmp_path))
    here.end(here.begin(), "(none)", "GET", 404, 0, 0)
    other = Metrics(paths, str(tmp_path))
    other.end(other.begin(), "(none)", "GET", 404, 0, 0)
    other.begin()

    totals = other.totals()
    assert totals[other.methods["(none)", "(other)"] + STATUSES.index(404)] == 3
    assert totals[IN_FLIGHT] == 1
    assert len(list(tmp_path.iterdir())) == 2
    other.close()
    here.close()
