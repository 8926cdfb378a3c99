"""The Responses API: OpenAI's own language, in which reasoning goes on between the rounds.

Nothing is kept at OpenAI: the conversation is sent each time, with the encrypted reasoning that
came with the model's earlier messages.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from msgspec.json import encode

from contextrelay.errors import Failed
from contextrelay.runs.provider import Message, Prompt, Reply, Tokens
from contextrelay.runs.providers.answer import Answer, Stop, native_of
from contextrelay.runs.providers.bounds import Meter
from contextrelay.runs.providers.openai.client import OpenAIProvider

_REASONING = "reasoning.encrypted_content"
_INCOMPLETE: dict[str, Stop] = {"max_output_tokens": "length", "content_filter": "refused"}


class OpenAIResponses(OpenAIProvider):
    """A model behind the Responses API."""

    _reasons = True
    """Whether the model gives its reasoning away, encrypted: some refuse to be asked for it."""

    def _asked(self, client: Any, prompt: Prompt, meter: Meter) -> Generator[str | Reply]:
        answer = Answer(prompt, self.name, meter.progress)
        items: list[dict[str, Any]] = []
        stop: Stop | None = None
        tokens: Tokens | None = None
        with self._begun(client, prompt) as events:
            for event in events:
                match event.type:
                    case "response.output_text.delta":
                        yield answer.say(event.delta)
                    case "response.refusal.delta":
                        stop = "refused"
                        yield answer.say(event.delta)
                    case "response.output_item.added" if event.item.type == "function_call":
                        item = event.item
                        answer.call(event.output_index, id=item.call_id, name=item.name)
                        yield ""
                    case "response.function_call_arguments.delta":
                        answer.call(event.output_index, arguments=event.delta)
                    case "response.output_item.done":
                        items.append(event.item.to_dict())
                        is_said = event.item.type in ("message", "function_call")
                        answer.hold("" if is_said else encode(items[-1]).decode())
                    case "response.completed" | "response.incomplete":
                        answer.model = event.response.model
                        tokens = _tokens(event.response.usage)
                        stop = stop or _stop(event.response)
                    case "response.failed" | "error":
                        raise self._failed(event)
                    case kind if kind.endswith(".delta"):
                        answer.think(str(event.delta))
                    case _:
                        pass
                if answer.is_cut:
                    break
        has_reasoned = any(item["type"] == "reasoning" for item in items)
        native = {"model": prompt.model, "content": items}
        yield answer.reply(stop, tokens, (lambda: native) if has_reasoned else None)

    def _begun(self, client: Any, prompt: Prompt) -> Any:
        """The events of one answer; a model that does not give its reasoning is asked without."""
        import openai

        asked = _request(prompt)
        if not self._reasons:
            return client.responses.create(**asked, stream=True)
        try:
            return client.responses.create(**asked, include=[_REASONING], stream=True)
        except openai.BadRequestError as error:
            if "ncrypted" not in error.message:
                raise
            self._reasons = False
            return client.responses.create(**asked, stream=True)

    def _failed(self, event: Any) -> Failed:
        error = event.response.error if event.type == "response.failed" else event
        said = self._account.said(str(error.message) if error else "no reason given")
        return Failed(f"{self.name} failed while it answered: {said}", "run it again")


def _request(prompt: Prompt) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": prompt.model,
        "input": [item for message in prompt.messages for item in _items(message, prompt.model)],
        "max_output_tokens": prompt.output_tokens_max,
        "store": False,
    }
    if prompt.system:
        asked["instructions"] = prompt.system
    if prompt.tools:
        asked["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
                "strict": False,
            }
            for tool in prompt.tools
        ]
    return asked


def _items(message: Message, model: str) -> list[dict[str, Any]]:
    """A message in the vendor's form, where each call and each result is an item of its own."""
    native = native_of(message, model)
    if native:
        return native
    items: list[dict[str, Any]] = [
        {"type": "function_call_output", "call_id": result.call_id, "output": result.text}
        for result in message.results
    ]
    if message.text or not (message.results or message.calls):
        items.append({"role": message.role, "content": message.text})
    items += [
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        for call in message.calls
    ]
    return items


def _stop(response: Any) -> Stop:
    details = response.incomplete_details
    return _INCOMPLETE.get(details.reason or "", "length") if details else "end"


def _tokens(usage: Any) -> Tokens | None:
    if usage is None:
        return None
    details = usage.input_tokens_details
    return Tokens(
        input=usage.input_tokens or 0,
        output=usage.output_tokens or 0,
        cache_read=getattr(details, "cached_tokens", 0) or 0,
        cache_write=getattr(details, "cache_write_tokens", 0) or 0,
    )
