"""Keys, as clients give them: on every engine, over HTTP, blocking, awaited and by many at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Invalid, Refused, Relay
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


def test_a_large_push_and_many_pushes_with_a_key_are_stored_once(relay: Relay) -> None:
    items = [(f"body {number}", {"name": f"{number}.txt"}) for number in range(20)]

    large = [relay.once("large").push(b"x" * 300_000).ref for _ in range(2)]
    many = [[each.ref for each in relay.once("many").push_many(items)] for _ in range(2)]

    assert large[0] == large[1]
    assert many[0] == many[1]
    assert len(relay.list(1000).artifacts) == 21


def test_without_a_key_the_same_call_counts_each_time(relay: Relay) -> None:
    assert relay.push("content").ref != relay.push("content").ref


def test_another_request_with_the_same_key_is_refused(relay: Relay) -> None:
    """Promise C3."""
    relay.once("k1").push("content")

    with pytest.raises(Refused, match="use a new key"):
        relay.once("k1").push("other content")
    with pytest.raises(Refused, match="use a new key"):
        relay.once("k1").publish("news", "hello")


@pytest.mark.parametrize("key", ["", "é", "x" * 129])
def test_what_cannot_be_a_key_is_refused_before_anything_is_asked(key: str) -> None:
    with Relay("memory:") as relay, pytest.raises(Invalid, match="printable ASCII"):
        relay.once(key)


def test_a_key_is_for_the_request_and_not_for_the_thread_that_it_made(relay: Relay) -> None:
    thread = relay.once("make").new_thread("work")
    again = relay.once("make").new_thread("work")
    thread.patch([add("a", "one")])
    again.patch([add("b", "two")])

    assert again.id == thread.id
    assert thread.show().version == 3
    fork = thread.once("fork").fork()
    assert thread.once("fork").fork().id == fork.id
    assert fork.patch([add("c", "three")]).version == 2


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


def test_a_removal_with_a_key_is_answered_the_same(relay: Relay) -> None:
    ref = relay.push("content").ref
    thread = relay.new_thread("work")

    assert relay.once("r").remove(ref) == relay.once("r").remove(ref)
    assert thread.once("t").remove() == thread.once("t").remove()


def test_an_import_with_a_key_makes_one_thread(relay: Relay, tmp_path: Path) -> None:
    thread = relay.new_thread("work")
    thread.put("content", name="a.txt")
    thread.export(tmp_path / "work.zip")

    made = [relay.once("i").import_thread(tmp_path / "work.zip").id for _ in range(2)]

    assert made[0] == made[1]
    assert len(relay.threads().threads) == 2
    assert relay.verify().problems == []


def test_eight_at_once_push_one_artifact(relay: Relay) -> None:
    """Promise C3."""
    pushed = together(relay, lambda one: one.once("k").push("content", channel="news"))

    assert len({each.ref for each in pushed}) == 1
    assert [each.ref for each in relay.list().artifacts] == [pushed[0].ref]
    assert len(relay.signals("news", 0).signals) == 1
    assert relay.pull(pushed[0].ref) == b"content"
    assert relay.verify().problems == []


def test_eight_at_once_put_one_artifact_into_a_thread(relay: Relay) -> None:
    """Promise C3."""
    thread = relay.new_thread("work").id

    pushed = together(relay, lambda one: one.once("k").push("content", thread=thread))

    assert len({each.ref for each in pushed}) == 1
    state = relay.thread(thread).state()
    assert [each["ref"] for each in state["artifacts"]] == [pushed[0].ref]
    assert state["version"] == 2
    assert relay.verify().problems == []


def test_eight_at_once_make_one_thread_and_send_one_message(relay: Relay) -> None:
    """Promise C3."""
    made = together(relay, lambda one: one.once("t").new_thread("work"))
    sent = together(relay, lambda one: one.once("m").publish("news", "hello"))

    assert {each.id for each in made} == {relay.threads().threads[0].thread_id}
    assert len(relay.threads().threads) == 1
    assert {each.seq for each in sent} == {1}
    assert len(relay.signals("news", 0).signals) == 1


def test_eight_at_once_invoke_for_one_hop(relay: Relay) -> None:
    """Promise C3."""
    thread = relay.new_thread("work").id
    relay.push("the needle is here", name="hay.txt")

    def invoke(one: Any) -> Any:
        return one.once("k").invoke("retrieval.search", {"query": "needle"}, thread=thread)

    invoked = together(relay, invoke)

    assert len({each.artifact_ref for each in invoked}) == 1
    assert relay.thread(thread).stats().hop_count == 1
    assert len(relay.thread(thread).artifacts()) == 1
