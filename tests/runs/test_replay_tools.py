"""Replays: recorded tool results compared with now, and a run asked again as it was asked."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import encode

from contextrelay import Relay
from contextrelay.client.thread import Thread
from contextrelay.model.run import Diverged
from contextrelay.runs.providers.echo import Echo, ScriptedCall, ScriptLine
from contextrelay.verbs import FinishRun, NoteRun, RecordCall
from tests.aimock import aimock
from tests.runs.providers.vendors import VENDORS, Vendor


@pytest.fixture
def thread() -> Thread:
    return Relay("memory:").new_thread("work")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two files that git tracks."""
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"this is {name}\n")
    for words in (("init", "-q"), ("add", ".")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def record(
    thread: Thread, tool: str, arguments: dict[str, Any], said: str, *refs: str, asked: str = ""
) -> None:
    """A finished run in which a tool was called, and answered so."""
    call = {"id": "c1", "name": asked or tool, "arguments": encode(arguments).decode()}
    reply: dict[str, Any] = {"text": "so it is", "calls": [call], "model": "m"}
    detail = {"round": 1, "tools": [{"id": "c1", "name": tool, "refs": list(refs)}]}
    thread.ask(NoteRun(thread=thread.id, run="r1", status="started", detail={"kind": "ask"}))
    exchange = {"prompt": {}, "reply": reply, "results": [{"call_id": "c1", "text": said}]}
    thread.ask(RecordCall(thread=thread.id, run="r1", detail=detail, by="m"), encode(exchange))
    thread.ask(FinishRun(thread=thread.id, run="r1", action="said"), b"so it is")


def step(thread: Thread, **how: Any) -> Diverged:
    found = thread.replay(is_dry=True, **how).diverged
    assert found is not None
    return found


def test_a_note_that_would_get_another_id_diverges(thread: Thread) -> None:
    """Promise X5."""
    noted = "noted: f7; kept with your answer"
    record(thread, "relay_state", {"facts": [{"text": "the port is taken"}]}, noted)

    assert (step(thread).tool, step(thread).round) == ("relay_state", 1)
    assert step(thread).reason == "the note would differ now"


def test_notes_of_several_rounds_among_those_of_others_hold(thread: Thread) -> None:
    """Promise X5: ids depend on what others noted meanwhile, and on the run's own draft."""

    def note(text: str) -> tuple[ScriptedCall, ...]:
        return (
            ScriptedCall("relay_state", {"facts": [{"text": text}], "questions": [f"why {text}?"]}),
        )

    script = [
        ScriptLine("One.", note("a")),
        ScriptLine("Two.", note("b")),
        ScriptLine("That is all."),
    ]
    thread.run("look", Echo(script=script), on_tool=lambda use: thread.add_fact("of others"))

    assert thread.replay().is_equal
    assert thread.replay().diverged is None


def test_a_document_that_is_not_what_was_put_diverges(thread: Thread) -> None:
    """Promise X5."""
    ref = thread.relay.push("# Another plan").ref
    record(thread, "relay_put", {"content": "# Plan"}, f"stored as {ref}", ref)

    assert (step(thread).tool, step(thread).ref) == ("relay_put", ref)
    assert step(thread).reason == "the stored content differs from the recorded content"


@pytest.mark.parametrize("tool", ["relay_put", "relay_read"])
def test_a_record_that_does_not_fit_together_diverges(thread: Thread, tool: str) -> None:
    """Promise X5: as one may be in a thread that was imported."""
    record(thread, tool, {"x": 1}, "done", asked="no_such_tool")

    assert step(thread).tool == tool
    assert "another tool was requested" in step(thread).reason


def test_files_are_compared_where_a_folder_is_given(thread: Thread, folder: Path) -> None:
    """Promise X5: without one, what a model has read is what it has read."""
    looks = (ScriptedCall("relay_files", {}), ScriptedCall("relay_read", {"path": "a.txt"}))
    thread.run(
        "look", Echo(script=[ScriptLine("Looking.", looks), ScriptLine("So.")]), files=folder
    )

    assert thread.replay(files=folder).diverged is None
    (folder / "a.txt").write_text("another\n")

    assert thread.replay().diverged is None
    assert step(thread, files=folder).tool == "relay_read"
    assert step(thread, files=folder).reason == "'a.txt' has changed"
    (folder / "c.txt").write_text("new\n")
    subprocess.run(["git", "add", "."], cwd=folder, check=True)
    assert step(thread, files=folder).tool == "relay_files"


@pytest.mark.parametrize("vendor", VENDORS, ids=[each.id for each in VENDORS])
def test_another_model_is_asked_as_the_first_was(
    vendor: Vendor, thread: Thread, folder: Path, tmp_path: Path
) -> None:
    """Promise X5: the same words, system text, refs, budget and bounds, by the journal."""
    ref = thread.relay.push("the port is 8080", name="ports.md").ref
    thread.put("a note of long ago", name="old.md")
    asked: dict[str, Any] = {"refs": [ref], "budget_tokens": 600, "output_tokens_max": 345}
    thread.run("which port?", Echo(), system="You are a harbour pilot.", **asked)
    call = {"name": "relay_read", "arguments": '{"path": "a.txt"}'}
    asks = {"userMessage": "which port?"}
    script: list[dict[str, Any]] = [
        {"match": {**asks, "hasToolResult": False}, "response": {"toolCalls": [call]}},
        {"match": {**asks, "hasToolResult": True}, "response": {"content": "Port 8080."}},
    ]

    with aimock(tmp_path, script) as model:
        provider = vendor.open(model.url, lambda _: pytest.fail("there is nothing to wait for"))
        done = thread.replay(model=provider, files=folder)
        first, second = (json.dumps(body) for body in model.bodies())

    (run,) = done.runs
    assert run.error == ""
    assert run.old_ref is not None
    assert run.new_ref is not None
    assert thread.relay.pull(run.new_ref) == b"Port 8080."
    assert "+Port 8080." in thread.relay.diff(run.old_ref, run.new_ref).text
    for words in ("harbour pilot", "the port is 8080", "which port?", "packed", "345"):
        assert words in first
    assert "this is a.txt" in second
    assert thread.show().version == 3
