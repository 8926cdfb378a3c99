"""Runs: an answer is stored, and its thread patched, in one version; a refused one does neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from contextrelay import Conflict, Refused, Relay
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


def test_an_answer_is_refused_where_the_state_moved_on_and_that_is_asked(thread: Thread) -> None:
    """Promise X1: what a run changes is found for the version that it is committed to."""
    thread.add_fact("somebody was faster")

    with pytest.raises(Conflict):
        thread.ask(replace(finish(thread, FACT), expected=1), b"too late")

    assert thread.state()["version"] == 2
    assert thread.relay.list().artifacts == []


def record(thread: Thread) -> Artifact:
    verb = RecordCall(thread=thread.id, run="r1", detail={"round": 1}, by="echo")
    return thread.ask(verb, b'{"prompt": {"system": "needle"}, "reply": {}, "results": []}')


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
