"""What the tests of A2A share: a server with agents, and a client of it."""

from __future__ import annotations

from collections.abc import Generator

import httpx2
import pytest

from tests.a2a.asking import HEADERS, agents_served
from tests.server.serving import Served


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    """One server for all tests of a file."""
    with agents_served(tmp_path_factory.mktemp("a2a") / "store") as served:
        yield served


@pytest.fixture
def web(agents: Served) -> Generator[httpx2.Client]:
    """A client of the server that speaks A2A 1.0."""
    with httpx2.Client(base_url=agents.url, headers=HEADERS, timeout=60) as client:
        yield client
