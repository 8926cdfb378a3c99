"""What a person or a model writes, and the ref, thread or place that it leads to."""

from __future__ import annotations

import pytest

from contextrelay import Gone, Invalid, NotFound, Relay
from contextrelay.client.flow import run
from contextrelay.client.names import (
    InterfaceNames,
    ThreadReference,
    find_place,
    find_ref,
    find_thread,
    other_server,
)
from contextrelay.verbs import RememberPush

DOOR = InterfaceNames("ls", "threads", "new")
WITH_LAST = InterfaceNames("ls", "threads", "new", places=("terminal", "folder"))


@pytest.fixture
def relay() -> Relay:
    return Relay("memory:")


def test_last_is_the_last_push_of_the_first_place_that_has_one(relay: Relay) -> None:
    first, second = relay.push("in the folder").ref, relay.push("in the terminal").ref
    with pytest.raises(NotFound, match="nothing was pushed from this folder"):
        run(relay.transport, find_ref("@last", WITH_LAST))

    relay.transport.ask(RememberPush(first, "folder"))
    assert run(relay.transport, find_ref("@last", WITH_LAST)) == first
    relay.transport.ask(RememberPush(second, "terminal"))
    assert run(relay.transport, find_ref("@last", WITH_LAST)) == second

    relay.remove(second)
    with pytest.raises(Gone, match="was pushed last from here"):
        run(relay.transport, find_ref("@last", WITH_LAST))


def test_an_unknown_ref_is_not_found_with_the_one_that_was_probably_meant(relay: Relay) -> None:
    made = relay.push("a report", name="report.md")

    with pytest.raises(NotFound) as by_name:
        run(relay.transport, find_ref("raport.md", DOOR))
    with pytest.raises(NotFound, match="too short"):
        run(relay.transport, find_ref("abc", DOOR))
    with pytest.raises(NotFound) as far:
        run(relay.transport, find_ref("@last", DOOR))

    assert by_name.value.hint == f"did you mean {made.ref[:8]} (report.md)?"
    assert far.value.hint.endswith("list them: ls")


def test_every_form_of_a_thread_leads_to_the_same_thread(relay: Relay) -> None:
    thread = relay.new_thread("release")

    forms = [thread.id, thread.id[:6], thread.id[:8].upper(), "release", " release "]
    found = {run(relay.transport, find_thread(form, DOOR)).thread_id for form in forms}

    assert found == {thread.id}


def test_an_unknown_thread_is_not_found_with_the_one_that_was_probably_meant(relay: Relay) -> None:
    thread = relay.new_thread("release notes")

    with pytest.raises(NotFound, match="thread not found: 'relase notes'") as meant:
        run(relay.transport, find_thread("relase notes", DOOR))
    with pytest.raises(NotFound) as empty:
        run(relay.transport, find_thread("", DOOR))

    assert meant.value.hint == f"did you mean {thread.id[:8]} (release notes)?"
    assert empty.value.hint == "list the threads: threads; or create it: new"


def test_a_place_is_a_thread_a_version_and_a_pointer(relay: Relay) -> None:
    relay.new_thread("release")
    odd = relay.new_thread("api@v2")

    def place(text: str) -> ThreadReference:
        return run(relay.transport, find_place(text))

    assert place("release@v7:/facts/0") == ThreadReference("release", 7, "/facts/0")
    assert place("release") == ThreadReference("release")
    assert place("v3") == place("@v3") == ThreadReference("", 3)
    assert place(":/facts") == ThreadReference("", None, "/facts")
    assert place("api@v2") == ThreadReference(odd.id)
    with pytest.raises(Invalid, match="invalid version"):
        place("release@v0")


def test_the_server_of_a_url_is_another_one_only_where_its_address_is_not_ours() -> None:
    url = "https://relay.example.com/pull/x"

    assert other_server(url, None) == "https://relay.example.com"
    assert other_server(url, "https://RELAY.example.com:443/") is None
    assert other_server("relay:///pull/x", None) is None
    assert other_server("abcdef", "https://relay.example.com") is None


def test_a_name_that_two_threads_have_is_ambiguous_and_lists_them(relay: Relay) -> None:
    """Promise T1. Nothing is done to a thread that may be the wrong one."""
    first, second = relay.new_thread("orders"), relay.new_thread("orders")

    with pytest.raises(Invalid, match="2 threads are called 'orders'") as refused:
        run(relay.transport, find_thread("orders", DOOR))

    assert first.id[:8] in str(refused.value.hint)
    assert second.id[:8] in str(refused.value.hint)
    with pytest.raises(Invalid, match="2 threads are called 'orders'"):
        relay.thread("orders")
    assert run(relay.transport, find_thread(second.id[:8], DOOR)).thread_id == second.id
    first.remove()
    assert run(relay.transport, find_thread("orders", DOOR)).thread_id == second.id
