"""Each verb is done once or not at all, and its caller knows which, whatever happens to a commit.

A ledger whose engine fails at one commit stands in for a server: before the commit is applied,
after it (the reply is lost), or with no answer to the question either. Each request is run to a
failure at every commit that it makes.
"""

from __future__ import annotations

from typing import Literal

import pytest

from contextrelay.core import answer_pushes
from contextrelay.errors import Unavailable
from contextrelay.store.ledger import Ledger, Write
from contextrelay.store.ledger.view import LedgerView, SettledLedger
from contextrelay.verbs import List, Push, ReadSignals
from tests.core.idempotency_world import (
    KEY,
    REQUESTS,
    STOPS_MAX,
    after_once,
    check,
    check_nothing_stays,
    new_world,
    shown,
)

Failure = Literal["before", "after", "silence"]
# Sequences of commits, or with foreign code in between: without a key they may stop in between.
SEQUENCES = {
    *("add blocks", "hand back", "import", "invoke", "invoke alone", "prune", "push many"),
    *("remove", "remove thread"),
}


class FailingLedger(LedgerView):
    """A ledger whose engine fails at the commit with a number, once."""

    def __init__(self, inner: Ledger, number: int, failure: Failure) -> None:
        super().__init__(inner)
        self.commits = 0
        self._number = number
        self._failure = failure
        self._is_silent = False

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        self.commits += 1
        if self.commits != self._number:
            return super().commit(*writes, id=id)
        if self._failure != "before":
            super().commit(*writes, id=id)
        self._is_silent = self._failure == "silence"
        raise Unavailable("the store's server does not answer", "try again")

    def applied(self, id: bytes) -> list[int] | None:
        if self._is_silent:
            self._is_silent = False
            raise Unavailable("the store's server does not answer", "try again")
        return super().applied(id)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_lost_reply_is_made_up_for(name: str) -> None:
    """Promise C3."""
    clean = after_once(name)
    for number in range(1, STOPS_MAX):
        world = new_world()
        verb, body = REQUESTS[name](world)
        failing = FailingLedger(world.engine.ledger, number, "after")

        world.core(SettledLedger(failing)).ask(verb, body)

        check(world, name, clean, f"{name}, commit {number}")
        if failing.commits < number:
            assert number > 1
            return
    pytest.fail(f"{name} is not done after {STOPS_MAX} commits")


@pytest.mark.parametrize("name", [name for name in REQUESTS if name not in SEQUENCES])
def test_what_was_not_applied_was_not_done(name: str) -> None:
    """Promise C3."""
    clean = after_once(name)
    for number in range(1, STOPS_MAX):
        world = new_world()
        verb, body = REQUESTS[name](world)
        before = shown(world.core())
        failing = FailingLedger(world.engine.ledger, number, "before")
        when = f"{name}, commit {number}"

        try:
            world.core(SettledLedger(failing)).ask(verb, body)
            check(world, name, clean, when)
        except Unavailable:
            assert shown(world.core()) == before, when
        if failing.commits < number:
            check_nothing_stays(world, when)
            return
    pytest.fail(f"{name} is not done after {STOPS_MAX} commits")


@pytest.mark.parametrize("failure", ["before", "after", "silence"])
@pytest.mark.parametrize("name", REQUESTS)
def test_asked_again_with_its_key_it_is_done_once(name: str, failure: Failure) -> None:
    """Promise C3."""
    clean = after_once(name)
    for number in range(1, STOPS_MAX):
        world = new_world()
        verb, body = REQUESTS[name](world)
        failing = FailingLedger(world.engine.ledger, number, failure)
        core = world.core(SettledLedger(failing))
        try:
            core.ask(verb, body, KEY)
        except Unavailable:
            core.ask(verb, body, KEY)

        check(world, name, clean, f"{name}, commit {number}")
        if failing.commits < number:
            check_nothing_stays(world, name)
            return
    pytest.fail(f"{name} is not done after {STOPS_MAX} commits")


@pytest.mark.parametrize("failure", ["before", "after", "silence"])
def test_pushes_side_by_side_are_never_stored_twice(failure: Failure) -> None:
    """Promise S4. A batch whose outcome is unknown is not pushed again one by one."""
    world = new_world()
    failing = FailingLedger(world.engine.ledger, 1, failure)
    stores = world.core(SettledLedger(failing)).stores
    asked = [(Push(channel="news", name=f"{number}"), b"%d" % number) for number in range(3)]

    answers = answer_pushes([(stores, *each, "") for each in asked])

    are_told = [isinstance(each, Unavailable) for each in answers]
    stored = [each for each in world.core().ask(List(100)).artifacts if each.channel == "news"]
    sent = world.core().ask(ReadSignals("news", after=0)).signals
    assert are_told == [failure != "after"] * 3
    assert len(stored) == len(sent) == (0 if failure == "before" else 3)
