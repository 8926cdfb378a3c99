"""Channels under a clock that stands: what is kept, for how long, and what a crash leaves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from contextrelay.client.transport.local import Local
from contextrelay.core.stores import Stores
from contextrelay.errors import Invalid, Unavailable
from contextrelay.limits import TOMBSTONE_S
from contextrelay.model.settings import Settings
from contextrelay.model.signal import SignalPage
from contextrelay.store.engine import Engine, open_engine
from contextrelay.store.ledger import Write
from contextrelay.store.ledger.view import SettledLedger
from contextrelay.verbs import (
    List,
    NewThread,
    Publish,
    Push,
    PushMany,
    ReadSignals,
    Remove,
    RemoveThread,
    Sweep,
    Verify,
)
from tests.core.clock import DAY_MS, HOUR_MS, Clock, local
from tests.store.stutter import Stopped, StutterLedger

MINUTE_MS = 60_000
STOPS_MAX = 60


@pytest.fixture
def clock() -> Clock:
    return Clock()


def signals(core: Local, channel: str = "c", after: int = 0, limit: int = 1_000) -> SignalPage:
    return core.ask(ReadSignals(channel, after, limit))


def seqs(page: SignalPage) -> list[int]:
    return [signal.seq for signal in page.signals]


# Names and messages


@pytest.mark.parametrize("name", ["", "\x7f"])
def test_what_cannot_be_read_back_is_no_name_of_a_channel(clock: Clock, name: str) -> None:
    core = local(clock)

    for verb in (Push(channel=name), Publish(name, 1), ReadSignals(name)):
        with pytest.raises(Invalid):
            core.ask(verb, b"")

    assert core.stores.ledger.logs("", "", 10) == []


def test_a_message_that_is_no_json_or_too_large_is_refused(clock: Clock) -> None:
    message = None
    error = Invalid
    core = local(clock)

    with pytest.raises(error):
        core.ask(Publish("c", message))

    assert signals(core).head == 0


# What is kept


def test_a_channel_keeps_the_newest_signals_and_shows_the_gap(clock: Clock) -> None:
    """Promise S4: kept by number, and an older `after` gets what it missed."""
    core = local(clock, settings=Settings(signals_kept_max=20))

    for number in range(1, 101):
        core.ask(Publish("c", number))
        assert len(signals(core).signals) in range(min(number, 20), 23)

    page = signals(core, after=50)
    assert page.gap == (51, page.signals[0].seq - 1)
    assert [signal.message for signal in page.signals] == seqs(page)
    assert page.head == seqs(page)[-1] == 100
    assert signals(core, after=seqs(page)[0] - 1).gap is None


def test_a_channel_keeps_signals_for_their_time_and_a_step_more(clock: Clock) -> None:
    """Promise S4: kept for a day."""
    core = local(clock)
    for number in range(4):
        core.ask(Publish("c", number))
        clock.pass_ms(8 * HOUR_MS)

    clock.pass_ms(-8 * HOUR_MS - 1)  # A moment before the first is a day old.
    core.ask(Sweep())
    assert seqs(signals(core)) == [1, 2, 3, 4]

    clock.pass_ms(HOUR_MS + 1)
    core.ask(Sweep())
    page = signals(core)
    assert (page.gap, seqs(page), page.head) == ((1, 1), [2, 3, 4], 4)

    clock.pass_ms(DAY_MS)
    core.ask(Sweep())
    assert signals(core, after=2) == SignalPage(signals=[], head=4, gap=(3, 4))
    assert signals(core, after=4) == SignalPage(signals=[], head=4)
    assert core.ask(Publish("c", "next")).seq == 5


def test_a_busy_channel_forgets_by_age_too(clock: Clock) -> None:
    core = local(clock)

    for number in range(100):
        core.ask(Publish("c", number))
        clock.pass_ms(HOUR_MS)
        core.ask(Sweep())

    # Those of the last 23 hours, and what is left of the step before.
    assert len(signals(core).signals) in (23, 24)


def test_a_longer_time_in_the_settings_holds_for_what_was_sent_before(clock: Clock) -> None:
    engine = open_engine("memory:")
    local(clock, engine).ask(Publish("c", "early"))
    core = local(clock, engine, Settings(signal_kept_s=3 * 86_400))

    clock.pass_ms(2 * DAY_MS)
    core.ask(Sweep())
    assert seqs(signals(core)) == [1]

    clock.pass_ms(DAY_MS + 6 * HOUR_MS)
    core.ask(Sweep())
    assert seqs(signals(core)) == []


def test_a_channel_without_signals_for_a_month_is_forgotten_and_starts_over(clock: Clock) -> None:
    """Promise S4: who comes back even later hears of a gap."""
    core = local(clock)
    for number in range(3):
        core.ask(Publish("c", number))
    for _ in range(3):
        clock.pass_ms(TOMBSTONE_S * 500)
        core.ask(Sweep())

    assert core.stores.ledger.logs("", "", 10) == []
    assert signals(core, after=3) == SignalPage(signals=[], head=0, gap=(4, 0))
    core.ask(Publish("c", "anew"))
    page = signals(core, after=3)
    assert (page.gap, seqs(page), page.head) == ((4, 0), [1], 1)


def test_a_channel_that_is_used_again_is_not_forgotten(clock: Clock) -> None:
    core = local(clock)
    core.ask(Publish("c", 1))
    clock.pass_ms(2 * DAY_MS)
    core.ask(Sweep())

    clock.pass_ms(28 * DAY_MS)
    core.ask(Publish("c", 2))
    clock.pass_ms(HOUR_MS)
    core.ask(Sweep())

    assert seqs(signals(core, after=1)) == [2]


# What a crash leaves

Scenario = Callable[[Local, str], None]


def push_one(core: Local, thread: str) -> None:
    core.ask(Push(channel="c", ttl_s=None), b"one")


def push_into_a_thread(core: Local, thread: str) -> None:
    core.ask(Push(channel="c", thread=thread), b"one")


def push_several(core: Local, thread: str) -> None:
    items = [Push(channel=name, ttl_s=None, name=name) for name in ("c", "d", "c")]
    core.ask(PushMany(items, [3, 3, 3]), b"onetwosix")


def push_and_publish(core: Local, thread: str) -> None:
    core.ask(Publish("c", "message"))
    core.ask(Push(channel="c", ttl_s=None), b"one")


@pytest.mark.parametrize("scenario", [push_one, push_into_a_thread, push_several, push_and_publish])
@pytest.mark.parametrize("wait_ms", [2 * MINUTE_MS, 2 * HOUR_MS])
def test_whatever_a_crash_leaves_each_push_is_signalled_once(
    clock: Clock, scenario: Scenario, wait_ms: int
) -> None:
    """Promise S4: nothing is missed, though the process that pushed died."""
    for stops_after in range(STOPS_MAX):
        engine = open_engine("memory:")
        thread = local(clock, engine).ask(NewThread()).thread_id
        stuttering = Engine("stutter", StutterLedger(engine.ledger, stops_after), engine.blobs)
        try:
            scenario(Local(Stores(stuttering, Settings(), clock)), thread)
        except Stopped:
            clock.pass_ms(wait_ms)
            _check(local(clock, engine), clock, thread, f"stopped after {stops_after}")
        else:
            assert stops_after, "the scenario writes too little to be stopped"
            _check(local(clock, engine), clock, thread, "not stopped")
            return
    pytest.fail(f"not done after {STOPS_MAX} writes")


def _check(core: Local, clock: Clock, thread: str, when: str) -> None:
    """What is stored was signalled, once and in order; at the end nothing is left over."""
    core.ask(Sweep())
    clock.pass_ms(2 * HOUR_MS)
    core.ask(Sweep())
    stored = [artifact.ref for artifact in core.ask(List(1_000)).artifacts]
    sent = [signal.ref for name in "cd" for signal in signals(core, name).signals if signal.ref]
    assert sorted(sent) == sorted(stored), when
    assert core.ask(Verify()).problems == [], when
    assert core.stores.ledger.rows("c/c", "pending", "", 10) == [], when

    for ref in stored:
        core.ask(Remove(ref))
    core.ask(RemoveThread(thread))
    for _ in range(4):
        clock.pass_ms(31 * DAY_MS)
        core.ask(Sweep())
    assert [log for log in core.stores.ledger.logs("", "", 100) if log[:2] == "c/"] == [], when


def test_a_push_slower_than_a_sweep_waits_is_signalled_once(clock: Clock) -> None:
    """The sweep runs when the artifact is in its thread, and the signal is not sent yet."""
    engine = open_engine("memory:")
    thread = local(clock, engine).ask(NewThread()).thread_id
    slow = SlowSignal(engine, clock)

    artifact = Local(Stores(Engine("slow", slow, engine.blobs), Settings(), clock)).ask(
        Push(channel="c", thread=thread), b"x"
    )

    assert slow.swept
    assert [each.ref for each in signals(local(clock, engine)).signals] == [artifact.ref]


class SlowSignal(StutterLedger):
    """A ledger on which a sweep runs two minutes after an artifact was put into a thread."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        super().__init__(engine.ledger, 10**9)
        self._engine = engine
        self._clock = clock
        self.swept = False

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        heads = super().commit(*writes, id=id)
        if any(write.log.startswith("t/") for write in writes) and not self.swept:
            self.swept = True
            self._clock.pass_ms(2 * MINUTE_MS)
            local(self._clock, self._engine).ask(Sweep())
        return heads


