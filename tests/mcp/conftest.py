"""What the tests of the MCP door share: places to connect to (connecting.py)."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.mcp.connecting import LEGS, Place, connecting


@pytest.fixture(params=LEGS, ids=["-".join(leg) for leg in LEGS])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Place]:
    """A place on every leg: both transports, both generations, a local and a remote store."""
    with connecting(tmp_path / "store", *request.param) as made:
        yield made


@pytest.fixture
def stdio(tmp_path: Path) -> Generator[Place]:
    """What `relay mcp` does on a local store, for what is the same on every leg."""
    with connecting(tmp_path / "store", "stdio", "modern") as made:
        yield made
