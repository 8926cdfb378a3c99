"""Health, readiness and version of a server."""

from __future__ import annotations

import re

import httpx2

import contextrelay
from tests.server.serving import Served, serving
from tests.store.engines import Servers


def test_the_root_says_what_this_is_and_sends_browsers_to_the_page(served: Served) -> None:
    """Promise R13. Promise T11."""
    plain = httpx2.get(served.url)
    browser = httpx2.get(
        served.url, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    )

    assert (plain.status_code, plain.text) == (200, "ContextRelay API is running.")
    assert (browser.status_code, browser.headers["location"]) == (307, "/ui/")


def test_health_is_reported(served: Served) -> None:
    """Promise T11."""
    assert httpx2.get(f"{served.url}/health").json() == {"status": "ok"}
    assert httpx2.get(f"{served.url}/healthz").status_code == 200
    assert httpx2.head(f"{served.url}/health").status_code == 200


def test_the_version_is_reported_with_its_commit(served: Served) -> None:
    """Promise T11."""
    answer = httpx2.get(f"{served.url}/version").json()

    assert set(answer) == {"version", "commit", "built"}
    assert answer["version"] == contextrelay.__version__
    assert re.fullmatch("[0-9a-f]{40}|unknown", answer["commit"])


def test_a_server_is_ready_while_its_store_answers(servers: Servers) -> None:
    """A server whose store is away lives on, and says that it is not ready."""
    engine = servers.start()
    with serving(f"redis://127.0.0.1:{engine.port}/0") as served:
        before = httpx2.get(f"{served.url}/readyz")
        engine.terminate()
        after = httpx2.get(f"{served.url}/readyz", timeout=20)
        alive = httpx2.get(f"{served.url}/healthz")

    assert before.json() == {"status": "ready"}
    assert (after.status_code, after.headers["content-type"]) == (503, "application/problem+json")
    assert alive.status_code == 200


def test_a_server_that_shuts_down_is_not_ready(served: Served) -> None:
    """A server that is stopping says so while it still answers."""
    assert httpx2.get(f"{served.url}/readyz").status_code == 200

    served.server.end_waits()
    with httpx2.Client(base_url=served.url) as web:
        reply = web.get("/readyz")

    assert reply.status_code == 503
    assert reply.json()["error"] == "the server is shutting down"