# Damage


def test_verify_shows_a_signal_that_cannot_be_read(clock: Clock) -> None:
    core = local(clock)
    core.ask(Publish("c", 1))
    core.stores.ledger.commit(Write("c/c", (b"{",)))

    problems = core.ask(Verify()).problems

    assert len(problems) == 1
    assert "signal 2 of channel 'c'" in problems[0].what


def test_a_damaged_signal_does_not_keep_others_from_being_forgotten(clock: Clock) -> None:
    core = local(clock)
    core.ask(Publish("c", 1))
    core.stores.ledger.commit(Write("c/c", (b"{",)))

    clock.pass_ms(2 * DAY_MS)
    core.ask(Sweep())

    assert seqs(signals(core)) == []


# Lost replies


class LosesReply(StutterLedger):
    """A ledger whose next reply to a commit is lost, after the commit was done or before."""

    def __init__(self, engine: Engine, is_done: bool) -> None:
        super().__init__(engine.ledger, 10**9)
        self._is_done = is_done

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        if self._is_done:
            super().commit(*writes, id=id)
        raise Unavailable("the reply was lost", "try again")


def test_a_message_whose_reply_was_lost_is_found_and_not_sent_twice(clock: Clock) -> None:
    engine = open_engine("memory:")
    local(clock, engine).ask(Publish("c", "before"))
    lossy = Engine("lossy", SettledLedger(LosesReply(engine, is_done=True)), engine.blobs)

    sent = Local(Stores(lossy, Settings(), clock)).ask(Publish("c", "once"))

    assert signals(local(clock, engine), after=1).signals == [sent]
