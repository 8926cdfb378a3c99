"""Runs: an answer is stored, and its thread patched, in one version; a refused one does neither."""

from __future__ import annotations

from typing import Any

import pytest

from contextrelay import Conflict, Refused, Relay
from contextrelay.client.thread import Thread
from contextrelay.wire.verbs import FinishRun, TryPatch

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
