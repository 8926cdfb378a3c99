"""The Anthropic provider: Claude models, through the vendor's SDK (the extra `anthropic`).

Stable content is marked for the prompt cache: the tools and the system text, the last stable
message, and, from the second round on, the conversation so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from msgspec.json import encode

from contextrelay.errors import Unavailable
from contextrelay.runs.provider import Message, Prompt, Reply, Tokens
from contextrelay.runs.providers.answer import AnswerStream, Stop, native_of, parsed
from contextrelay.runs.providers.registry import NO_KEY_NEEDED, Account
from contextrelay.runs.providers.transport import (
    BOUNDS,
    Bounds,
    Meter,
    Refusal,
    answered,
    refused,
    unreached,
    unusable,
)

MODEL = "claude-sonnet-5-5"
KEY_VARIABLE = "ANTHROPIC_API_KEY"
URL_VARIABLE = "ANTHROPIC_BASE_URL"
HOST = "api.anthropic.com"

_CACHED = {"type": "ephemeral"}
_THOUGHT = ("thinking", "redacted_thinking")
# The fields of a block whose text arrives in pieces.
_PIECED = ("text", "thinking", "signature")
_STOPS: dict[str, Stop] = {
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}
# An error inside a stream has no HTTP status of its own, so its type is mapped to one.
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "api_error": 500,
    "overloaded_error": 529,
}


class Anthropic:
    """A Claude model."""

    name = "anthropic"

    def __init__(
        self,
        model: str,
        environ: Mapping[str, str],
        sleep: Callable[[float], None] = time.sleep,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self.model = model or MODEL
        url = environ.get(URL_VARIABLE) or f"https://{HOST}"
        self._account = Account(self.name, KEY_VARIABLE, url, HOST, environ, URL_VARIABLE)
        self._sleep = sleep
        self._bounds = bounds

    def answer(self, prompt: Prompt) -> Iterator[str | Reply]:
        """Send a prompt to Claude, and yield its answer."""
        from contextrelay.runs.providers.transport import bounded_client

        sdk, library = _sdk(), _library()
        options, meter = bounded_client(library, self._account, self._bounds)
        client = sdk.Anthropic(
            api_key=self._account.key(),
            base_url=self._account.url,
            max_retries=0,
            timeout=options["timeout"],
            http_client=library.Client(**options),
        )
        with client:
            yield from answered(
                lambda: self._asked(client, prompt, meter),
                lambda error: self._explain(prompt.model, error),
                self._sleep,
            )

    def _asked(self, client: Any, prompt: Prompt, meter: Meter) -> Generator[str | Reply]:
        answer = AnswerStream(prompt, self.name, meter.progress)
        usage: dict[str, int] = {}
        blocks: list[dict[str, Any]] = []
        stop: Stop | None = None
        with client.messages.create(**_request(prompt), stream=True) as events:
            for event in events:
                match event.type:
                    case "message_start":
                        answer.model = event.message.model
                        _count(usage, event.message.usage)
                    case "content_block_start":
                        block = _begun(answer, event.content_block.to_dict())
                        blocks.append(block)
                        if block["type"] == "tool_use":
                            answer.call(len(blocks), id=block["id"], name=block["name"])
                        yield answer.say("".join(block.get("text", ())))
                    case "content_block_delta":
                        yield _take(answer, len(blocks), blocks[-1], event.delta)
                    case "message_delta":
                        stop = _STOPS.get(event.delta.stop_reason or "", "end")
                        _count(usage, event.usage)
                    case _:
                        pass
                if answer.is_cut:
                    break
        yield answer.reply(stop, _tokens(usage), _native(prompt.model, blocks, answer))

    def _explain(self, model: str, error: Any) -> Refusal:
        sdk = _sdk()
        if isinstance(error, sdk.APIStatusError):
            status = error.status_code
            if status < 400:
                status = _STATUSES.get(str(error.type), 500)
            said = str(error.api_message or error)
            return refused(self._account, model, status, said, error.response.headers)
        if isinstance(error, sdk.APIConnectionError | _library().TransportError):
            return unreached(self._account, error.__cause__ or error)
        return unusable(self._account, error)


def _sdk() -> Any:
    try:
        import anthropic
    except ImportError as error:
        raise Unavailable(
            "the anthropic package is not installed",
            f"pip install 'contextrelay[anthropic]'; {NO_KEY_NEEDED}",
        ) from error
    return anthropic


def _library() -> Any:
    import httpx2

    return httpx2


def _request(prompt: Prompt) -> dict[str, Any]:
    messages = [_message(message, prompt.model) for message in prompt.messages]
    if prompt.stable_messages:
        _mark(messages[prompt.stable_messages - 1])
    if prompt.messages and prompt.messages[-1].results:
        _mark(messages[-1])
    asked: dict[str, Any] = {
        "model": prompt.model,
        "max_tokens": prompt.output_tokens_max,
        "messages": messages,
    }
    if prompt.system:
        asked["system"] = [{"type": "text", "text": prompt.system, "cache_control": _CACHED}]
    if prompt.tools:
        asked["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
            for tool in prompt.tools
        ]
        if not prompt.system:
            asked["tools"][-1]["cache_control"] = _CACHED
    return asked


def _message(message: Message, model: str) -> dict[str, Any]:
    """Return a message in the vendor's form. Empty text blocks are left out, because the vendor
    refuses them.
    """
    content: list[dict[str, Any]] = native_of(message, model) or [
        *(
            {
                "type": "tool_result",
                "tool_use_id": result.call_id,
                "content": result.text or "(empty)",
                "is_error": result.is_error,
            }
            for result in message.results
        ),
        *([{"type": "text", "text": message.text}] if message.text.strip() else []),
        *(
            {"type": "tool_use", "id": call.id, "name": call.name, "input": parsed(call)}
            for call in message.calls
        ),
    ]
    return {"role": message.role, "content": content or [{"type": "text", "text": "(empty)"}]}


def _mark(message: dict[str, Any]) -> None:
    """Mark the end of a message as the end of the prefix to cache."""
    *before, last = message["content"]
    if last["type"] not in _THOUGHT:
        message["content"] = [*before, {**last, "cache_control": _CACHED}]


def _begun(answer: AnswerStream, block: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a block in which each text is a list, to which further pieces can be
    appended.
    """
    answer.hold("" if block["type"] in ("text", "tool_use") else encode(block).decode())
    return {name: [value] if name in _PIECED else value for name, value in block.items()}


