"""Usage counts of keys: an engine that is away when they are written loses none of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest
from msgspec.structs import replace

from contextrelay import Relay
from contextrelay.client.transport.local import AsyncLocal
from contextrelay.core.accounting.usage import usage_of
from contextrelay.errors import Unavailable
from contextrelay.server.auth import Callers
from contextrelay.store.engine import open_engine
from contextrelay.store.ledger import Write
from contextrelay.store.ledger.memory import MemoryLedger
from contextrelay.verbs import NewKey, ReadUsage
from tests.core.clock import Clock, local
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


class QuietLedger(MemoryLedger):
    """An engine that counts, but at first without a reply."""

    is_quiet = True

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        heads = super().commit(*writes, id=id)
        if self.is_quiet and any(write.adds for write in writes):
            raise Unavailable("the store's server is unreachable", "try again")
        return heads


def test_counts_that_were_written_without_a_reply_are_counted_once() -> None:
    """Promise Z1: usage."""
    ledger = QuietLedger()
    core = local(Clock(), replace(open_engine("memory:"), ledger=ledger))
    made = core.ask(NewKey(name="k", scope="read"))

    async def use() -> None:
        callers = Callers(AsyncLocal(core.stores), needs_token=True)
        for is_quiet in (True, True, False):
            ledger.is_quiet = is_quiet
            await callers.admit(made.token, "127.0.0.1")
            await callers.stop()

    asyncio.run(use())

    assert core.ask(ReadUsage(made.key.id)).requests == 3


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
