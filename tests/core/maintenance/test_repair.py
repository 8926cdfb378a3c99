"""Faults that were found by looking, and must not come back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contextrelay import Broken, Relay
from contextrelay.client.transport.local import Local
from contextrelay.core.stores import Stores
from contextrelay.model.settings import Settings
from contextrelay.store.engine import Engine, open_engine
from contextrelay.store.ledger import Row, Stale, Write
from contextrelay.verbs import Push, Sweep
from tests.core.clock import DAY_MS, HOUR_MS, Clock, local
from tests.store.stutter import StutterLedger


class Overtaken(StutterLedger):
    """A ledger on which another sweep has always just dropped what this one wants to drop."""

    def drop(self, log: str, expect: int) -> None:
        raise Stale(log, expect + 1)


def test_a_sweep_that_another_one_overtakes_is_no_error() -> None:
    """Promise R6: two sweeps at once."""
    engine = open_engine("memory:")
    clock = Clock()
    local(clock, engine).ask(Push(ttl_s=1), b"x")
    clock.pass_ms(2 * HOUR_MS)
    local(clock, engine).ask(Sweep())
    clock.pass_ms(31 * DAY_MS)
    slow = Engine("slow", Overtaken(engine.ledger, 1_000), engine.blobs)

    report = Local(Stores(slow, Settings(), clock)).ask(Sweep(items_max=10))

    assert report.expired == 0


def test_a_damaged_snapshot_costs_time_and_nothing_else() -> None:
    """Promise T5: every version stays readable."""
    relay = Relay("memory:")
    thread = relay.new_thread()
    fact = {"id": "a", "key": "a", "value": 0}
    thread.patch([{"op": "add", "path": "/facts/-", "value": fact}])
    for number in range(400):
        thread.patch([{"op": "replace", "path": "/facts/0/value", "value": number}])
    ledger = relay.transport.stores.ledger
    (snapshot, *_) = ledger.rows(f"t/{thread.id}", "snapshot", "", 10)
    damaged = Row("snapshot", snapshot.key, b"\x94\x01\x02\x03\xc4\x03abc")
    ledger.commit(Write(f"t/{thread.id}", rows=(damaged,)))
    relay.transport.stores.live_states.drop(thread.id)

    assert thread.state()["facts"][0]["value"] == 399
    assert [problem.ref for problem in relay.verify().problems] == [thread.id]


def test_a_store_that_cannot_be_opened_leaves_no_files_open(tmp_path: Path) -> None:
    (tmp_path / "relay.db").write_text("this is no database, whatever it says" * 50)
    descriptors = Path("/dev/fd")

    def fail() -> None:
        with pytest.raises(Broken):
            Relay(tmp_path)

    fail()
    before = len(os.listdir(descriptors))
    for _ in range(5):
        fail()

    assert len(os.listdir(descriptors)) == before
