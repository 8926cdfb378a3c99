"""Threads that leave a store and come back, are followed live, and are changed by many hands."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from contextrelay import Relay
from tests.client.test_threads import fact, values


def test_a_thread_is_exported_and_imported_as_a_new_one(
    leg: Callable[..., Relay], tmp_path: Path
) -> None:
    """Promise T10."""
    relay = leg()
    thread = relay.new_thread("travels")
    large = bytes(range(256)) * 400
    first = thread.put(large, name="data.bin", metadata={"k": 1})
    second = thread.put("# Sum", name="sum.md", source_refs=(first.ref,))
    thread.patch([fact("a", {"see": second.ref})])

    thread.export(tmp_path / "t.zip")
    other = leg("two")
    copy = other.import_thread(tmp_path / "t.zip")

    state = copy.state()
    new_first, new_second = (each["ref"] for each in state["artifacts"])
    assert copy.id != thread.id
    assert other.pull(new_first) == large
    assert other.peek(new_first).metadata == {"k": 1}
    assert other.peek(new_second).type == "markdown"
    assert other.lineage(new_first).derived == [new_second]
    assert values(state) == [{"see": new_second}]
    assert state["version"] == thread.show().version
    assert values(copy.state(2)) == []
    assert other.verify().problem_count == 0


def test_tail_ends_when_nothing_comes_in_time(relay: Relay) -> None:
    thread = relay.new_thread()

    seen = list(thread.tail(timeout_s=0.05))

    assert [each.event.type for each in seen] == ["thread.created", "state.created"]


def test_many_hands_on_one_thread_lose_nothing(leg: Callable[..., Relay]) -> None:
    """Promise T4."""
    relay = leg()
    thread = relay.new_thread()
    if type(relay) is not Relay:
        pytest.skip("an awaited relay is driven by one thread here")

    def work(hand: int) -> None:
        for number in range(10):
            thread.patch([fact(f"{hand}-{number}", number)])

    hands = [threading.Thread(target=work, args=(hand,)) for hand in range(4)]
    for hand in hands:
        hand.start()
    for hand in hands:
        hand.join()

    assert thread.show().version == 41
    assert len({each["id"] for each in thread.state()["facts"]}) == 40
