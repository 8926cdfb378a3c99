"""Requests that have a key are done once: asked twice, cut short anywhere, in whatever order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextrelay.client.transport.local import Local
from contextrelay.core.capabilities import capability
from contextrelay.errors import Gone, Invalid, Refused, RelayError
from contextrelay.limits import KEY_CHARS_MAX, KEY_KEPT_S, UNFINISHED_PUSH_S
from contextrelay.store.ledger import Ledger
from contextrelay.verbs import (
    AddEvent,
    CloseThread,
    ExportThread,
    ImportThread,
    Invoke,
    List,
    NewThread,
    PatchState,
    Pull,
    Push,
    ReadStats,
    Remove,
    Sweep,
    Verify,
)
from tests.core.clock import HOUR_MS
from tests.core.idempotency_world import (
    KEY,
    REQUESTS,
    STOPS_MAX,
    after_once,
    check,
    check_nothing_stays,
    fact,
    new_world,
    shown,
)
from tests.rigs import length
from tests.store.stutter import Stopped, StutterLedger


@pytest.mark.parametrize("name", REQUESTS)
def test_asked_twice_with_a_key_it_is_done_once_and_answered_the_same(name: str) -> None:
    """Promise C3."""
    world = new_world()
    verb, body = REQUESTS[name](world)
    before = shown(world.core())

    first = world.core().ask(verb, body, KEY)
    done = shown(world.core())
    second = world.core().ask(verb, body, KEY)

    assert second == first
    assert shown(world.core()) == done != before
    assert world.core().ask(Verify()).problems == []


@pytest.mark.parametrize("name", REQUESTS)
def test_cut_short_anywhere_and_asked_again_it_is_done_once(name: str) -> None:
    """Promise C3; promise G2."""
    clean = after_once(name)
    for stops_after in range(STOPS_MAX):
        world = new_world()
        verb, body = REQUESTS[name](world)
        when = f"{name} after {stops_after}"
        try:
            world.core(StutterLedger(world.engine.ledger, stops_after)).ask(verb, body, KEY)
            is_whole = True
        except Stopped:
            is_whole = False

        world.clock.pass_ms(5)
        reply = world.core().ask(verb, body, KEY)

        check(world, name, clean, when)
        assert world.core().ask(verb, body, KEY) == reply, when
        world.clock.pass_ms(2 * HOUR_MS)
        world.core().ask(Sweep())
        check(world, name, clean, f"{when} and a sweep")
        check_nothing_stays(world, when)
        if is_whole:
            assert stops_after
            return
    pytest.fail(f"{name} is not done after {STOPS_MAX} writes")


@pytest.mark.parametrize("name", REQUESTS)
def test_cut_short_and_asked_again_after_a_sweep_it_is_done_once(name: str) -> None:
    """Promise C3: also where the sweep has taken the first time for dead."""
    clean = after_once(name)
    for stops_after in range(STOPS_MAX):
        world = new_world()
        verb, body = REQUESTS[name](world)
        try:
            world.core(StutterLedger(world.engine.ledger, stops_after)).ask(verb, body, KEY)
            return
        except Stopped:
            world.clock.pass_ms(2 * HOUR_MS)
            world.core().ask(Sweep())

        world.core().ask(verb, body, KEY)

        check(world, name, clean, f"{name} after {stops_after}")
        check_nothing_stays(world, f"{name} after {stops_after}")


@pytest.mark.parametrize("name", REQUESTS)
def test_a_key_is_forgotten_by_a_sweep_after_a_day_with_all_that_was_kept_for_it(name: str) -> None:
    world = new_world()
    verb, body = REQUESTS[name](world)
    world.core().ask(verb, body, KEY)
    world.clock.pass_ms(KEY_KEPT_S * 1000 - 1)
    world.core().ask(Sweep())
    assert _kept_for_keys(world.engine.ledger)

    world.clock.pass_ms((UNFINISHED_PUSH_S + 1) * 1000)
    world.core().ask(Sweep())

    assert _kept_for_keys(world.engine.ledger) == []


def _kept_for_keys(ledger: Ledger) -> list[str]:
    every = ledger.logs("", "", 1000)
    return [log for log in every if log.startswith("o/") or "once" in ledger.kinds(log)]


def test_another_request_with_the_same_key_is_refused_and_not_done() -> None:
    """Promise C3."""
    world = new_world()
    world.core().ask(Push(name="a.txt"), b"one body", KEY)
    done = shown(world.core())

    for verb, body in (
        (Push(name="a.txt"), b"two bodies"),
        (Push(name="b.txt"), b"one body"),
        (AddEvent(world.thread, "test.ran"), b""),
        (PatchState(world.thread, [fact("other")]), b""),
        (NewThread("other"), b""),
        (Remove(world.kept), b""),
    ):
        with pytest.raises(Refused, match="use a new key"):
            world.core().ask(verb, body, KEY)

    assert shown(world.core()) == done


def test_a_different_archive_with_the_same_key_is_refused() -> None:
    world = new_world()
    other = world.core().ask(NewThread("other")).thread_id
    archive = world.core().ask(ExportThread(other)).whole()
    world.core().ask(ImportThread(), world.archive, KEY)

    with pytest.raises(Refused, match="use a new key"):
        world.core().ask(ImportThread(), archive, KEY)


@pytest.mark.parametrize("key", ["x" * (KEY_CHARS_MAX + 1), "schlüssel"])
def test_what_cannot_be_a_key_is_refused(key: str) -> None:
    world = new_world()

    with pytest.raises(Invalid, match="printable ASCII"):
        world.core().ask(Push(), b"body", key)

    assert len(world.core().ask(List()).artifacts) == 2


def test_a_push_cut_short_before_its_thread_was_closed_is_refused_and_leaves_nothing() -> None:
    world = new_world()
    put = Push(thread=world.thread)
    with pytest.raises(Stopped):
        world.core(StutterLedger(world.engine.ledger, 0)).ask(put, b"put", KEY)
    world.core().ask(CloseThread(world.thread))

    with pytest.raises(Refused, match="closed"):
        world.core().ask(put, b"put", KEY)

    assert len(world.core().ask(List()).artifacts) == 2


def test_what_was_pushed_and_removed_since_is_gone_and_not_pushed_again() -> None:
    world = new_world()
    ref = world.core().ask(Push(), b"short", KEY).ref
    world.core().ask(Remove(ref))

    with pytest.raises(Gone, match=ref):
        world.core().ask(Push(), b"short", KEY)


def test_a_capability_that_failed_is_run_again_for_the_same_hop() -> None:
    """Promise C3."""
    world = new_world()
    failing = iter([True, False])

    @capability("test.fail_first", cacheable=False)
    def fail_first(args: dict[str, Any]) -> str:
        if next(failing):
            raise OSError("no network")
        return "result"

    assert fail_first
    invoke = Invoke("test.fail_first", {}, world.thread)
    with pytest.raises(RelayError, match="no network"):
        world.core().ask(invoke, key=KEY)

    invoked = world.core().ask(invoke, key=KEY)

    assert world.core().ask(Pull(invoked.artifact_ref)).whole() == b"result"
    assert world.core().ask(ReadStats(world.thread)).hop_count == 1


NAMES = ("push", "push to thread", "push to both", "publish", "new thread", "add event", "invoke")


@settings(max_examples=length(10, 40, 400))
@given(
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.integers(0, 2), st.none() | st.integers(0, 12)),
        max_size=12,
    )
)
def test_whatever_is_cut_short_in_whatever_order_each_key_counts_once(
    asked: list[tuple[str, int, int | None]],
) -> None:
    """Promise C3."""
    world, clean = new_world(), new_world()
    keys = list(dict.fromkeys((name, number) for name, number, _ in asked))
    for name, _ in keys:
        clean.core().ask(*REQUESTS[name](clean))

    for name, number, stops_after in asked:
        ledger = None
        if stops_after is not None:
            ledger = StutterLedger(world.engine.ledger, stops_after)
        try:
            world.core(ledger).ask(*REQUESTS[name](world), f"{name} {number}")
        except Stopped:
            continue
    for name, number in keys:
        world.core().ask(*REQUESTS[name](world), f"{name} {number}")

    assert _counts(world.core()) == _counts(clean.core())
    assert world.core().ask(Verify()).problems == []


def _counts(core: Local) -> dict[str, Any]:
    """What is shown, whatever the order in which it was done."""
    seen = shown(core)
    return {
        **seen,
        "artifacts": len(seen["artifacts"]),
        "threads": [(*each[:4], sorted(each[4]), each[5]) for each in seen["threads"]],
    }
