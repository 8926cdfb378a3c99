"""The witness: it agrees with a store that kept its word, and notices every way of not doing so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from contextrelay import Relay
from contextrelay.client.thread import Thread
from contextrelay.core.stores import clock_ms
from tests.crash.acts import Acts
from tests.crash.report import Entry, Lost, Mine
from tests.crash.witness import Witness, check_verified

ACTS = 250


@pytest.fixture
def entries() -> list[Entry]:
    return []


@pytest.fixture
def relay(entries: list[Entry]) -> Relay:
    """A store in which much was done, all of it reported."""
    opened = Relay("memory:")
    acts = Acts(opened, 7, entries.append, Mine([], []))
    for _ in range(ACTS):
        acts.one()
    return opened


def heard(entries: list[Entry]) -> Witness:
    witness = Witness()
    for each in entries:
        witness.hear(each)
    return witness


def last(entries: list[Entry], what: str, witness: Witness) -> int:
    """Where something was last acknowledged of a thread that is there and open."""
    threads = witness.threads.kept
    return max(
        index
        for index, each in enumerate(entries)
        if each.what == what
        and each.is_done
        and each.thread in threads
        and not threads[each.thread].is_closed
    )


def test_a_store_that_kept_its_word_is_believed(relay: Relay, entries: list[Entry]) -> None:
    """Every kind of act is among the entries, and what came of it is checked."""
    witness = heard(entries)

    witness.check(relay, clock_ms)
    witness.check(relay, clock_ms)
    check_verified(relay)

    assert {each.what for each in entries if each.is_done} == {
        "push",
        "remove",
        "pin",
        "extend",
        "sweep",
        "thread",
        "patch",
        "restore",
        "put",
        "checkpoint",
        "close",
        "remove_thread",
    }
    assert max(len(kept.digests) for kept in witness.threads.kept.values()) > 5


def check_noticed(relay: Relay, witness: Witness) -> None:
    with pytest.raises(Lost):
        witness.check(relay, clock_ms)


@pytest.mark.parametrize("what", ["patch", "put", "checkpoint"])
def test_another_answer_than_the_one_that_is_there_is_noticed(
    relay: Relay, entries: list[Entry], what: str
) -> None:
    index = last(entries, what, heard(entries))
    entries[index] = replace(entries[index], digest="other")

    check_noticed(relay, heard(entries))


def test_a_version_that_was_acknowledged_and_is_not_there_is_noticed(
    relay: Relay, entries: list[Entry]
) -> None:
    patch = entries[last(entries, "patch", heard(entries))]
    witness = heard(entries)
    version = len(witness.threads.kept[patch.thread].digests) + 1

    witness.hear(replace(patch, version=version))

    check_noticed(relay, witness)


def open_thread(relay: Relay, witness: Witness) -> Thread:
    kept = witness.threads.kept.items()
    return Thread(relay, next(id for id, each in kept if not each.is_closed))


DONE_UNTOLD: dict[str, Callable[[Thread], object]] = {
    "patch": lambda thread: thread.patch([{"op": "add", "path": "/note", "value": 1}]),
    "close": lambda thread: thread.close(),
    "remove_thread": lambda thread: thread.remove(),
}


@pytest.mark.parametrize("what", DONE_UNTOLD)
def test_what_was_never_acknowledged_is_noticed_unless_it_was_under_way(
    relay: Relay, entries: list[Entry], what: str
) -> None:
    witness = heard(entries)
    thread = open_thread(relay, witness)
    DONE_UNTOLD[what](thread)
    dying = witness.copy()
    dying.hear(Entry(what, thread=thread.id))  # pyright: ignore[reportArgumentType]

    dying.check(relay, clock_ms)
    dying.check(relay, clock_ms)

    check_noticed(relay, witness)


def test_what_was_under_way_may_happen_once(relay: Relay, entries: list[Entry]) -> None:
    witness = heard(entries)
    thread = open_thread(relay, witness)
    witness.hear(Entry("patch", thread=thread.id))
    for number in range(2):
        thread.patch([{"op": "add", "path": "/note", "value": number}])

    check_noticed(relay, witness)


def test_a_thread_that_is_back_is_noticed(relay: Relay, entries: list[Entry]) -> None:
    witness = heard(entries)
    witness.hear(Entry("remove_thread", is_done=True, thread=open_thread(relay, witness).id))

    check_noticed(relay, witness)


def test_an_artifact_that_went_though_a_thread_has_it_is_noticed(
    relay: Relay, entries: list[Entry]
) -> None:
    witness = heard(entries)
    thread = entries[last(entries, "put", witness)].thread
    relay.remove(Thread(relay, thread).artifacts()[0].ref)

    check_noticed(relay, witness)
