"""The Ollama provider: models on this machine or another host (the extra `ollama`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from msgspec.json import encode

from contextrelay.errors import Invalid, RelayError, Unavailable
from contextrelay.limits import NAMES_COMPARED_MAX
from contextrelay.runs.provider import Message, Prompt, Reply, Tokens
from contextrelay.runs.providers.answer import (
    AnswerStream,
    Stop,
    function_tools,
    native_of,
    parsed,
    tokens_in,
)
from contextrelay.runs.providers.registry import Account
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

# The minimum context window in tokens, because Ollama's default may be smaller than a bundle.
OLLAMA_WINDOW_TOKENS_MIN = 8_192


MODEL = "qwen3"
KEY_VARIABLE = "OLLAMA_API_KEY"
URL_VARIABLE = "OLLAMA_HOST"
URL = "http://127.0.0.1:11434"
PORT = 11434
HOST = "ollama.com"
_NAMES_SHOWN = 5


class Ollama:
    """A model served by Ollama."""

    name = "ollama"

    def __init__(
        self,
        model: str,
        environ: Mapping[str, str],
        sleep: Callable[[float], None] = time.sleep,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self.model = model or MODEL
        url = _url(environ.get(URL_VARIABLE, ""))
        self._account = Account(self.name, KEY_VARIABLE, url, HOST, environ, URL_VARIABLE)
        self._sleep = sleep
        self._bounds = bounds
        self._headers: Mapping[str, str] = {}

    def answer(self, prompt: Prompt) -> Iterator[str | Reply]:
        """Send a prompt, and yield the answer."""
        from contextrelay.runs.providers.transport import bounded_client

        key = self._account.key_if_any()
        options, meter = bounded_client(_library(), self._account, self._bounds)
        client = _sdk().Client(
            self._account.url,
            headers={"authorization": f"Bearer {key}"} if key else None,
            **options,
            event_hooks={"response": [self._heard]},
        )
        with client:
            yield from answered(
                lambda: self._asked(client, prompt, meter),
                lambda error: self._explain(client, prompt.model, error),
                self._sleep,
            )

    def _heard(self, response: Any) -> None:
        """Store the headers of a response, because the errors of the SDK do not contain them."""
        self._headers = dict(response.headers)

    def _asked(self, client: Any, prompt: Prompt, meter: Meter) -> Generator[str | Reply]:
        answer = AnswerStream(prompt, self.name, meter.progress)
        thought: list[str] = []
        stop: Stop | None = None
        tokens: Tokens | None = None
        for chunk in client.chat(**_request(prompt), stream=True):
            answer.model = chunk.model or answer.model
            yield answer.say(chunk.message.content or "")
            if thinking := chunk.message.thinking:
                answer.think(thinking)
                thought.append(thinking)
            for call in chunk.message.tool_calls or ():
                arguments = encode(dict(call.function.arguments)).decode()
                answer.call(len(answer.calls), name=call.function.name, arguments=arguments)
            if chunk.done:
                stop = "length" if chunk.done_reason == "length" else "end"
                tokens = Tokens(input=chunk.prompt_eval_count or 0, output=chunk.eval_count or 0)
            if answer.is_cut:
                break
        native = {"model": prompt.model, "content": "".join(thought)}
        yield answer.reply(stop, tokens, (lambda: native) if native["content"] else None)

    def _explain(self, client: Any, model: str, error: Any) -> Refusal:
        account = self._account
        if isinstance(error, _library().TransportError):
            return unreached(account, error)
        if not isinstance(error, _sdk().ResponseError):
            return unusable(account, error)
        if error.status_code == 404:
            known = account.said(", ".join(_installed(client)))
            here = f"; installed: {known}" if known else ""
            return Refusal(
                Invalid(f"ollama has no model {model!r}", f"ollama pull {model}{here}", status=404)
            )
        status = error.status_code if error.status_code >= 400 else 500
        return refused(account, model, status, str(error.error), self._headers)


def _sdk() -> Any:
    try:
        import ollama
    except ImportError as error:
        raise Unavailable(
            "the ollama package is not installed", "pip install 'contextrelay[ollama]'"
        ) from error
    return ollama


def _library() -> Any:
    import httpx

    return httpx


def _url(host: str) -> str:
    """Return the URL for OLLAMA_HOST, which is a host, a port or a URL, as in Ollama. 0.0.0.0
    becomes the loopback address.
    """
    if not host:
        return URL
    if "://" not in host:
        host = f"http://127.0.0.1{host}" if host.startswith(":") else f"http://{host}"
        name = host.removeprefix("http://")
        host = host if ":" in name.rpartition("]")[2] else f"{host}:{PORT}"
    return host.replace("//0.0.0.0", "//127.0.0.1", 1)


def _request(prompt: Prompt) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    if prompt.system:
        messages.append({"role": "system", "content": prompt.system})
    names: dict[str, str] = {}
    for message in prompt.messages:
        names |= {call.id: call.name for call in message.calls}
        messages += _messages(message, prompt.model, names)
    asked: dict[str, Any] = {
        "model": prompt.model,
        "messages": messages,
        "options": {"num_predict": prompt.output_tokens_max, "num_ctx": _window_tokens(prompt)},
    }
    if prompt.tools:
        asked["tools"] = function_tools(prompt)
    return asked


def _window_tokens(prompt: Prompt) -> int:
    """Return the size of a context window, in tokens, that fits the prompt and the answer. Ollama
    drops the beginning of longer prompts.

    The size grows in steps, because a model is loaded again for each new size.
    """
    window = OLLAMA_WINDOW_TOKENS_MIN
    needed = tokens_in(prompt) * 5 // 4 + prompt.output_tokens_max
    while window < needed:
        window *= 2
    return window


def _messages(message: Message, model: str, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a message as Ollama messages. Each tool result becomes a separate message with the
    name of the tool.
    """
    said: list[dict[str, Any]] = [
        {"role": "tool", "tool_name": names.get(result.call_id, ""), "content": result.text}
        for result in message.results
    ]
    if message.text or message.calls or not said:
        plain: dict[str, Any] = {"role": message.role, "content": message.text}
        if message.calls:
            plain["tool_calls"] = [
                {"function": {"name": call.name, "arguments": parsed(call)}}
                for call in message.calls
            ]
        thought = native_of(message, model)
        said.append({**plain, "thinking": thought} if thought else plain)
    return said


def _installed(client: Any) -> list[str]:
    """Return the names of some installed models, or an empty list if they cannot be listed."""
    try:
        listed: list[Any] = client.list().models[:NAMES_COMPARED_MAX]
    except (_sdk().ResponseError, _library().HTTPError, RelayError, OSError, ValueError):
        return []
    return sorted(str(each.model) for each in listed if each.model)[:_NAMES_SHOWN]
