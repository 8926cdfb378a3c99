"""The stuttering ledger itself."""

from __future__ import annotations

import pytest

from contextrelay.store.ledger import Ledger, Row, Stale, Write
from contextrelay.store.ledger.memory import MemoryLedger
from tests.store.stutter import Stopped, StutterLedger

THREE = (Write("a", (b"1",)), Write("b", rows=(Row("k", "x", b"2"),)), Write("c", (b"3",)))


def survivors(ledger: Ledger) -> list[str]:
    return ledger.logs("", "", 10)


@pytest.mark.parametrize("done", [0, 1, 2])
def test_it_stops_after_the_kth_commit(done: int) -> None:
    inner = MemoryLedger()
    stutter = StutterLedger(inner, done)
    for write in THREE[:done]:
        stutter.commit(write)

    with pytest.raises(Stopped):
        stutter.commit(THREE[done])

    assert survivors(inner) == ["a", "b", "c"][:done]


def test_a_commit_is_whole() -> None:
    inner = MemoryLedger()

    assert StutterLedger(inner, 1).commit(*THREE) == [1, 0, 1]


def test_writes_are_counted_over_several_calls() -> None:
    inner = MemoryLedger()
    stutter = StutterLedger(inner, 2)
    stutter.commit(THREE[0])
    stutter.tally("n", {"x": 1})

    with pytest.raises(Stopped):
        stutter.drop("a", 1)

    assert survivors(inner) == ["a"]


def test_nothing_can_be_read_after_the_end() -> None:
    stutter = StutterLedger(MemoryLedger(), 0)
    with pytest.raises(Stopped):
        stutter.commit(THREE[0])

    with pytest.raises(Stopped):
        stutter.last("a")


def test_reads_alone_do_not_bring_the_end() -> None:
    stutter = StutterLedger(MemoryLedger(), 0)

    assert stutter.last("a") == 0
    assert stutter.tally("n", {}) == {}


def test_stale_passes_through_and_does_not_count() -> None:
    stutter = StutterLedger(MemoryLedger(), 1)

    with pytest.raises(Stale):
        stutter.commit(Write("a", (b"1",), expect=7))

    assert stutter.commit(THREE[0]) == [1]


def test_core_cannot_catch_it_as_an_error() -> None:
    assert not issubclass(Stopped, Exception)
