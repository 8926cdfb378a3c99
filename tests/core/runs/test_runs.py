"""Runs: an answer is stored, and its thread patched, in one version; a refused one does neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from contextrelay import Conflict, Gone, Refused, Relay
from contextrelay.client.thread import Thread
from contextrelay.model.artifact import Artifact
from contextrelay.verbs import FinishRun, RecordCall, TryPatch

FACT = {"op": "add", "path": "/facts/-", "value": {"id": "f1", "key": "port", "value": 8080}}
WRONG = {"op": "add", "path": "/facts/-", "value": {"id": "f1"}}


@pytest.fixture
def thread() -> Thread:
    return Relay("memory:").new_thread("run")


def finish(thread: Thread, *operations: Any, status: str = "finished") -> FinishRun:
    return FinishRun(
        thread=thread.id,
        run="r1",
        action="asked echo",
        operations=list(operations),
        status=status,  # pyright: ignore[reportArgumentType]
        detail={"tokens_in": 12},
        by="echo",
    )


def test_an_answer_its_action_and_its_patch_are_one_version(thread: Thread) -> None:
    """Promise X1: the answer becomes an artifact and a state patch."""
    artifact = thread.ask(finish(thread, FACT), b"The port is 8080.")

    state = thread.state()
    assert state["version"] == 2
    assert [fact["value"] for fact in state["facts"]] == [8080]
    assert [each["ref"] for each in state["artifacts"]] == [artifact.ref]
    assert state["last_actions"][0]["result_ref"] == artifact.ref
    assert thread.relay.pull(artifact.ref) == b"The port is 8080."
    event = next(each.event for each in thread.events() if each.event.type == "run.finished")
    assert event.detail == {"tokens_in": 12, "run": "r1", "ref": artifact.ref}


def test_a_patch_that_is_refused_leaves_no_answer(thread: Thread) -> None:
    """Promise X1: all of it, or nothing."""
    with pytest.raises(Refused):
        thread.ask(finish(thread, WRONG), b"never kept")

    assert thread.state()["version"] == 1
    assert thread.relay.list().artifacts == []


def test_an_interrupted_run_is_marked_so(thread: Thread) -> None:
    """Promise X1."""
    thread.ask(finish(thread, status="interrupted"), b"The por")

    assert "run.interrupted" in [each.event.type for each in thread.events()]


def test_a_run_that_is_finished_twice_under_a_key_is_one(thread: Thread) -> None:
    """Promise X1: a lost reply is asked for again."""
    first = thread.once("k").ask(finish(thread, FACT), b"once")
    again = thread.once("k").ask(finish(thread, FACT), b"once")

    assert again.ref == first.ref
    assert thread.state()["version"] == 2


def test_trying_a_patch_says_what_it_would_do_and_changes_nothing(thread: Thread) -> None:
    """Promise T4."""
    tried = thread.ask(TryPatch(thread.id, [FACT]))

    assert tried.version == 2
    assert tried.operations[0]["path"] == "/facts/-"
    assert thread.state()["facts"] == []
    with pytest.raises(Refused):
        thread.ask(TryPatch(thread.id, [WRONG]))
    with pytest.raises(Conflict):
        thread.ask(TryPatch(thread.id, [{"op": "test", "path": "/version", "value": 9}]))
    assert thread.state()["version"] == 1


def test_a_closed_thread_tries_and_finishes_nothing(thread: Thread) -> None:
    """Promise T1."""
    thread.close()

    for verb in (TryPatch(thread.id, [FACT]), finish(thread, FACT)):
        with pytest.raises(Refused, match="closed"):
            thread.ask(verb, b"")


def test_an_answer_is_refused_where_the_state_moved_on_and_that_is_asked(thread: Thread) -> None:
    """Promise X1: what a run changes is found for the version that it is committed to."""
    thread.add_fact("somebody was faster")

    with pytest.raises(Conflict):
        thread.ask(replace(finish(thread, FACT), expected=1), b"too late")

    assert thread.state()["version"] == 2
    assert thread.relay.list().artifacts == []


def test_what_an_answer_was_made_from_stays_with_the_thread(thread: Thread) -> None:
    """Promise X1: source refs are what was shown or read."""
    source = thread.relay.push("a file that would expire", ttl_s=UNSET)
    answer = thread.ask(replace(finish(thread), source_refs=(source.ref,)), b"It says so.")

    assert thread.relay.peek(source.ref).expires_at is None
    assert answer.provenance.source_refs == (source.ref,)
    assert [each["ref"] for each in thread.state()["artifacts"]] == [answer.ref]


def record(thread: Thread) -> Artifact:
    verb = RecordCall(thread=thread.id, run="r1", detail={"round": 1}, by="echo")
    return thread.ask(verb, b'{"prompt": {"system": "needle"}, "reply": {}, "results": []}')


def test_an_exchange_is_held_by_its_thread_and_listed_nowhere(thread: Thread) -> None:
    """Promises X1, T8: every call is an event that names what was sent and answered."""
    exchange = record(thread)

    event = next(each.event for each in thread.events() if each.event.type == "run.called")
    assert event.detail == {"round": 1, "run": "r1", "exchange": exchange.ref}
    assert b"needle" in thread.relay.pull(exchange.ref)
    assert exchange.expires_at is None
    assert thread.state()["version"] == 1
    assert thread.state()["artifacts"] == []
    assert thread.artifacts() == []
    assert thread.show().artifacts == 0
    assert thread.relay.list().artifacts == []
    assert thread.relay.search("needle").hits == []
    assert thread.relay.grep("needle").count == 0
    assert thread.relay.grep("needle", thread=thread.id).count == 0
    assert thread.relay.verify().problems == []


def test_an_exchange_goes_with_its_thread(thread: Thread) -> None:
    """Promise X1."""
    exchange = record(thread)

    thread.remove()

    with pytest.raises(Gone):
        thread.relay.pull(exchange.ref)


def test_an_exchange_travels_with_its_thread(thread: Thread, tmp_path: Path) -> None:
    """Promises X1, T9: events of an imported thread name exchanges that are there."""
    exchange = record(thread)
    thread.export(tmp_path / "thread.zip")

    imported = Relay("memory:").import_thread(tmp_path / "thread.zip")

    event = next(each.event for each in imported.events() if each.event.type == "run.called")
    assert imported.relay.pull(event.detail["exchange"]) == thread.relay.pull(exchange.ref)
    assert event.detail["exchange"] != exchange.ref
    assert imported.artifacts() == []
    assert imported.relay.verify().problems == []
