"""Records of runs that somebody else wrote: traced, put on a page, replayed; and calls of tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contextrelay import Relay
from contextrelay.report.trace_page import TRACE_EXCHANGE_TEXTS_MAX, read_exchange
from contextrelay.runs.provider import ToolCall
from contextrelay.runs.providers.answer import parsed
from contextrelay.runs.providers.echo import Echo, ScriptedCall, ScriptLine
from contextrelay.verbs import NoteRun, RecordCall
from tests.cli.shell import Shell

DEEP = "[" * 20_000 + "]" * 20_000
EXCHANGES = {
    "deep": DEEP.encode(),
    "deep in what is not looked at": b'{"reply":{"text":"a"},"other":' + DEEP.encode() + b"}",
    "no UTF-8": b'{"prompt":{"system":"\xff"}}',
    "half a character": rb'{"prompt":{"system":"\ud800"}}',
    "a large number": b'{"prompt":{"system":' + b"9" * 5_000 + b"}}",
}


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_record_that_cannot_be_read_ends_no_page_and_no_replay(tmp_path: Path, name: str) -> None:
    """Promise X5: an exchange that cannot be read says so and stops nothing."""
    shell = Shell(tmp_path)
    page = shell.home / "trace.html"
    with Relay(shell.home / "store") as relay:
        thread = relay.new_thread("work")
        about: dict[str, Any] = {"thread": thread.id, "run": "r1"}
        detail = {"kind": "ask\nr9  finished"}
        thread.ask(NoteRun(status="started", detail=detail, **about))
        thread.ask(RecordCall(detail={"round": 1}, **about), EXCHANGES[name])
        thread.ask(NoteRun(status="finished", **about))

    shell.out("trace", "work", "--html", str(page))
    shown = shell.out("trace", "work", human=True)
    replayed = shell.run("replay", "work", "--json")

    assert page.read_text().endswith("</html>\n")
    assert "cannot be read" in page.read_text()
    assert "\nr9" not in shown
    assert "cannot read" in replayed.stdout.decode()
    assert "Traceback" not in replayed.stderr.decode()


def test_arguments_nested_too_deep_are_an_error_for_the_model() -> None:
    """Promise X2: an error is an answer, and ends nothing."""
    thread = Relay("memory:").new_thread("deep")
    calls = (ScriptedCall("relay_get", DEEP), ScriptedCall("relay_get", f'{{"ref":{DEEP}}}'))

    result = thread.run("look", Echo(script=[ScriptLine("", calls), ScriptLine("done")]))

    called = next(each.event for each in thread.events() if each.event.type == "run.called")
    assert [tool["is_error"] for tool in called.detail["tools"]] == [True, True]
    assert result.text == "done"
    assert parsed(ToolCall("1", "relay_get", f'{{"ref":{DEEP}}}'))["arguments"]


def test_an_exchange_of_very_many_texts_makes_no_huge_page() -> None:
    """Promise X5: what is left out is counted."""
    with Relay("memory:") as relay:
        messages = b",".join([b'{"text":1}'] * 40_000)
        ref = relay.push(b'{"prompt":{"messages":[' + messages + b"]}}", name="e.json").ref

        said = read_exchange(relay, ref)

    assert len(said) == TRACE_EXCHANGE_TEXTS_MAX + 1
    assert said[0].text.startswith("39,000 earlier texts are not shown")
