"""Copies of threads: the same history under another id."""

from __future__ import annotations

from typing import Any

import pytest

from contextrelay import Gone, Relay
from contextrelay.client.thread import Thread
from contextrelay.verbs import CopyThread


@pytest.fixture
def thread() -> Thread:
    """A thread at v4, with an artifact and an event of somebody's own."""
    thread = Relay("memory:").new_thread("work")
    thread.add_fact("the port is 8080", key="port")
    thread.put("a log that is long enough", name="build.log")
    thread.add_event("custom.event", {"thread": thread.id})
    thread.add_fact("the port is 9090", key="port")
    return thread


def copied(thread: Thread, version: int | None = None) -> Thread:
    view = thread.ask(CopyThread(thread.id, version, "copy"))
    return Thread(thread.relay, view.thread_id)


def but_for_id(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name != "thread_id"}


def test_every_version_of_a_copy_is_the_same_but_for_its_id(thread: Thread) -> None:
    """Promise X5: ids, refs and times are those of the record."""
    copy = copied(thread)

    assert copy.show().forked_from == f"{thread.id}@v4"
    assert copy.state()["thread_id"] == copy.id
    for version in range(1, 5):
        assert but_for_id(copy.state(version)) == but_for_id(thread.state(version))
    ours, theirs = copy.events()[1:], thread.events()[2:]
    assert [each.event.at for each in ours[1:]] == [each.event.at for each in theirs]
    assert copy.relay.verify().problems == []


def test_a_copy_ends_at_its_version_and_goes_its_own_way(thread: Thread) -> None:
    """Promise X5: never over the original."""
    copy = copied(thread, 2)
    copy.add_fact("the host is one")

    assert copy.show().version == 3
    assert thread.show().version == 4
    assert thread.state()["facts"][0]["value"] == "the port is 9090"


def test_what_a_copy_names_outlives_the_thread_that_it_is_of(thread: Thread) -> None:
    """Promise X5."""
    ref = thread.state()["artifacts"][0]["ref"]
    copy = copied(thread)

    thread.remove()

    assert copy.relay.pull(ref) == b"a log that is long enough"
    copy.remove()
    with pytest.raises(Gone):
        copy.relay.pull(ref)
