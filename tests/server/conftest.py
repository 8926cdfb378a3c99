"""What the tests of the HTTP door share: servers, see serving.py."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import httpx2
import pytest

from contextrelay import Relay
from tests.server.serving import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Generator[Served]:
    """A server in a thread, over a store in the test's own folder."""
    with serving(tmp_path / "store") as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    """One server for all tests of a file that look only at threads of their own."""
    with serving(tmp_path_factory.mktemp("shared") / "store") as running:
        yield running


@pytest.fixture
def web(shared: Served) -> Generator[httpx2.Client]:
    """A client of the shared server."""
    with httpx2.Client(base_url=shared.url) as client:
        yield client


@pytest.fixture
def thread(web: httpx2.Client) -> str:
    """The id of a new thread on the shared server."""
    return web.post("/threads", json={"name": "release"}).json()["thread_id"]


@pytest.fixture(scope="module")
def keyed_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keyed") / "store"


@pytest.fixture(scope="module")
def owner(keyed_store: Path) -> Generator[Relay]:
    """The owner, who has the store itself."""
    with Relay(keyed_store) as relay:
        yield relay


@pytest.fixture(scope="module")
def guarded(keyed_store: Path, owner: Relay) -> Generator[Served]:
    """A server that asks everybody for a token."""
    with serving(keyed_store, needs_token=True) as served:
        yield served
