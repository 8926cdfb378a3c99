"""Answers of models, assembled from streamed pieces within limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeGuard

from msgspec import DecodeError
from msgspec.json import decode, encode

from contextrelay.content.tokens import count_tokens
from contextrelay.errors import Failed
from contextrelay.limits import LABEL_CHARS_MAX, MIB
from contextrelay.runs.provider import Message, Prompt, Reply, Tokens, ToolCall

# Maximum size of one answer in bytes, text and tool calls together. Longer text is cut, and the cut
# is marked.
ANSWER_BYTES_MAX = MIB
ANSWER_CALLS_MAX = 64
# The maximum bytes of reasoning in an answer, and the maximum number of its blocks or items.
THOUGHT_BYTES_MAX = MIB
ANSWER_BLOCKS_MAX = 1_000


Stop = Literal["end", "tools", "length", "refused"]
_COUNT_MAX = 2**53


class AnswerStream:
    """An answer that is being received. Text over the limit is cut, and the reply then has the stop
    reason `length`.
    """

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
        """Return the text received so far."""
        return "".join(self._pieces)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls received so far."""
        return tuple(
            ToolCall(each.id or self._id(index), each.name, "".join(each.arguments) or "{}")
            for index, each in enumerate(self._calls.values(), 1)
        )

    def _id(self, index: int) -> str:
        """Return an id for a call that has no id. The ids differ in each round."""
        rounds = sum(bool(message.results) for message in self._prompt.messages)
        return f"call_{rounds + 1}_{index}"

    def say(self, piece: str) -> str:
        """Append a piece of text to the answer, and return the part of the piece that is within the
        limit.
        """
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
        """Count a piece of reasoning, which does not become part of the text.

        Raises:
            Failed: the reasoning exceeds the limit.
        """
        if not piece:
            return
        self._progress()
        self._thought_room_bytes -= len(piece.encode(errors="replace"))
        if self._thought_room_bytes < 0:
            raise Failed(
                f"{self._provider} sent more than {THOUGHT_BYTES_MAX:,} bytes of reasoning",
                "ask for a shorter answer, or use another model with -m",
            )

    def hold(self, thought: str) -> None:
        """Count a block or item of the answer, and the reasoning in it.

        Raises:
            Failed: the number of blocks or the reasoning exceeds the limit.
        """
        self._blocks += 1
        if self._blocks > ANSWER_BLOCKS_MAX:
            raise Failed(
                f"{self._provider} sent an answer of more than {ANSWER_BLOCKS_MAX:,} blocks",
                "run it again, or use another model with -m",
            )
        self.think(thought)

    def call(self, key: object, *, id: str = "", name: str = "", arguments: str = "") -> None:
        """Append a piece of a tool call. The pieces of one call have the same `key`.

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
                f"{self._provider} requested too many tool calls at once",
                f"the limit is {ANSWER_CALLS_MAX} calls, {ANSWER_BYTES_MAX:,} bytes; run it again",
            )

    def reply(
        self, stop: Stop | None, tokens: Tokens | None, native: Callable[[], object] | None = None
    ) -> Reply:
        """Return the complete answer. `stop` is None if the stream ended without a stop reason.

        Raises:
            Failed: the stream ended too early.
        """
        if stop is None and not self.is_cut:
            asked = " in the middle of a tool call" if self._calls else ""
            raise Failed(f"the answer of {self._provider} was cut off{asked}", "run it again")
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
            # A call in a provider's own form must only be sent back to the same model.
            native=encode(native()).decode() if native and self._calls else "",
        )

    def _estimated(self) -> Tokens:
        """Return the estimated token counts, for a provider that does not report them."""
        said = [self.text, *(call.arguments for call in self.calls)]
        return Tokens(input=tokens_in(self._prompt), output=_tokens(said), basis="estimated")


def _is_counted(tokens: Tokens | None) -> TypeGuard[Tokens]:
    """Return True if a provider's token counts are valid. SDKs do not check the types of the
    counts.
    """
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
    """Return a message in its provider's own form, or None if the message is from another model."""
    if not message.native:
        return None
    native = decode(message.native)
    return native["content"] if native["model"] == model else None


def parsed(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call as a dict, even if they are invalid, because vendors require
    an object.
    """
    try:
        return decode(call.arguments, type=dict[str, Any])
    except (DecodeError, UnicodeEncodeError, RecursionError):
        return {"arguments": call.arguments}


def tokens_in(prompt: Prompt) -> int:
    """Return the estimated number of tokens of a prompt."""
    texts = [prompt.system, *(encode(tool).decode() for tool in prompt.tools)]
    for message in prompt.messages:
        texts += [message.text, *(call.arguments for call in message.calls)]
        texts += [result.text for result in message.results]
    return _tokens(texts)


def _tokens(texts: Iterable[str]) -> int:
    return sum(map(count_tokens, filter(None, texts)))


def function_tools(prompt: Prompt) -> list[dict[str, Any]]:
    """Return the tools of a prompt in the form of OpenAI's chat API, which Ollama also accepts."""
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
