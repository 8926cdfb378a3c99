"""The llm provider, `llm:NAME`: any model of the package `llm`, if that package is installed.

Keys, plugins, aliases and retries are those of `llm` (`llm keys`, `llm models`, `llm install`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec.json import encode

from contextrelay.errors import Failed, Forbidden, Invalid, Unavailable
from contextrelay.limits import PROVIDER_ERROR_CHARS_MAX
from contextrelay.runs.provider import Message, Prompt, Reply, Tokens
from contextrelay.runs.providers.answer import AnswerStream, parsed


class Llm:
    """A model of the package `llm`."""

    name = "llm"

    def __init__(self, model: str, environ: Mapping[str, str]) -> None:
        self.model = model or _sdk().get_default_model()

    def answer(self, prompt: Prompt) -> Iterator[str | Reply]:
        """Send a prompt once, and yield the answer. The caller converts other errors that plugins
        raise.
        """
        sdk = _sdk()
        model = _found(sdk, prompt.model)
        try:
            yield from self._asked(sdk, model, prompt)
        except sdk.NeedsKeyException as error:
            raise Forbidden(
                str(error),
                "llm keys set NAME; or use -m ollama or -m echo, which need no key",
                status=401,
            ) from None
        except sdk.ModelError as error:
            said = str(error)[:PROVIDER_ERROR_CHARS_MAX]
            raise Failed(
                f"{prompt.model} of llm failed: {said}",
                f"check that the model works: llm -m {prompt.model} hello",
            ) from error

    def _asked(self, sdk: Any, model: Any, prompt: Prompt) -> Generator[str | Reply]:
        answer = AnswerStream(prompt, self.name)
        response = model.prompt(**_request(sdk, model, prompt))
        for piece in response:
            yield answer.say(piece)
            if answer.is_cut:
                break
        else:
            for index, call in enumerate(response.tool_calls()):
                arguments = encode(call.arguments).decode()
                answer.call(index, id=call.tool_call_id or "", name=call.name, arguments=arguments)
        yield answer.reply("end", None if answer.is_cut else _tokens(response.usage()))


def _sdk() -> Any:
    try:
        import llm
    except ImportError as error:
        raise Unavailable("the package llm is not installed", "pip install 'llm>=0.36'") from error
    return llm


def _found(sdk: Any, name: str) -> Any:
    try:
        return sdk.get_model(name)
    except sdk.UnknownModelError as error:
        known: list[str] = sorted(sdk.get_model_aliases())
        close = get_close_matches(name, known, 3)
        hint = f"did you mean {', '.join(close)}?" if close else "see: llm models"
        raise Invalid(f"llm has no model {name!r}", hint, status=404) from error


def _request(sdk: Any, model: Any, prompt: Prompt) -> dict[str, Any]:
    """Return the arguments for `llm`: earlier messages unchanged, and a last message of only text
    as the prompt, because older plugins need this.
    """
    names: dict[str, str] = {}
    said: list[Any] = [sdk.system(prompt.system)] if prompt.system else []
    *earlier, last = prompt.messages
    for message in prompt.messages if last.results else earlier:
        names |= {call.id: call.name for call in message.calls}
        said += _messages(sdk, message, names)
    asked: dict[str, Any] = {"messages": said, "system": prompt.system or None}
    if not last.results:
        asked["prompt"] = last.text
    if prompt.tools and model.supports_tools:
        asked["tools"] = [
            sdk.Tool(name=tool.name, description=tool.description, input_schema=tool.schema)
            for tool in prompt.tools
        ]
    return asked


def _messages(sdk: Any, message: Message, names: Mapping[str, str]) -> list[Any]:
    from llm.parts import ToolCallPart, ToolResultPart

    said: list[Any] = []
    if message.results:
        results = [
            ToolResultPart(
                name=names.get(result.call_id, ""), output=result.text, tool_call_id=result.call_id
            )
            for result in message.results
        ]
        said.append(sdk.tool_message(*results))
    calls = [ToolCallPart(call.name, parsed(call), call.id) for call in message.calls]
    parts = [*([message.text] if message.text else []), *calls]
    if parts:
        said.append((sdk.user if message.role == "user" else sdk.assistant)(*parts))
    return said


def _tokens(usage: Any) -> Tokens | None:
    return Tokens(input=usage.input, output=usage.output or 0) if usage.input else None
