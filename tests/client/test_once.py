"""Keys, as clients give them: on every engine, over HTTP, blocking, awaited and by many at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from contextrelay import Relay
from tests.legs import Awaited

RACERS = 8


def add(key: str, value: str) -> dict[str, Any]:
    return {"op": "add", "path": "/facts/-", "value": {"id": key, "key": key, "value": value}}


def together(relay: Any, act: Callable[[Any], Any]) -> list[Any]:
    """Ask the same eight times at once."""
    if isinstance(relay, Awaited):
        return relay.together(act, RACERS)
    with ThreadPoolExecutor(RACERS) as pool:
        return list(pool.map(act, [relay] * RACERS))


def test_a_push_with_a_key_is_stored_once(relay: Relay) -> None:
    first = relay.once("k1").push("content", name="a.txt", channel="news")
    second = relay.once("k1").push("content", name="a.txt", channel="news")

    assert second == first
    assert [each.ref for each in relay.list().artifacts] == [first.ref]
    assert [each.ref for each in relay.signals("news", 0).signals] == [first.ref]


def test_changes_to_a_thread_with_a_key_are_made_once(relay: Relay) -> None:
    """Promise C3."""
    thread = relay.new_thread("work")

    patched = [thread.once("p").patch([add("a", "one")], expected=1) for _ in range(2)]
    put = [thread.once("t").put("content", name="a.txt") for _ in range(2)]
    added = [thread.once("e").add_event("test.ran", {"passed": 3}) for _ in range(2)]
    marked = [thread.once("c").checkpoint("here") for _ in range(2)]

    for first, second in (patched, put, added, marked):
        assert first == second
    types = [each.event.type for each in thread.events()]
    assert types.count("state.patch.applied") == 2
    assert types.count("artifact.created") == types.count("test.ran") == 1
    assert types.count("checkpoint.created") == 1


def test_eight_at_once_push_one_artifact(relay: Relay) -> None:
    """Promise C3."""
    pushed = together(relay, lambda one: one.once("k").push("content", channel="news"))

    assert len({each.ref for each in pushed}) == 1
    assert [each.ref for each in relay.list().artifacts] == [pushed[0].ref]
    assert len(relay.signals("news", 0).signals) == 1
    assert relay.pull(pushed[0].ref) == b"content"
    assert relay.verify().problems == []
