"""Handoffs in core: after a crash, asked at once by several, and with a limited key."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.json import decode

from contextrelay import Full, NotFound, Refused
from contextrelay.client.transport.local import Local
from contextrelay.verbs import (
    AcceptHandoff,
    GiveHandoff,
    ListHandoffs,
    ReadEvents,
    ReadState,
    ReturnHandoff,
    Sweep,
    Verify,
)
from tests.core.clock import HOUR_MS
from tests.core.idempotency_world import STOPS_MAX, World, check_nothing_stays, new_world
from tests.core.keyed import as_seen_by, holder, owner
from tests.store.stutter import Stopped, StutterLedger


def give(world: World, core: Local) -> None:
    core.ask(GiveHandoff(world.thread, "coder", "go on", refs=(world.kept,)))


def accept(world: World, core: Local) -> None:
    core.ask(AcceptHandoff(handed(world), by="coder"))


def give_back(world: World, core: Local) -> None:
    core.ask(ReturnHandoff(handed(world), "done.txt", by="coder"), b"done")


def handed(world: World) -> str:
    """A handoff that was given without trouble."""
    return world.core().ask(GiveHandoff(world.thread, "coder", "go on")).ref


@pytest.mark.parametrize("act", [give, accept, give_back])
def test_a_crash_leaves_a_handoff_whole_or_not_at_all(act: Callable[[World, Local], None]) -> None:
    """Promises K7, G2: what the list shows and what the thread's events say are the same."""
    for stops_after in range(STOPS_MAX):
        world = new_world()
        try:
            act(world, world.core(StutterLedger(world.engine.ledger, stops_after)))
            is_whole = True
        except Stopped:
            is_whole = False

        check_list_and_events_agree(world)
        world.clock.pass_ms(2 * HOUR_MS)
        world.core().ask(Sweep())
        check_list_and_events_agree(world)
        assert world.core().ask(Verify()).problems == []
        check_nothing_stays(world, f"{act.__name__} after {stops_after}")
        if is_whole:
            assert stops_after >= 1
            return
    pytest.fail(f"{act.__name__} is not done after {STOPS_MAX} writes")


def check_list_and_events_agree(world: World) -> None:
    core = world.core()
    listed = core.ask(ListHandoffs(limit=100)).handoffs
    events = [each.event for each in core.ask(ReadEvents(world.thread)).events]
    events = {
        kind: {event.detail["ref"] for event in events if event.type == f"handoff.{kind}"}
        for kind in ("given", "accepted", "returned")
    }
    assert {each.ref for each in listed} == events["given"]
    assert {each.ref for each in listed if each.accepted} == events["accepted"]
    assert {each.ref for each in listed if each.returned} == events["returned"]
    in_state = {each["ref"] for each in state_of(world)["artifacts"]}
    assert {ref for each in listed for ref in (each.ref, *each.returned)} <= in_state
    if not listed:
        assert [row.key for row in core.stores.ledger.rows(f"a/{world.kept}", "holder", "", 9)] in (
            [],
            [world.thread],  # Its row comes first; the thread's own says whether it holds it.
        )
        assert core.stores.ledger.get(f"t/{world.thread}", "artifact", world.kept) is None


def state_of(world: World) -> dict[str, list[dict[str, str]]]:
    return decode(world.core().ask(ReadState(world.thread)).state)


def test_many_who_accept_at_once_are_each_answered_once() -> None:
    """Promise K7: acknowledgement."""
    world = new_world()
    ref = handed(world)
    core = world.core()

    with ThreadPoolExecutor(8) as pool:
        names = [f"agent {number % 4}" for number in range(24)]
        list(pool.map(core.ask, [AcceptHandoff(ref, by=name) for name in names]))

    events = [each.event for each in core.ask(ReadEvents(world.thread)).events]
    accepted = [event.by for event in events if event.type == "handoff.accepted"]
    assert sorted(accepted) == sorted(set(names))
    line = core.ask(ListHandoffs()).handoffs[0]
    assert sorted(each.by for each in line.accepted) == sorted(set(names))


def test_a_key_for_a_channel_alone_takes_what_is_given_there_and_sees_no_more() -> None:
    """Promise Z1, of handoffs: the receiver's key is for its own channel."""
    relay = owner()
    thread = relay.new_thread("secret plans")
    spec = thread.put("# Spec\n", name="spec.md")
    given = thread.hand_off("coder", "go", refs=(spec.ref,), by="planner")
    thread.hand_off("tester", "not for coder")
    coder = holder(relay, channels=("handoff/coder",))

    taken = coder.accept(given.ref, by="coder")

    assert taken.handoff == given.handoff
    assert [each.ref for each in coder.handoffs().handoffs] == [given.ref]
    (accepted,) = relay.handoff(given.ref).accepted
    assert accepted.by.endswith("/coder")
    with pytest.raises(NotFound):
        coder.peek(spec.ref)
    with pytest.raises(NotFound, match="no access to the thread"):
        coder.give_back("done", given.ref)


def test_a_key_for_threads_alone_learns_which_channel_it_lacks() -> None:
    """Promise Z1, of handoffs."""
    relay = owner()
    relay.new_thread("team one")
    limited = holder(relay, threads=("team",))

    with pytest.raises(Refused, match="channel"):
        limited.thread("team one").hand_off("coder", "go")

    both = holder(relay, threads=("team",), channels=("handoff/",))
    assert both.thread("team one").hand_off("coder", "go").handoff.to == "coder"


def test_handoffs_count_against_the_quota_of_a_key() -> None:
    """Promise Z1, of quotas: what a handoff stores is counted, whole."""
    relay = owner()
    relay.new_thread("work")
    issued = relay.new_key(quota_bytes=2_000)
    thread = as_seen_by(relay, issued.key).thread("work")
    first = thread.hand_off("coder", "go " * 100)

    used = relay.usage(issued.key.id).pushed_bytes
    assert used == relay.peek(first.ref).size_bytes
    while relay.usage(issued.key.id).pushed_bytes + used <= 2_000:
        thread.hand_off("coder", "go " * 100)
    with pytest.raises(Full):
        thread.hand_off("coder", "go " * 100)
    assert relay.usage(issued.key.id).pushed_bytes <= 2_000
