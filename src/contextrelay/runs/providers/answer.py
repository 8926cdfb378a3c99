"""Answers: what a model says, put together from the pieces in which it comes, within bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeGuard

from msgspec import DecodeError
from msgspec.json import decode, encode

from contextrelay.content.tokens import count_tokens
from contextrelay.errors import Failed
from contextrelay.limits import LABEL_CHARS_MAX, MIB
from contextrelay.runs.provider import Message, Prompt, Reply, Tokens, ToolCall

# What a model says in one call, text and tools together; longer text is cut, and marked so.
ANSWER_BYTES_MAX = MIB
ANSWER_CALLS_MAX = 64
# The reasoning that comes with an answer, and the blocks or items that an answer has.
THOUGHT_BYTES_MAX = MIB
ANSWER_BLOCKS_MAX = 1_000


Stop = Literal["end", "tools", "length", "refused"]
_COUNT_MAX = 2**53


class AnswerStream:
    """One answer while it comes. Text past the bound is cut, and the reply says `length`."""

    def __init__(
        self, prompt: Prompt, provider: str, progress: Callable[[], object] = lambda: None
    ) -> None:
        self.is_cut = False
        self.model = prompt.model
        self._prompt = prompt
        self._provider = provider
        self._pieces: list[str] = []
        self._calls: dict[object, _Call] = {}
        self._room_bytes = ANSWER_BYTES_MAX
        self._thought_room_bytes = THOUGHT_BYTES_MAX
        self._blocks = 0
        self._progress = progress

    @property
    def text(self) -> str:
        """What was said until now."""
        return "".join(self._pieces)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools that are asked for until now."""
        return tuple(
            ToolCall(each.id or self._id(index), each.name, "".join(each.arguments) or "{}")
            for index, each in enumerate(self._calls.values(), 1)
        )

    def _id(self, index: int) -> str:
        """An id for a call whose provider gives none; another one each round."""
        rounds = sum(bool(message.results) for message in self._prompt.messages)
        return f"call_{rounds + 1}_{index}"

    def say(self, piece: str) -> str:
        """Take a piece of text; as much of it as there is room for."""
        if not piece:
            return ""
        self._progress()
        raw = piece.encode(errors="replace")
        if len(raw) > self._room_bytes:
            self.is_cut = True
            piece = raw[: self._room_bytes].decode(errors="ignore")
        self._room_bytes -= min(len(raw), self._room_bytes)
        self._pieces.append(piece)
        return piece

    def think(self, piece: str) -> None:
        """Count a piece of reasoning, which is no part of the text.

        Raises:
            Failed: there is too much of it.
        """
        if not piece:
            return
        self._progress()
        self._thought_room_bytes -= len(piece.encode(errors="replace"))
        if self._thought_room_bytes < 0:
            raise Failed(
                f"{self._provider} sends more than {THOUGHT_BYTES_MAX:,} bytes of reasoning",
                "ask for less at once, or ask another model with -m",
            )

    def hold(self, thought: str) -> None:
        """Count a block or item of the answer, with what it holds besides text and calls.

        Raises:
            Failed: there are too many.
        """
        self._blocks += 1
        if self._blocks > ANSWER_BLOCKS_MAX:
            raise Failed(
                f"{self._provider} sends an answer of more than {ANSWER_BLOCKS_MAX:,} blocks",
                "run it again, or ask another model with -m",
            )
        self.think(thought)

    def call(self, key: object, *, id: str = "", name: str = "", arguments: str = "") -> None:
        """Take a piece of a tool call; pieces of one call have the same key.

        Raises:
            Failed: there are too many calls, or they are too long.
        """
        is_new = key not in self._calls
        said = f"{id}{name}{arguments}" if is_new else arguments
        if is_new or said:
            self._progress()
        call = self._calls.setdefault(key, _Call())
        call.id = call.id or id
        call.name = call.name or name
        if arguments:
            call.arguments.append(arguments)
        self._room_bytes -= len(said.encode(errors="replace"))
        if len(self._calls) > ANSWER_CALLS_MAX or self._room_bytes < 0:
            raise Failed(
                f"{self._provider} asks for more tools at once than can be answered",
                f"at most {ANSWER_CALLS_MAX} calls, {ANSWER_BYTES_MAX:,} bytes: run it again",
            )

    def reply(
        self, stop: Stop | None, tokens: Tokens | None, native: Callable[[], object] | None = None
    ) -> Reply:
        """The whole answer. `stop` is None where the stream ended without a word of why.

        Raises:
            Failed: it ended too early.
        """
        if stop is None and not self.is_cut:
            asked = " in the middle of a tool call" if self._calls else ""
            raise Failed(f"the answer of {self._provider} broke off{asked}", "run it again")
        if self.is_cut:
            stop, tokens = "length", None
        elif self._calls and stop == "end":
            stop = "tools"
        return Reply(
            text=self.text,
            calls=self.calls,
            stop=stop or "end",
            model=str(self.model or self._prompt.model)[:LABEL_CHARS_MAX],
            tokens=tokens if _is_counted(tokens) else self._estimated(),
            # Only a call's answer goes back to its model.
            native=encode(native()).decode() if native and self._calls else "",
        )

    def _estimated(self) -> Tokens:
        """By our own count, where the provider gives none."""
        said = [self.text, *(call.arguments for call in self.calls)]
        return Tokens(input=tokens_in(self._prompt), output=_tokens(said), basis="estimated")


def _is_counted(tokens: Tokens | None) -> TypeGuard[Tokens]:
    """Return True if a provider's counts can be used; SDKs do not check their types."""
    if tokens is None:
        return False
    counts = (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write)
    is_sound = all(type(each) is int and 0 <= each <= _COUNT_MAX for each in counts)
    return is_sound and tokens.input > 0


class _Call:
    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


def native_of(message: Message, model: str) -> Any:
    """What a message holds in its provider's own form, if it was this model that said it."""
    if not message.native:
        return None
    native = decode(message.native)
    return native["content"] if native["model"] == model else None


def parsed(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call as the object that vendors want, also where they are none."""
    try:
        return decode(call.arguments, type=dict[str, Any])
    except (DecodeError, UnicodeEncodeError, RecursionError):
        return {"arguments": call.arguments}


def tokens_in(prompt: Prompt) -> int:
    """About how many tokens a prompt takes, by our own count."""
    texts = [prompt.system, *(encode(tool).decode() for tool in prompt.tools)]
    for message in prompt.messages:
        texts += [message.text, *(call.arguments for call in message.calls)]
        texts += [result.text for result in message.results]
    return _tokens(texts)


def _tokens(texts: Iterable[str]) -> int:
    return sum(map(count_tokens, filter(None, texts)))


def function_tools(prompt: Prompt) -> list[dict[str, Any]]:
    """The tools of a prompt in the form that OpenAI's chat has, and Ollama with it."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
            },
        }
        for tool in prompt.tools
    ]
