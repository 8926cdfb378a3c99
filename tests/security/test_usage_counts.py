"""Usage counts of keys: an engine that is away when they are written loses none of them."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from contextrelay import Relay
from contextrelay.core.accounting.usage import usage_of
from contextrelay.errors import Unavailable
from tests.server.replies import bearer
from tests.server.serving import serving
from tests.store.replicas import Node
from tests.store.waiting import until

REQUESTS = 40


def test_counts_that_cannot_be_written_are_written_when_the_engine_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise Z1: usage."""
    node = Node(tmp_path / "node", appendonly="yes", appendfsync="always")
    node.start()
    url = f"redis://127.0.0.1:{node.port}/0"
    try:
        with serving(url, needs_token=True) as served, Relay(url) as owner:
            made = owner.new_key()
            other = owner.new_key()
            with httpx2.Client(base_url=served.url) as web:
                for _ in range(REQUESTS):
                    assert web.get("/v1/threads", headers=bearer(made.token)).status_code == 200
                assert web.get("/v1/threads", headers=bearer(other.token)).status_code == 200
                node.kill()
                late = web.get("/v1/threads", headers=bearer(made.token), timeout=30)
                assert late.status_code == 503
                until(lambda: "cannot write the usage" in caplog.text, "a failed write")
                node.start()
            until(lambda: owner.usage(made.key.id).requests >= REQUESTS, "the counts of a key")
            until(lambda: owner.usage(other.key.id).requests == 1, "the counts of the other key")
            assert owner.usage(made.key.id).requests <= REQUESTS + 1
    finally:
        node.kill()


def test_savings_that_cannot_be_written_are_written_when_the_engine_is_back(
    tmp_path: Path,
) -> None:
    node = Node(tmp_path / "node", appendonly="yes", appendfsync="always")
    node.start()
    url = f"redis://127.0.0.1:{node.port}/0"
    try:
        with Relay(url) as relay:
            ref = relay.push(b"a line of text\n" * 100).ref
            for _ in range(REQUESTS):
                relay.pull(ref)
            node.kill()
            with pytest.raises(Unavailable):
                usage_of(relay.transport.stores).write()
            node.start()
            until(lambda: relay.savings().pulls == REQUESTS, "the counts of pulls")
    finally:
        node.kill()
