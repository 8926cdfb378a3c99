"""What tests of the stores get: every engine in turn, each test with keys or files of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from contextrelay.store.blobs import Blobs
from contextrelay.store.ledger import Ledger
from tests.store import engines
from tests.store.engines import Servers


@pytest.fixture
def prefix() -> str:
    return engines.new_prefix()


@pytest.fixture(params=engines.LEDGERS)
def ledger_kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def open_ledger(
    ledger_kind: str, servers: Servers, tmp_path: Path, prefix: str
) -> Iterator[Callable[[], Ledger]]:
    """Open the test's ledger, each time by a connection of its own."""
    with ExitStack() as opened:

        def open_one() -> Ledger:
            ledger = engines.make_ledger(ledger_kind, servers, tmp_path, prefix)
            opened.callback(ledger.close)
            return ledger

        yield open_one


@pytest.fixture
def ledger(open_ledger: Callable[[], Ledger]) -> Ledger:
    return open_ledger()


@pytest.fixture(params=engines.BLOBS)
def blobs_kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def open_blobs(
    blobs_kind: str, servers: Servers, tmp_path: Path, prefix: str
) -> Iterator[Callable[[], Blobs]]:
    """Open the test's blobs, each time by a connection of its own."""
    with ExitStack() as opened:

        def open_one() -> Blobs:
            blobs, close = engines.make_blobs(blobs_kind, servers, tmp_path, prefix)
            opened.callback(close)
            opened.callback(blobs.close)
            return blobs

        yield open_one


@pytest.fixture
def blobs(open_blobs: Callable[[], Blobs]) -> Blobs:
    return open_blobs()
