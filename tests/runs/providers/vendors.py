"""The vendors under test: how each is opened, and how it spells what it says on the wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

# The package of Ollama imports it. A stream of OpenAI that is collected meanwhile looks into it.
import httpx  # noqa: F401  # pyright: ignore[reportUnusedImport]

from contextrelay.runs.provider import Message, Prompt, Provider, Reply, Tool
from contextrelay.runs.providers.anthropic import Anthropic
from contextrelay.runs.providers.ollama import Ollama
from contextrelay.runs.providers.openai import OpenAIChat, OpenAIResponses
from contextrelay.runs.providers.transport import BOUNDS, Bounds

KEY = "sk-test-4242424242424242"
TOOL = Tool(
    "look", "Looks into a ref.", {"type": "object", "properties": {"ref": {"type": "string"}}}
)
SSE = "text/event-stream"


class Vendor(NamedTuple):
    """One vendor: `said` and `called` are the events of an answer, the last ones end it."""

    id: str
    opens: Callable[..., Provider]
    kind: str
    said: Callable[[str], list[bytes]]
    called: Callable[[list[str]], list[bytes]]
    """Of a tool call whose arguments come in these pieces."""

    def open(
        self, url: str, sleep: Callable[[float], None], bounds: Bounds = BOUNDS, **environ: str
    ) -> Provider:
        names = {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": KEY,
            "OLLAMA_HOST": url,
            "OLLAMA_API_KEY": KEY,
            "RELAY_HOME": "/nowhere",
        }
        return self.opens(f"{self.id}-model", {**names, **environ}, sleep, bounds)


def event(name: str, **fields: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()


def _anthropic(blocks: list[bytes], stop: str, usage: dict[str, int] | None = None) -> list[bytes]:
    counted = usage or {"input_tokens": 7, "output_tokens": 1}
    start: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "stop_reason": None,
        "usage": counted,
    }
    return [
        event("message_start", message=start),
        *blocks,
        event("message_delta", delta={"stop_reason": stop}, usage={"output_tokens": 9}),
        event("message_stop"),
    ]


def anthropic_said(text: str, usage: dict[str, int] | None = None) -> list[bytes]:
    begin = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    delta = event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
    return _anthropic([begin, delta, event("content_block_stop", index=0)], "end_turn", usage)


def anthropic_called(pieces: list[str]) -> list[bytes]:
    block: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    deltas = [
        event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": p})
        for p in pieces
    ]
    begin = event("content_block_start", index=0, content_block=block)
    return _anthropic([begin, *deltas, event("content_block_stop", index=0)], "tool_use")


def _chunk(delta: dict[str, Any], finish: str | None = None, **fields: Any) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", **fields}
    return f"data: {json.dumps({'choices': choices, **chunk})}\n\n".encode()


_DONE = b"data: [DONE]\n\n"


def chat_said(text: str) -> list[bytes]:
    return [_chunk({"role": "assistant"}), _chunk({"content": text}), _chunk({}, "stop"), _DONE]


def chat_called(pieces: list[str]) -> list[bytes]:
    def call(**fields: Any) -> dict[str, Any]:
        return {"tool_calls": [{"index": 0, **fields}]}

    begin = call(id="call_1", type="function", function={"name": "look", "arguments": ""})
    deltas = [_chunk(call(function={"arguments": piece})) for piece in pieces]
    return [_chunk(begin), *deltas, _chunk({}, "tool_calls"), _DONE]


def _response(status: str) -> dict[str, Any]:
    usage = {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 16,
    }
    return {
        "id": "r",
        "object": "response",
        "model": "m",
        "status": status,
        "output": [],
        "usage": usage,
    }


def responses_said(text: str) -> list[bytes]:
    item: dict[str, Any] = {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": [],
    }
    return [
        event("response.created", response=_response("in_progress")),
        event("response.output_item.added", output_index=0, item=item),
        event(
            "response.output_text.delta", output_index=0, content_index=0, item_id="m1", delta=text
        ),
        event("response.output_item.done", output_index=0, item=item),
        event("response.completed", response=_response("completed")),
    ]


def responses_called(pieces: list[str]) -> list[bytes]:
    item = {
        "type": "function_call",
        "id": "f1",
        "call_id": "call_1",
        "name": "look",
        "arguments": "",
    }
    deltas = [
        event("response.function_call_arguments.delta", output_index=0, item_id="f1", delta=piece)
        for piece in pieces
    ]
    whole = {**item, "arguments": "".join(pieces)}
    return [
        event("response.created", response=_response("in_progress")),
        event("response.output_item.added", output_index=0, item=item),
        *deltas,
        event("response.output_item.done", output_index=0, item=whole),
        event("response.completed", response=_response("completed")),
    ]


def _line(message: dict[str, Any], **fields: Any) -> bytes:
    part = {"model": "m", "message": {"role": "assistant", **message}, "done": False, **fields}
    return json.dumps(part).encode() + b"\n"


_END = {"done": True, "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 9}


def ollama_said(text: str) -> list[bytes]:
    return [_line({"content": text}), _line({"content": ""}, **_END)]


def ollama_called(pieces: list[str]) -> list[bytes]:
    """Ollama sends a call whole, as an object: in the middle of one is between it and the end."""
    function = {"name": "look", "arguments": json.loads("".join(pieces))}
    calls = _line({"content": "", "tool_calls": [{"function": function}]})
    return [calls, _line({"content": ""}), _line({"content": ""}, **_END)]


VENDORS = [
    Vendor("anthropic", Anthropic, SSE, anthropic_said, anthropic_called),
    Vendor("chat", OpenAIChat, SSE, chat_said, chat_called),
    Vendor("responses", OpenAIResponses, SSE, responses_said, responses_called),
    Vendor("ollama", Ollama, "application/x-ndjson", ollama_said, ollama_called),
]


def asked(provider: Provider, *messages: Message | str, tokens_max: int = 1_000) -> Prompt:
    """A prompt with a system text and a tool, of which the first message is stable."""
    said = tuple(Message(role="user", text=m) if isinstance(m, str) else m for m in messages)
    return Prompt(
        model=provider.model,
        system="You are terse.",
        messages=said,
        tools=(TOOL,),
        stable_messages=1,
        output_tokens_max=tokens_max,
    )


def answer_of(provider: Provider, prompt: Prompt) -> tuple[list[str], Reply]:
    """The pieces of an answer, and the whole."""
    *pieces, reply = provider.answer(prompt)
    assert isinstance(reply, Reply)
    texts = [piece for piece in pieces if isinstance(piece, str)]
    assert "".join(texts) == reply.text
    return texts, reply
