"""A crash between any two commits leaves nothing wrong.

A ledger that stops after the k-th commit stands in for a crash. Each scenario is run to every
possible stop; tests/core/test_every_commit.py has commits that fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from contextrelay.client.transport.local import Local
from contextrelay.core.artifacts.catalog import ADDED
from contextrelay.core.stores import Stores
from contextrelay.model.settings import Settings
from contextrelay.store.engine import Engine, open_engine
from contextrelay.verbs import (
    Extend,
    Find,
    List,
    Pin,
    Pull,
    Push,
    PushMany,
    Remove,
    Sweep,
    Verify,
)
from tests.core.clock import DAY_MS, HOUR_MS, Clock, local
from tests.store.stutter import Stopped, StutterLedger

SMALL = b"kept before"
LARGE = os.urandom(50_000)
STOPS_MAX = 200

Scenario = Callable[[Local, Clock, str], None]


def push_new(core: Local, clock: Clock, kept: str) -> None:
    core.ask(Push(), b"new content")


def push_large(core: Local, clock: Clock, kept: str) -> None:
    core.ask(Push(), LARGE)


def push_same(core: Local, clock: Clock, kept: str) -> None:
    core.ask(Push(), SMALL)


def push_derived(core: Local, clock: Clock, kept: str) -> None:
    core.ask(Push(source_refs=(kept,)), b"derived")


def push_many(core: Local, clock: Clock, kept: str) -> None:
    bodies = [b"one", SMALL, b"two", b"one"]
    core.ask(PushMany([Push()] * 4, [len(body) for body in bodies]), iter(bodies))


def change(core: Local, clock: Clock, kept: str) -> None:
    ref = core.ask(Push(ttl_s=60), LARGE).ref
    core.ask(Extend(ref, 120))
    core.ask(Pin(ref))


def remove(core: Local, clock: Clock, kept: str) -> None:
    core.ask(Remove(core.ask(Push(), LARGE).ref))
    core.ask(Remove(core.ask(Push(), SMALL).ref))


def expire(core: Local, clock: Clock, kept: str) -> None:
    core.ask(Push(ttl_s=1), LARGE)
    core.ask(Push(ttl_s=1), b"short")
    core.ask(Push(ttl_s=1), SMALL)
    clock.pass_ms(2 * HOUR_MS)
    core.ask(Sweep())
    clock.pass_ms(31 * DAY_MS)
    core.ask(Sweep())


def free_and_push_again(core: Local, clock: Clock, kept: str) -> None:
    core.ask(Remove(core.ask(Push(), LARGE).ref))
    core.ask(Push(), LARGE)


def join(core: Local, clock: Clock, kept: str) -> None:
    part = core.ask(Push(ttl_s=60), LARGE).ref
    core.ask(Push(parts=(kept, part, kept), ttl_s=60), LARGE[:40_000])


def join_and_remove(core: Local, clock: Clock, kept: str) -> None:
    part = core.ask(Push(ttl_s=60), LARGE).ref
    core.ask(Remove(core.ask(Push(parts=(part, kept)), b"end").ref))
    core.ask(Push(parts=(part, kept)), b"end")


@pytest.mark.parametrize(
    "scenario",
    [
        join,
        join_and_remove,
        push_new,
        push_large,
        push_same,
        push_derived,
        push_many,
        change,
        remove,
        expire,
        free_and_push_again,
    ],
)
def test_any_prefix_of_a_scenario_does_no_harm(scenario: Scenario) -> None:
    """Promise G2."""
    for stops_after in range(STOPS_MAX):
        engine = open_engine("memory:")
        clock = Clock()
        kept = local(clock, engine).ask(Push(ttl_s=None), SMALL).ref
        stuttering = Engine("stutter", StutterLedger(engine.ledger, stops_after), engine.blobs)
        try:
            scenario(Local(Stores(stuttering, Settings(), clock)), clock, kept)
        except Stopped:
            _check(local(clock, engine), clock, kept, f"{scenario.__name__} after {stops_after}")
        else:
            assert stops_after, "the scenario writes too little to be stopped"
            return
    pytest.fail(f"{scenario.__name__} is not done after {STOPS_MAX} writes")


def _check(core: Local, clock: Clock, kept: str, when: str) -> None:
    """All that is listed can be read; sweeps mend the rest; then nothing is left over."""
    assert core.ask(Pull(kept)).whole() == SMALL, when
    _check_visible(core, when)

    clock.pass_ms(2 * HOUR_MS)
    core.ask(Sweep())
    problems = core.ask(Verify()).problems
    assert problems == [], when
    _check_visible(core, when)

    for artifact in core.ask(List(1000)).artifacts:
        core.ask(Remove(artifact.ref))
    clock.pass_ms(31 * DAY_MS)
    core.ask(Sweep())
    clock.pass_ms(31 * DAY_MS)
    core.ask(Sweep())
    left = [log for log in core.stores.ledger.logs("", "", 100) if log not in ("sweep", ADDED)]
    assert left == [], when
    assert list(core.stores.blobs.walk()) == [], when


def _check_visible(core: Local, when: str) -> None:
    for artifact in core.ask(List(1000)).artifacts:
        assert len(core.ask(Pull(artifact.ref)).whole()) == artifact.size_bytes, when
        assert core.ask(Find(artifact.ref[:12])), when
