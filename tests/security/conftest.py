"""What tests of hostile archives get: a real export, its parts, and a store that is in use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contextrelay import Relay
from tests.security.zips import (
    LARGE,
    Parts,
    taken_apart,
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A thread of four versions, with a large and a small artifact, one made from the other."""
    path = tmp_path_factory.mktemp("exported") / "t.zip"
    with Relay("memory:") as relay:
        thread = relay.new_thread("travels")
        large = thread.put(LARGE, name="large.bin")
        thread.put("# Sum", name="sum.md", source_refs=(large.ref,))
        fact = {"id": "a", "key": "a", "value": {"deep": [1, 2.5, None]}}
        thread.patch([{"op": "add", "path": "/facts/-", "value": fact}])
        thread.checkpoint("there")
        thread.export(path)
    return path.read_bytes()


@pytest.fixture
def parts(exported: bytes) -> Parts:
    return taken_apart(exported)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    """A store that is in use; every refusal has to leave it as it is."""
    with Relay(tmp_path_factory.mktemp("hostile") / "store") as relay:
        relay.push(LARGE, name="the same bytes as in the archive", ttl_s=None)
        relay.new_thread("mine").put("mine")
        yield relay
