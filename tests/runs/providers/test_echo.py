"""The echo provider, and how a provider is found by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextrelay.errors import Invalid
from contextrelay.runs.provider import Message, Prompt, Reply, ToolResult
from contextrelay.runs.providers.echo import Echo
from contextrelay.runs.providers.registry import open_provider

ASKED = Prompt(
    model="",
    system="Be brief.",
    messages=(Message(role="user", text='## Thread\n\n{}\n\n## Request\n\nsay\n"hello"'),),
    output_tokens_max=100,
)


def test_echo_answers_with_the_request_the_same_way_every_time() -> None:
    """Promise X2: a provider that needs no network and no key."""
    first = list(Echo().answer(ASKED))
    again = list(open_provider("echo", environ={}).answer(ASKED))

    assert first == again
    assert "".join(piece for piece in first if isinstance(piece, str)) == 'say\n"hello"'
    assert isinstance(first[-1], Reply)
    assert (first[-1].text, first[-1].stop) == ('say\n"hello"', "end")
    assert first[-1].tokens.input > 0


def test_echo_plays_a_script_round_by_round(tmp_path: Path) -> None:
    """Promise X2: tool loops can be tried offline."""
    script = tmp_path / "script.json"
    script.write_text(
        '[{"text": "let me look", "calls": [{"name": "relay_get", "arguments": {"ref": "r"}},'
        ' {"name": "relay_get", "arguments": "{no json"}]}, {"text": "found it"}]'
    )
    provider = open_provider("echo:tiny", environ={"RELAY_ECHO_SCRIPT": str(script)})

    *_, first = provider.answer(ASKED)
    assert isinstance(first, Reply)
    results = tuple(ToolResult(call.id, "nothing") for call in first.calls)
    answered = Message(role="user", results=results)
    said = Message(role="assistant", text=first.text, calls=first.calls)
    *_, second = provider.answer(
        Prompt(
            model="tiny",
            system="",
            messages=(*ASKED.messages, said, answered),
            output_tokens_max=9,
        )
    )

    assert [call.arguments for call in first.calls] == ['{"ref":"r"}', "{no json"]
    assert first.stop == "tools"
    assert isinstance(second, Reply)
    assert (second.text, second.model) == ("found it", "tiny")


def test_a_script_that_is_none_is_refused_with_a_next_step(tmp_path: Path) -> None:
    """Promise X2."""
    script = tmp_path / "script.json"
    for text in ("{}", "[1]", '[{"said": 1}]', "no json"):
        script.write_text(text)
        with pytest.raises(Invalid, match="invalid echo script"):
            open_provider("echo", environ={"RELAY_ECHO_SCRIPT": str(script)})
    with pytest.raises(Invalid, match="invalid echo script"):
        open_provider("echo", environ={"RELAY_ECHO_SCRIPT": str(tmp_path / "none.json")})
