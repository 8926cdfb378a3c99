"""What goes over the wire, byte for byte: cache marks, reasoning, windows, addresses."""

from __future__ import annotations

from typing import Any

import pytest

from contextrelay.runs.provider import Message, ToolCall, ToolResult
from contextrelay.runs.providers.ollama import OLLAMA_WINDOW_TOKENS_MIN, Ollama
from tests.runs.providers.raw_server import raw_server, stream
from tests.runs.providers.vendors import VENDORS, answer_of, asked, event

CLAUDE, _, RESPONSES, OLLAMA = VENDORS
CALL = ToolCall("call_1", "look", '{"ref": "ctx_1"}')
ROUND = (
    Message(role="assistant", text="Let me see.", calls=(CALL,)),
    Message(role="user", results=(ToolResult("call_1", "found"),)),
)


def never(_: float) -> None:
    pytest.fail("there is nothing to wait for")


def test_what_is_stable_is_marked_for_the_cache() -> None:
    """Promise X2."""
    with raw_server(stream(CLAUDE.kind, *CLAUDE.said("Yes."))) as server:
        provider = CLAUDE.open(server.url, never)
        answer_of(provider, asked(provider, "Artifacts.", "Question?"))
        answer_of(provider, asked(provider, "Artifacts.", "Question?", *ROUND))

    once, again = server.requests

    assert _cached(once) == ["You are terse.", "Artifacts."]
    assert _cached(again) == ["You are terse.", "Artifacts.", "found"]
    assert once["tools"] == again["tools"]
    assert once["messages"] == again["messages"][:2]


def _cached(body: Any) -> list[str]:
    """What each mark for the cache is on, in the order in which it is sent."""
    blocks = [*body["tools"], *body["system"]]
    for message in body["messages"]:
        blocks += message["content"]
    return [each.get("text") or each["content"] for each in blocks if "cache_control" in each]


def test_claudes_reasoning_goes_back_as_it_came() -> None:
    """Promise X2: it is signed, and may not be lost or changed on the way."""
    called = CLAUDE.called(['{"ref": "ctx_1"}'])
    begun = {"type": "thinking", "thinking": "", "signature": ""}
    deltas: list[dict[str, str]] = [
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "c2lnbmVk"},
    ]
    thought = [
        event("content_block_start", index=0, content_block=begun),
        *(event("content_block_delta", index=0, delta=delta) for delta in deltas),
    ]
    with raw_server(stream(CLAUDE.kind, called[0], *thought, *called[1:])) as server:
        provider = CLAUDE.open(server.url, never)
        pieces, first = answer_of(provider, asked(provider, "look"))
        answer_of(provider, asked(provider, "look", first.message(), *ROUND[1:]))
        other = CLAUDE.opens("claude-other", {**_environ(server.url)}, never)
        answer_of(other, asked(other, "look", first.message(), *ROUND[1:]))

    _, again, by_other = server.requests

    assert pieces == []
    assert again["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"ref": "ctx_1"}},
    ]
    # Another model could not read it.
    assert [each["type"] for each in by_other["messages"][1]["content"]] == ["tool_use"]


def _environ(url: str) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "k"}


def test_openais_reasoning_goes_back_as_it_came() -> None:
    """Promise X2: it is encrypted, and nothing is kept at OpenAI."""
    item: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}
    item["encrypted_content"] = "c2VjcmV0"
    done = event("response.output_item.done", output_index=0, item=item)
    called = RESPONSES.called(['{"ref": "ctx_1"}'])
    with raw_server(stream(RESPONSES.kind, called[0], done, *called[1:])) as server:
        provider = RESPONSES.open(server.url, never)
        _, first = answer_of(provider, asked(provider, "look"))
        answer_of(provider, asked(provider, "look", first.message(), *ROUND[1:]))

    once, again = server.requests

    assert once["store"] is False
    assert once["include"] == ["reasoning.encrypted_content"]
    assert [each.get("type") for each in again["input"]] == [
        None,
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    assert again["input"][1]["encrypted_content"] == "c2VjcmV0"


def test_ollama_is_asked_for_a_window_that_the_prompt_fits_into() -> None:
    """Promise X2: it would drop the beginning of a longer one, and say nothing."""
    with raw_server(stream(OLLAMA.kind, *OLLAMA.said("Yes."))) as server:
        provider = OLLAMA.open(server.url, never)
        answer_of(provider, asked(provider, "short"))
        answer_of(provider, asked(provider, "word " * 20_000))

    windows = [each["options"]["num_ctx"] for each in server.requests]
    assert windows == [OLLAMA_WINDOW_TOKENS_MIN, 4 * OLLAMA_WINDOW_TOKENS_MIN]


def test_ollama_is_found_as_its_own_tools_find_it() -> None:
    """Promise X2."""
    host = "{host}:{port}"
    with raw_server(stream(OLLAMA.kind, *OLLAMA.said("Yes."))) as server:
        address, _, port = server.url.removeprefix("http://").rpartition(":")
        provider = Ollama("m", {"OLLAMA_HOST": host.format(host=address, port=port)}, never)

        _, reply = answer_of(provider, asked(provider, "look"))

    assert reply.text == "Yes."
