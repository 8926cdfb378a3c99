"""Clocks that are behind, ahead, or jump: nothing is lost, and nothing is hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextrelay.access import take_tokens
from contextrelay.client.transport.local import Local
from contextrelay.core.artifacts import catalog as index_log
from contextrelay.core.artifacts.catalog import ADDED
from contextrelay.core.artifacts.records import artifact_log
from contextrelay.errors import Gone
from contextrelay.limits import SWEEP_EVERY_S
from contextrelay.model.artifact import Artifact
from contextrelay.store.engine import open_engine
from contextrelay.store.ledger import ONLY
from contextrelay.verbs import (
    List,
    ListThreads,
    NewThread,
    Publish,
    Pull,
    Push,
    ReadSignals,
    Remove,
    Search,
    Sweep,
)
from tests.core.clock import DAY_MS, HOUR_MS, Clock, local

MINUTE_MS = 60_000
JUMPS_MS = (-MINUTE_MS, -HOUR_MS, -3 * DAY_MS, MINUTE_MS, HOUR_MS, 3 * DAY_MS)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def relay(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Local:
    return local(clock, open_engine("memory:" if request.param == "memory" else str(tmp_path)))


def push(relay: Local, text: str, ttl_s: int | None = None) -> Artifact:
    return relay.ask(Push(ttl_s=ttl_s), text.encode())


def found(relay: Local, query: str) -> set[str]:
    return {hit.ref for hit in relay.ask(Search(query, limit=50)).hits}


# Search


@pytest.mark.parametrize("jump_ms", JUMPS_MS)
def test_what_is_pushed_by_another_clock_is_found_at_once(
    relay: Local, clock: Clock, jump_ms: int
) -> None:
    refs = {push(relay, "apples at first").ref}
    assert found(relay, "apples") == refs

    clock.pass_ms(jump_ms)
    refs.add(push(relay, "apples meanwhile").ref)
    assert found(relay, "apples") == refs
    clock.pass_ms(-jump_ms)
    refs.add(push(relay, "apples in the end").ref)

    assert found(relay, "apples") == refs


def test_two_pushers_with_different_clocks_are_both_found(tmp_path: Path) -> None:
    right, late = Clock(), Clock()
    late.pass_ms(-MINUTE_MS)
    one, other = (local(clock, open_engine(str(tmp_path))) for clock in (right, late))
    refs: set[str] = set()
    for number in range(5):
        refs |= {push(relay, f"pears {number} {id(relay)}").ref for relay in (one, other)}

        assert found(one, "pears") == refs
        assert found(other, "pears") == refs


def test_a_store_of_an_earlier_version_is_found_and_followed(relay: Local, clock: Clock) -> None:
    """It has rows in the index, and no log of what was added."""
    refs = {push(relay, f"plums {number}").ref for number in range(3)}
    ledger = relay.stores.ledger
    ledger.drop(ADDED, expect=ledger.last(ADDED))
    assert found(relay, "plums") == refs

    clock.pass_ms(-HOUR_MS)
    refs.add(push(relay, "plums late").ref)

    assert found(relay, "plums") == refs


def test_additions_that_are_forgotten_or_of_another_store_are_looked_up(
    relay: Local, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = {push(relay, "figs").ref}
    assert found(relay, "figs") == refs
    ledger = relay.stores.ledger

    clock.pass_ms(-HOUR_MS)
    refs |= {push(relay, f"figs {number}").ref for number in range(5)}
    ledger.trim(ADDED, 5)
    assert found(relay, "figs") == refs

    ledger.drop(ADDED, expect=ledger.last(ADDED))
    refs |= {push(relay, f"figs again {number}").ref for number in range(8)}
    assert found(relay, "figs") == refs

    monkeypatch.setattr(index_log, "ADDED_KEPT", 2)
    relay.ask(Sweep(is_deep=False))
    assert len(ledger.read(ADDED, 0, 99)) <= 4
    assert found(relay, "figs") == refs


# Lists, lives, keys, signals


@pytest.mark.parametrize("jump_ms", JUMPS_MS)
def test_lists_show_everything_whatever_the_clock_said(
    relay: Local, clock: Clock, jump_ms: int
) -> None:
    refs = {push(relay, "one").ref}
    clock.pass_ms(jump_ms)
    refs.add(push(relay, "two").ref)
    clock.pass_ms(-jump_ms)

    listing = relay.ask(List(limit=1))
    listed = {listing.artifacts[0].ref, relay.ask(List(after=listing.next)).artifacts[0].ref}

    assert listed == refs


def test_a_lease_is_over_only_while_the_clock_says_so_until_a_sweep_comes(
    relay: Local, clock: Clock
) -> None:
    ref = push(relay, "an hour", ttl_s=3_600).ref

    clock.pass_ms(DAY_MS)
    with pytest.raises(Gone):
        relay.ask(Pull(ref))
    clock.pass_ms(-DAY_MS)
    assert relay.ask(Pull(ref)).whole() == b"an hour"

    clock.pass_ms(-DAY_MS)
    relay.ask(Sweep())
    assert relay.ask(Pull(ref)).whole() == b"an hour"


def test_a_tombstone_outlives_a_clock_that_goes_back(relay: Local, clock: Clock) -> None:
    ref = push(relay, "gone").ref
    relay.ask(Remove(ref))

    for jump_ms in (-3 * DAY_MS, 6 * DAY_MS):
        clock.pass_ms(jump_ms)
        relay.ask(Sweep())
        with pytest.raises(Gone):
            relay.ask(Pull(ref))


@pytest.mark.parametrize("jump_ms", JUMPS_MS)
def test_a_key_is_known_again_after_a_jump_within_its_time(
    relay: Local, clock: Clock, jump_ms: int
) -> None:
    first = relay.ask(Push(), b"once", key="the same")

    clock.pass_ms(jump_ms)
    relay.ask(Sweep())
    again = relay.ask(Push(), b"once", key="the same")

    is_forgotten = jump_ms > DAY_MS  # Keys are known for a day.
    assert (again.ref == first.ref) != is_forgotten


@pytest.mark.parametrize("jump_ms", JUMPS_MS)
def test_signals_keep_their_order_and_are_all_there(
    relay: Local, clock: Clock, jump_ms: int
) -> None:
    sent: list[int] = []
    for moved_ms in (0, jump_ms, -jump_ms):
        clock.pass_ms(moved_ms)
        sent.append(relay.ask(Publish("news", len(sent))).seq)
        relay.ask(Sweep())

    assert sent == [1, 2, 3]
    assert [each.seq for each in relay.ask(ReadSignals("news", 0)).signals][-1] == 3


@pytest.mark.parametrize("jump_ms", JUMPS_MS)
def test_a_rate_is_neither_stuck_nor_unlimited_after_a_jump(jump_ms: int) -> None:
    now_ms, bucket = 10**12, None
    for _ in range(60):
        bucket, wait_s = take_tokens(bucket, 60, now_ms)
        assert wait_s == 0
    bucket, wait_s = take_tokens(bucket, 60, now_ms)
    assert 0 < wait_s <= 1

    now_ms += jump_ms
    taken = 0
    for _ in range(100):
        bucket, wait_s = take_tokens(bucket, 60, now_ms)
        taken += wait_s == 0
    assert taken == (60 if jump_ms > 0 else 0)
    _, wait_s = take_tokens(bucket, 60, now_ms + 1_100)
    assert wait_s == 0


# Sweeps


def test_a_sweep_is_due_again_after_a_clock_that_was_ahead(relay: Local, clock: Clock) -> None:
    clock.pass_ms(365 * DAY_MS)
    push(relay, "ahead")
    clock.pass_ms(-365 * DAY_MS)
    ref = push(relay, "short", ttl_s=1).ref

    clock.pass_ms((SWEEP_EVERY_S + 1) * 1_000)
    push(relay, "later")

    assert relay.stores.ledger.get(artifact_log(ref), "tombstone", ONLY) is not None


def test_threads_of_every_clock_are_there(relay: Local, clock: Clock) -> None:
    made = set[str]()
    for jump_ms in JUMPS_MS:
        clock.pass_ms(jump_ms)
        made.add(relay.ask(NewThread(f"at {jump_ms}")).thread_id)
    assert {each.thread_id for each in relay.ask(ListThreads()).threads} == made
