"""The echo provider: answers with the request itself, offline and deterministically.

With RELAY_ECHO_SCRIPT, or `Echo(script=...)`, it plays a script, which is a list with one
`ScriptLine` per round. The round is derived from the tool results in the prompt, so no state is
kept between calls. After the last line, the provider answers with the request again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, ValidationError, convert
from msgspec.json import decode, encode

from contextrelay.content.tokens import count_tokens
from contextrelay.errors import Invalid
from contextrelay.limits import MIB
from contextrelay.runs.bundle import REQUEST
from contextrelay.runs.provider import Prompt, Reply, Tokens, ToolCall
from contextrelay.verbs.problems import from_problem

# Limits of a script for the echo provider.
ECHO_SCRIPT_BYTES_MAX = 16 * MIB


VARIABLE = "RELAY_ECHO_SCRIPT"
MODEL = "echo-1"
_NO_ERROR = 0


class ScriptedCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call in a script. `arguments` is an object, or a text that is sent unchanged, valid
    JSON or not.
    """

    name: str
    arguments: dict[str, Any] | str = {}


class ScriptLine(Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of one round. If `error` is set, an error with this code is raised instead."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    stop: Literal["end", "tools", "length", "refused", ""] = ""
    error: str = ""


class Echo:
    """A provider that answers with the request, or from a script."""

    name = "echo"

    def __init__(self, model: str = "", script: Sequence[ScriptLine] = ()) -> None:
        self.model = model or MODEL
        self._script = tuple(script)

    def answer(self, prompt: Prompt) -> Iterator[str | Reply]:
        """Yield the answer line by line, and finally the complete reply."""
        turn = sum(bool(message.results) for message in prompt.messages)
        line = self._script[turn] if turn < len(self._script) else ScriptLine(_request(prompt))
        yield from line.text.splitlines(keepends=True)
        if line.error:
            raise from_problem({"code": line.error, "error": f"{line.error} (scripted)"}, _NO_ERROR)
        calls = tuple(
            ToolCall(f"call_{turn + 1}_{index}", each.name, _text(each.arguments))
            for index, each in enumerate(line.calls, 1)
        )
        yield Reply(
            text=line.text,
            calls=calls,
            stop=line.stop or ("tools" if calls else "end"),
            model=prompt.model or self.model,
            tokens=Tokens(input=_tokens_in(prompt), output=count_tokens(line.text)),
        )


def open_echo(model: str, environ: Mapping[str, str]) -> Echo:
    """Open the echo provider, with the script named by the environment.

    Raises:
        Invalid: the script cannot be read or is invalid.
    """
    path = environ.get(VARIABLE)
    return Echo(model, _read_script(path) if path else ())


def _read_script(path: str) -> list[ScriptLine]:
    try:
        with Path(path).open("rb") as file:
            raw = file.read(ECHO_SCRIPT_BYTES_MAX + 1)
        if len(raw) > ECHO_SCRIPT_BYTES_MAX:
            raise ValueError(f"it is longer than {ECHO_SCRIPT_BYTES_MAX:,} bytes")
        return convert(decode(raw), list[ScriptLine])
    except (OSError, ValueError, ValidationError) as error:
        raise Invalid(
            f"invalid echo script {path}: {error}",
            f'for example [{{"text": "..."}}]; or unset {VARIABLE}',
        ) from error


def _request(prompt: Prompt) -> str:
    """Return the user's prompt, which is the last message without tool results."""
    said = [message.text for message in prompt.messages if message.role == "user" and message.text]
    last = said[-1] if said else ""
    _, marked, request = last.partition(REQUEST)
    return request if marked else last


def _text(arguments: dict[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else encode(arguments).decode()


def _tokens_in(prompt: Prompt) -> int:
    results = (result.text for message in prompt.messages for result in message.results)
    texts = (prompt.system, *(message.text for message in prompt.messages), *results)
    return sum(map(count_tokens, texts))
