"""Replays: the record checked and done again, or another model asked the same, in a copy."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import encode

from contextrelay import NotFound, Relay
from contextrelay.client.thread import Thread
from contextrelay.runs.providers.echo import Echo, ScriptedCall, ScriptLine
from contextrelay.verbs import NoteRun, RecordCall
from tests.server.serving import serving

OTHER = Echo("other")


@pytest.fixture(params=["local", "remote"])
def thread(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Thread]:
    """A thread of a store in this process, and one of a server."""
    if request.param == "local":
        yield Relay("memory:").new_thread("work")
        return
    with serving(tmp_path / "store") as served, Relay(served.url) as relay:
        yield relay.new_thread("work")


@pytest.fixture
def log(thread: Thread) -> str:
    return thread.put("".join(f"line {number}\n" for number in range(500)), name="build.log").ref


@pytest.fixture
def asked(thread: Thread, log: str) -> Thread:
    """A thread in which a model looked into a log, noted a fact and stored a plan; then more."""
    calls = (
        ScriptedCall("relay_get", {"ref": log, "lines": "3:5"}),
        ScriptedCall("relay_search", {"query": "line 7"}),
        ScriptedCall(
            "relay_state", {"facts": [{"text": "the port is taken"}], "questions": ["why?"]}
        ),
        ScriptedCall("relay_put", {"content": "# Plan", "name": "plan.md"}),
    )
    script = [ScriptLine("Let me look.", calls), ScriptLine("Port 8080 is taken.")]
    thread.run("why does it fail?", Echo(script=script))
    thread.add_fact("it is Friday")
    thread.run("and what now?", Echo(script=[ScriptLine("Take another port.")]))
    return thread


def but_for_id(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name != "thread_id"}


def test_a_replay_by_the_record_ends_in_the_same_state_and_calls_nothing(
    asked: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise X5: recorded answers, ids, refs and times; equal but for `thread_id`."""

    def answer(*args: object) -> Any:
        raise AssertionError("a model is called")

    monkeypatch.setattr(Echo, "answer", answer)
    before = asked.state()

    done = asked.replay()

    assert done.fork is not None
    copy = asked.relay.thread(done.fork)
    assert but_for_id(copy.state()) == but_for_id(before)
    assert copy.state()["thread_id"] == copy.id
    assert (done.is_equal, done.diverged, done.is_called) == (True, None, False)
    assert [run.new_ref for run in done.runs] == [run.ref for run in asked.trace().runs]
    assert asked.state() == before


def test_a_replay_begins_after_any_version(asked: Thread) -> None:
    """Promise X5: only what came after it is looked at."""
    first, second = asked.trace().runs
    assert first.ref is not None
    asked.relay.remove(first.ref)

    assert second.version is not None
    later = asked.replay(second.version)
    done = asked.replay()

    assert [run.run for run in later.runs] == [second.run]
    assert later.diverged is None
    assert done.diverged is not None


def test_a_replay_says_at_which_step_a_ref_is_gone(asked: Thread, log: str) -> None:
    """Promise X5: and goes no further than before that run."""
    run = asked.trace().runs[0]
    asked.relay.remove(log)

    done = asked.replay()

    assert done.diverged is not None
    step = done.diverged
    assert (step.run, step.round, step.tool, step.ref) == (run.run, 1, "relay_get", log)
    assert "was removed" in step.reason
    assert (done.version, done.runs) == (2, [])
    assert done.fork is not None
    assert asked.relay.thread(done.fork).show().version == 2


def test_a_replay_says_at_which_step_a_tool_shows_something_else(thread: Thread, log: str) -> None:
    """Promise X5."""
    call = {"id": "c1", "name": "relay_get", "arguments": encode({"ref": log}).decode()}
    reply = {"text": "so it is", "calls": [call], "model": "m"}
    result = {"call_id": "c1", "text": "what it has never shown"}
    tool = {"id": "c1", "name": "relay_get", "refs": [log]}
    thread.ask(NoteRun(thread=thread.id, run="r1", status="started", detail={"kind": "ask"}))
    record = RecordCall(thread=thread.id, run="r1", detail={"round": 1, "tools": [tool]}, by="m")
    thread.ask(record, encode({"prompt": {}, "reply": reply, "results": [result]}))

    step = thread.replay().diverged

    assert step is not None
    assert (step.run, step.round, step.tool) == ("r1", 1, "relay_get")
    assert step.reason == "the result has changed"


def test_a_dry_run_writes_nothing(asked: Thread) -> None:
    """Promise X5."""
    events, threads = asked.show().events, len(asked.relay.threads().threads)

    recorded = asked.replay(is_dry=True)
    planned = asked.replay(model=OTHER, is_dry=True)

    assert (recorded.fork, len(recorded.runs), recorded.is_called) == (None, 2, False)
    assert (planned.fork, len(planned.runs), planned.is_called) == (None, 2, True)
    assert asked.show().events == events
    assert len(asked.relay.threads().threads) == threads


def test_another_model_is_asked_the_same_in_a_copy(asked: Thread) -> None:
    """Promise X5: what people noted in between stays, and the branches can be compared."""
    before = asked.state()

    done = asked.replay(2, OTHER)

    assert done.fork is not None
    copy = asked.relay.thread(done.fork)
    assert [fact["value"] for fact in copy.state()["facts"]] == ["it is Friday"]
    assert [run.model for run in done.runs] == ["echo:other"] * 2
    old, new = done.runs[0].old_ref, done.runs[0].new_ref
    assert old is not None
    assert new is not None
    assert asked.relay.pull(new) == b"why does it fail?"
    assert "-Port 8080 is taken." in asked.relay.diff(old, new).text
    assert not done.is_equal
    assert {"op": "remove", "path": "/facts/0"} in done.changes
    assert asked.state() == before


def test_what_has_no_place_in_the_new_branch_is_left_out_and_said(thread: Thread) -> None:
    """Promise X5: a patch never hits something else than it did."""
    note = ScriptedCall("relay_state", {"questions": ["which port?"]})
    thread.run(
        "look", Echo(script=[ScriptLine("One question.", (note,)), ScriptLine("That is all.")])
    )
    thread.resolve(thread.state()["open_questions"][0]["id"])

    done = thread.replay(model=OTHER)

    assert len(done.skipped) == 1
    assert done.skipped[0].startswith("v3: ")
    assert done.fork is not None
    assert thread.relay.thread(done.fork).state()["open_questions"] == []


def test_a_model_that_fails_is_said_and_the_rest_is_asked(asked: Thread) -> None:
    """Promise X5."""
    done = asked.replay(model=Echo("broken", [ScriptLine(error="unavailable")]))

    assert ["unavailable" in run.error for run in done.runs] == [True, True]
    assert [run.new_ref for run in done.runs] == [None, None]


def test_a_version_that_is_not_there_is_refused(thread: Thread) -> None:
    """Promise X5."""
    with pytest.raises(NotFound, match="no version 9; the newest is 1"):
        thread.replay(9)
