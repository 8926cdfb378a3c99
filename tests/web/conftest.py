"""What the tests of the page share: servers, and a browser without a screen of its own."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import httpx2
import pytest

from contextrelay import Relay
from tests.server.serving import Served, serving
from tests.web.reader import Reader


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def relay(store: Path) -> Generator[Relay]:
    """The owner, who has the store itself."""
    with Relay(store) as opened:
        yield opened


@pytest.fixture
def served(store: Path, relay: Relay) -> Generator[Served]:
    """A server on loopback that asks nobody for a key."""
    with serving(store) as running:
        yield running


@pytest.fixture
def guarded(store: Path, relay: Relay) -> Generator[Served]:
    """A server that asks everybody for a key."""
    with serving(store, needs_token=True) as running:
        yield running


@pytest.fixture
def page(served: Served) -> Generator[Reader]:
    with httpx2.Client(base_url=served.url) as web:
        yield Reader(web)


@pytest.fixture
def stranger(guarded: Served) -> Generator[Reader]:
    """Somebody who has not signed in."""
    with httpx2.Client(base_url=guarded.url) as web:
        yield Reader(web)
