"""Requests that have a key are done once, also by several at once or in a sweep."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from contextrelay.client.transport.local import Local
from contextrelay.core.stores import Stores
from contextrelay.errors import Full, Unavailable
from contextrelay.model.settings import Settings
from contextrelay.store.engine import Engine
from contextrelay.store.ledger import Ledger, Write
from contextrelay.store.ledger.view import SettledLedger
from contextrelay.verbs import (
    Body,
    Push,
    Sweep,
    Verb,
)
from tests.core.clock import HOUR_MS
from tests.core.idempotency_world import (
    KEY,
    REQUESTS,
    STOPS_MAX,
    World,
    after_once,
    check,
    check_nothing_stays,
    new_world,
    shown,
)
from tests.store.stutter import Stopped, StutterLedger


class LateLedger(StutterLedger):
    """A ledger on which the same request is done, whole, right before this one's first commit."""

    def __init__(self, world: World, verb: Verb[Any], body: Body, at_commit: int) -> None:
        super().__init__(world.engine.ledger, STOPS_MAX)
        self._world, self._verb, self._body = world, verb, body
        self._commits_left = at_commit
        self.replies: list[Any] = []

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        self._commits_left -= 1
        if self._commits_left == 0:
            self.replies.append(self._world.core().ask(self._verb, self._body, KEY))
        return super().commit(*writes, id=id)


@pytest.mark.parametrize("at_commit", [1, 2, 3])
@pytest.mark.parametrize("name", REQUESTS)
def test_two_at_once_do_it_once_and_are_answered_the_same(name: str, at_commit: int) -> None:
    """Promise C3."""
    clean = after_once(name)
    world = new_world()
    verb, body = REQUESTS[name](world)
    late = LateLedger(world, verb, body, at_commit)

    reply = world.core(late).ask(verb, body, KEY)

    check(world, name, clean, name)
    if late.replies:
        assert reply == late.replies[0]


@pytest.mark.parametrize("at_commit", [1, 2, 3])
@pytest.mark.parametrize("name", REQUESTS)
def test_two_at_once_after_one_was_cut_short_do_it_once(name: str, at_commit: int) -> None:
    """Promise C3."""
    clean = after_once(name)
    world = new_world()
    verb, body = REQUESTS[name](world)
    with suppress(Stopped):
        world.core(StutterLedger(world.engine.ledger, 1)).ask(verb, body, KEY)
    late = LateLedger(world, verb, body, at_commit)

    reply = world.core(late).ask(verb, body, KEY)

    check(world, name, clean, name)
    assert late.replies in ([], [reply])
    world.clock.pass_ms(2 * HOUR_MS)
    world.core().ask(Sweep())
    check(world, name, clean, f"{name} and a sweep")
    check_nothing_stays(world, name)


class FullLedger(LateLedger):
    """One on which, after the same request was done, there is no room for this one's commit."""

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        heads = super().commit(*writes, id=id) if self._commits_left != 1 else []
        if self._commits_left == 1:
            super().commit()
            raise Full("no room", "make some")
        return heads


@pytest.mark.parametrize("at_commit", [1, 2, 3])
@pytest.mark.parametrize("name", REQUESTS)
def test_of_two_at_once_one_that_fails_takes_nothing_from_the_other(
    name: str, at_commit: int
) -> None:
    """Promise C3."""
    clean = after_once(name)
    world = new_world()
    verb, body = REQUESTS[name](world)
    with suppress(Stopped):
        world.core(StutterLedger(world.engine.ledger, 1)).ask(verb, body, KEY)

    with suppress(Full):
        world.core(FullLedger(world, verb, body, at_commit)).ask(verb, body, KEY)

    check(world, name, clean, name)
    world.clock.pass_ms(2 * HOUR_MS)
    world.core().ask(Sweep())
    check(world, name, clean, f"{name} and a sweep")


class SweptLedger(StutterLedger):
    """A ledger that is swept right before the first commit."""

    def __init__(self, world: World) -> None:
        super().__init__(world.engine.ledger, STOPS_MAX)
        self._core: Local | None = world.core()

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        core, self._core = self._core, None
        if core is not None:
            core.ask(Sweep(is_deep=False))  # Blobs bear the time of the machine.
        return super().commit(*writes, id=id)


@pytest.mark.parametrize("name", [name for name in REQUESTS if name.startswith("push")])
def test_asked_again_while_a_sweep_takes_the_first_time_for_dead_it_is_done_once(
    name: str,
) -> None:
    clean = after_once(name)
    for stops_after in range(1, 8):
        world = new_world()
        verb, body = REQUESTS[name](world)
        with suppress(Stopped):
            world.core(StutterLedger(world.engine.ledger, stops_after)).ask(verb, body, KEY)
        world.clock.pass_ms(2 * HOUR_MS)

        swept = world.core(SweptLedger(world))
        try:
            swept.ask(verb, body, KEY)
        except Unavailable:  # Its blob was freed with the ref: it takes another body to go on.
            assert name == "push large"
            swept.ask(verb, body, KEY)

        when = f"{name} after {stops_after}"
        assert shown(world.core()) == clean, when
        world.clock.pass_ms(2 * HOUR_MS)
        world.core().ask(Sweep())
        check(world, name, clean, when)
        check_nothing_stays(world, when)


def test_a_stream_that_came_too_late_is_sent_back_to_ask_again() -> None:
    world = new_world()
    late = LateLedger(world, Push(), b"streamed", at_commit=1)

    with pytest.raises(Unavailable, match="same key"):
        world.core(late).ask(Push(), iter([b"stream", b"ed"]), KEY)

    assert world.core().ask(Push(), iter([b"stream", b"ed"]), KEY) == late.replies[0]


class LossyLedger(StutterLedger):
    """A ledger whose first replies are lost: the commits are done, but nobody hears of it."""

    def __init__(self, inner: Ledger, lost: int) -> None:
        super().__init__(inner, STOPS_MAX)
        self._lost = lost

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        heads = super().commit(*writes, id=id)
        self._lost -= 1
        if self._lost >= 0:
            raise Unavailable("the reply was lost", "try again")
        return heads


@pytest.mark.parametrize("name", REQUESTS)
def test_lost_replies_are_asked_for_again_and_nothing_is_done_twice(name: str) -> None:
    """Promise C3."""
    clean = after_once(name)
    world = new_world()
    verb, body = REQUESTS[name](world)
    core = Local(
        Stores(
            Engine(
                "lossy",
                SettledLedger(LossyLedger(world.engine.ledger, 3)),
                world.engine.blobs,
            ),
            Settings(),
            world.clock,
        )
    )

    for _ in range(10):
        try:
            core.ask(verb, body, KEY)
            break
        except Unavailable:
            continue

    check(world, name, clean, name)
