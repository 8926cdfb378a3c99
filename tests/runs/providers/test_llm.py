"""The llm provider, with the package `llm` itself and a model of its own that aimock plays."""

from __future__ import annotations

import gc
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from contextrelay.errors import Failed, Forbidden, Invalid
from contextrelay.runs.provider import Message, ToolResult
from contextrelay.runs.providers.llm import Llm
from contextrelay.runs.run import ReplyPieces
from tests.aimock import Aimock, aimock
from tests.runs.providers.vendors import answer_of, asked

# llm leaves its connections open; they are collected with the test that made them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CALL = {"name": "look", "arguments": '{"ref": "ctx_1"}'}
SCRIPT: list[dict[str, Any]] = [
    {"match": {"userMessage": "say it"}, "response": {"content": "Said, in a few pieces."}},
    {"match": {"userMessage": "look", "hasToolResult": False}, "response": {"toolCalls": [CALL]}},
    {"match": {"userMessage": "look", "hasToolResult": True}, "response": {"content": "It is 42."}},
    {"match": {"userMessage": "fail"}, "response": {"error": {"message": "no"}, "status": 400}},
]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Aimock]:
    with aimock(tmp_path, SCRIPT) as running:
        extra = [
            {
                "model_id": "scripted",
                "model_name": "scripted-model",
                "api_base": f"{running.url}/v1",
                "supports_tools": True,
            }
        ]
        # A JSON document is a YAML document.
        (tmp_path / "extra-openai-models.yaml").write_text(json.dumps(extra))
        monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
        yield running
        gc.collect()


def test_a_model_of_llm_answers_and_calls_tools(model: Aimock) -> None:
    """Promise X2."""
    provider = Llm("scripted", {})
    pieces, said = answer_of(provider, asked(provider, "say it"))
    _, first = answer_of(provider, asked(provider, "look"))
    (call,) = first.calls
    found = Message(role="user", results=(ToolResult(call.id, "it is 42"),))

    _, second = answer_of(provider, asked(provider, "look", first.message(), found))

    assert said.text == "Said, in a few pieces."
    assert len(pieces) > 1
    assert (first.stop, call.name, json.loads(call.arguments)) == (
        "tools",
        "look",
        {"ref": "ctx_1"},
    )
    assert (second.text, second.stop) == ("It is 42.", "end")
    sent = model.bodies("look")[-1]
    assert sent["messages"][0] == {"role": "system", "content": "You are terse."}
    assert sent["messages"][-1]["content"] == "it is 42"
    assert sent["tools"][0]["function"]["name"] == "look"


def test_what_llm_cannot_do_is_an_error_with_the_next_step(
    model: Aimock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise X2."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    provider, typo, keyless = Llm("scripted", {}), Llm("scriptd", {}), Llm("gpt-4o", {})

    with pytest.raises(Failed, match="the provider llm failed"):
        ReplyPieces(provider, asked(provider, "fail")).next()
    with pytest.raises(Invalid, match="no model 'scriptd'") as unknown:
        list(typo.answer(asked(typo, "say it")))
    with pytest.raises(Forbidden) as forbidden:
        list(keyless.answer(asked(keyless, "say it")))

    assert "scripted" in unknown.value.hint
    assert "llm keys set" in forbidden.value.hint