def _take(answer: AnswerStream, key: int, block: dict[str, Any], delta: Any) -> str:
    """Append a piece to the newest block, and return the text of the piece."""
    match delta.type:
        case "text_delta":
            block.setdefault("text", []).append(delta.text)
            return answer.say(delta.text)
        case "input_json_delta":
            answer.call(key, arguments=delta.partial_json)
        case "thinking_delta":
            answer.think(delta.thinking)
            block.setdefault("thinking", []).append(delta.thinking)
        case "signature_delta":
            answer.think(delta.signature)
            block.setdefault("signature", []).append(delta.signature)
        case _:
            pass
    return ""


def _native(
    model: str, blocks: list[dict[str, Any]], answer: AnswerStream
) -> Callable[[], dict[str, Any]] | None:
    """Return a function that returns the blocks as received, or None if they contain no reasoning.

    Reasoning must be sent back unchanged.
    """
    if not any(block["type"] in _THOUGHT for block in blocks):
        return None

    def native() -> dict[str, Any]:
        calls = iter(answer.calls)
        whole = [
            {name: "".join(value) if name in _PIECED else value for name, value in block.items()}
            for block in blocks
        ]
        for block in whole:
            if block["type"] == "tool_use":
                block["input"] = parsed(next(calls))
        kept = [block for block in whole if block["type"] != "text" or block["text"].strip()]
        return {"model": model, "content": kept}

    return native


def _count(usage: dict[str, int], counted: Any) -> None:
    """Update token counts. Counts are cumulative, so later ones replace earlier ones."""
    names = (
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    )
    for name in names:
        count = getattr(counted, name, None)
        if count is not None:
            usage[name] = count


def _tokens(usage: dict[str, int]) -> Tokens | None:
    """Return the total token counts. The vendor counts fresh, cached and cache-written input
    separately.
    """
    cache_read = usage.get("cache_read_input_tokens", 0)
    cache_write = usage.get("cache_creation_input_tokens", 0)
    return Tokens(
        input=usage.get("input_tokens", 0) + cache_read + cache_write,
        output=usage.get("output_tokens", 0),
        cache_read=cache_read,
        cache_write=cache_write,
    )
