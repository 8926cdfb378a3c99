"""Chat completions: the language of OpenAI that all compatible servers share."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from contextrelay.runs.provider import Message, Prompt, Reply, Tokens
from contextrelay.runs.providers.answer import Answer, Stop, function_tools
from contextrelay.runs.providers.bounds import Meter
from contextrelay.runs.providers.openai.client import OpenAIProvider

_STOPS: dict[str, Stop] = {
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refused",
}

# Where other servers than OpenAI put the reasoning of a model.
_REASONING = ("reasoning_content", "reasoning")


class OpenAIChat(OpenAIProvider):
    """A model behind chat completions."""

    def _asked(self, client: Any, prompt: Prompt, meter: Meter) -> Generator[str | Reply]:
        answer = Answer(prompt, self.name, meter.progress)
        calls = _Calls(answer)
        tokens: Tokens | None = None
        stop: Stop | None = None
        with client.chat.completions.create(**self._request(prompt), stream=True) as chunks:
            for chunk in chunks:
                answer.model = chunk.model or answer.model
                tokens = _tokens(chunk.usage) if chunk.usage else tokens
                for choice in chunk.choices[:1]:
                    delta = choice.delta
                    yield answer.say(delta.content or "")
                    yield answer.say(delta.refusal or "")
                    for name in _REASONING:
                        answer.think(getattr(delta, name, None) or "")
                    for piece in delta.tool_calls or ():
                        calls.take(piece)
                    if choice.finish_reason:
                        stop = _STOPS.get(choice.finish_reason, "end")
                    if delta.refusal:
                        stop = "refused"
                if answer.is_cut:
                    break
        yield answer.reply(stop, tokens)

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        messages: list[dict[str, Any]] = []
        if prompt.system:
            messages.append({"role": "system", "content": prompt.system})
        for message in prompt.messages:
            messages += _messages(message)
        # OpenAI itself has given the old name up, and other servers do not know the new one.
        bound = "max_completion_tokens" if self._account.is_own else "max_tokens"
        asked: dict[str, Any] = {
            "model": prompt.model,
            "messages": messages,
            "stream_options": {"include_usage": True},
            bound: prompt.output_tokens_max,
        }
        if prompt.tools:
            asked["tools"] = function_tools(prompt)
        return asked


class _Calls:
    """Separates pieces of tool calls: by index, and where a server counts none, by id."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._ids: dict[int, str] = {}
        self._keys: dict[int, int] = {}
        self._count = 0

    def take(self, piece: Any) -> None:
        index = piece.index or 0
        is_new = index not in self._keys or (piece.id and piece.id != self._ids[index])
        if is_new:
            self._count += 1
            self._keys[index] = self._count
            self._ids[index] = piece.id or ""
        function = piece.function
        self._answer.call(
            self._keys[index],
            id=piece.id or "",
            name=(function.name if function else "") or "",
            arguments=(function.arguments if function else "") or "",
        )


def _messages(message: Message) -> list[dict[str, Any]]:
    """A message in the vendor's form, where each result is a message of its own."""
    said: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
        for result in message.results
    ]
    if message.calls:
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
        said.append({"role": "assistant", "content": message.text or None, "tool_calls": calls})
    elif message.text or not said:
        said.append({"role": message.role, "content": message.text})
    return said


def _tokens(usage: Any) -> Tokens:
    details = usage.prompt_tokens_details
    return Tokens(
        input=usage.prompt_tokens or 0,
        output=usage.completion_tokens or 0,
        cache_read=(details.cached_tokens if details else 0) or 0,
        cache_write=(details.cache_write_tokens if details else 0) or 0,
    )
