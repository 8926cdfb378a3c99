"""The stuttering ledger itself."""

from __future__ import annotations

import pytest

from contextrelay.store.ledger import Ledger, Row, Write
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


def test_core_cannot_catch_it_as_an_error() -> None:
    assert not issubclass(Stopped, Exception)
