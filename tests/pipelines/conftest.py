"""What tests of pipelines get: a store, and a folder with a pipeline and its modules."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from contextrelay import Relay


@pytest.fixture
def relay(tmp_path: Path) -> Generator[Relay]:
    with Relay(tmp_path / "store") as made:
        yield made
