"""The OpenAI providers: chat completions and the Responses API (the extra `openai`)."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from msgspec.json import encode

from contextrelay.errors import Failed, Invalid, Unavailable
from contextrelay.runs.provider import Message, Prompt, Reply, Tokens
from contextrelay.runs.providers.answer import AnswerStream, Stop, function_tools, native_of
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

MODEL = "gpt-6.1-sol"
KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
HOST = "api.openai.com"
# Self-hosted servers usually require no key, but the SDK requires one.
NO_KEY = "none"
# An error inside a stream has no HTTP status of its own, so its code is mapped to one.
_STATUSES = {"rate_limit_exceeded": 429, "invalid_api_key": 401, "model_not_found": 404}


def openai_account(environ: Mapping[str, str]) -> Account:
    """Return the account of OpenAI, or of the server at OPENAI_BASE_URL."""
    url = environ.get(URL_VARIABLE) or f"https://{HOST}/v1"
    return Account("openai", KEY_VARIABLE, url, HOST, environ, URL_VARIABLE)


class OpenAIProvider(ABC):
    """A model behind one of the two APIs of OpenAI."""

    name = "openai"

    def __init__(
        self,
        model: str,
        environ: Mapping[str, str],
        sleep: Callable[[float], None] = time.sleep,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self._account = openai_account(environ)
        if not model and not self._account.is_own:
            raise Invalid(
                f"missing model name for {self._account.host}",
                f"use -m openai:MODEL; {self._account.url}/models lists the models",
            )
        self.model = model or MODEL
        self._sleep = sleep
        self._bounds = bounds

    def answer(self, prompt: Prompt) -> Iterator[str | Reply]:
        """Send a prompt, and yield the answer."""
        from contextrelay.runs.providers.transport import bounded_client

        sdk, library = _sdk(), _library()
        account = self._account
        options, meter = bounded_client(library, account, self._bounds)
        client = sdk.OpenAI(
            api_key=account.key() if account.is_own else account.key_if_any() or NO_KEY,
            base_url=account.url,
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

    @abstractmethod
    def _asked(self, client: Any, prompt: Prompt, meter: Meter) -> Generator[str | Reply]: ...

    def _explain(self, model: str, error: Any) -> Refusal:
        sdk = _sdk()
        if isinstance(error, sdk.APIConnectionError | _library().TransportError):
            return unreached(self._account, error.__cause__ or error)
        if not isinstance(error, sdk.APIError):
            return unusable(self._account, error)
        code, said = str(error.code or error.type or ""), _message(error)
        if isinstance(error, sdk.APIStatusError):
            refusal = refused(self._account, model, error.status_code, said, error.response.headers)
        else:
            refusal = refused(self._account, model, _STATUSES.get(code, 500), said, {})
        if code == "insufficient_quota":  # This is a 429 error for which waiting does not help.
            return Refusal(refusal.error)
        return refusal


def _message(error: Any) -> str:
    """Return the server's message without the text that the SDK adds."""
    body: Any = error.body
    try:
        return str(body["message"])
    except (KeyError, TypeError):
        return str(error.message)


def _library() -> Any:
    import httpx2

    return httpx2


def _sdk() -> Any:
    try:
        import openai
    except ImportError as error:
        raise Unavailable(
            "the openai package is not installed",
            f"pip install 'contextrelay[openai]'; {NO_KEY_NEEDED}",
        ) from error
    return openai


_STOPS: dict[str, Stop] = {
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refused",
}

# The fields in which servers other than those of OpenAI send reasoning.
_REASONING_FIELDS = ("reasoning_content", "reasoning")


class OpenAIChat(OpenAIProvider):
    """A model behind the chat completions API."""

    def _asked(self, client: Any, prompt: Prompt, meter: Meter) -> Generator[str | Reply]:
        answer = AnswerStream(prompt, self.name, meter.progress)
        calls = _Calls(answer)
        tokens: Tokens | None = None
        stop: Stop | None = None
        with client.chat.completions.create(**self._request(prompt), stream=True) as chunks:
            for chunk in chunks:
                answer.model = chunk.model or answer.model
                tokens = _chat_tokens(chunk.usage) if chunk.usage else tokens
                for choice in chunk.choices[:1]:
                    delta = choice.delta
                    yield answer.say(delta.content or "")
                    yield answer.say(delta.refusal or "")
                    for name in _REASONING_FIELDS:
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
        # OpenAI has dropped the old name of this option, and other servers do not know the new one.
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
    """Groups the pieces of tool calls by their index, or by their id if a server sends no index."""

    def __init__(self, answer: AnswerStream) -> None:
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
    """Return a message as messages of the chat API. Each tool result becomes a separate message."""
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


def _chat_tokens(usage: Any) -> Tokens:
    details = usage.prompt_tokens_details
    return Tokens(
        input=usage.prompt_tokens or 0,
        output=usage.completion_tokens or 0,
        cache_read=(details.cached_tokens if details else 0) or 0,
        cache_write=(details.cache_write_tokens if details else 0) or 0,
    )


_ENCRYPTED_REASONING = "reasoning.encrypted_content"
_INCOMPLETE: dict[str, Stop] = {"max_output_tokens": "length", "content_filter": "refused"}


class OpenAIResponses(OpenAIProvider):
    """A model behind the Responses API."""

    _reasons = True
    """True if encrypted reasoning is requested from the model. Some models refuse this request."""

    def _asked(self, client: Any, prompt: Prompt, meter: Meter) -> Generator[str | Reply]:
        answer = AnswerStream(prompt, self.name, meter.progress)
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
                        tokens = _response_tokens(event.response.usage)
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
        """Start an answer and return its events. If the model refuses to return reasoning, retry
        without the request for it.
        """
        import openai

        asked = _request(prompt)
        if not self._reasons:
            return client.responses.create(**asked, stream=True)
        try:
            return client.responses.create(**asked, include=[_ENCRYPTED_REASONING], stream=True)
        except openai.BadRequestError as error:
            if "ncrypted" not in error.message:
                raise
            self._reasons = False
            return client.responses.create(**asked, stream=True)

    def _failed(self, event: Any) -> Failed:
        error = event.response.error if event.type == "response.failed" else event
        said = self._account.said(str(error.message) if error else "no reason given")
        return Failed(f"{self.name} failed during its answer: {said}", "run it again")


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
    """Return a message as items of the Responses API. Each call and each tool result becomes a
    separate item.
    """
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


def _response_tokens(usage: Any) -> Tokens | None:
    if usage is None:
        return None
    details = usage.input_tokens_details
    return Tokens(
        input=usage.input_tokens or 0,
        output=usage.output_tokens or 0,
        cache_read=getattr(details, "cached_tokens", 0) or 0,
        cache_write=getattr(details, "cache_write_tokens", 0) or 0,
    )


def open_openai(model: str, environ: Mapping[str, str]) -> OpenAIProvider:
    """Open the provider for the server at OPENAI_BASE_URL, or for OpenAI.

    Raises:
        Invalid: the URL is invalid, or no model is named for a host other than OpenAI.
    """
    kind = OpenAIResponses if openai_account(environ).is_own else OpenAIChat
    return kind(model, environ)
