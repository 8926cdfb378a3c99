"""The provider protocol: the request to a model, its answer, and the tokens used.

Rule: a provider only translates between these values and the API of its vendor. A provider knows no
threads, refs or tool names. It stores nothing and prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Protocol

from msgspec import Struct

from contextrelay.model.run import Tokens


class Tool(Struct, frozen=True):
    """A tool that the model may call; `schema` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


class ToolCall(Struct, frozen=True):
    """A call of a tool by the model. `arguments` is the JSON text as received, which may be
    invalid.
    """

    id: str
    name: str
    arguments: str


class ToolResult(Struct, frozen=True):
    """The result of a tool call."""

    call_id: str
    text: str
    is_error: bool = False


class Message(Struct, frozen=True, kw_only=True):
    """One message after the system text.

    An assistant message has text and `calls`. The user message that follows it has the `results` of
    these calls.
    """

    role: Literal["user", "assistant"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    native: str = ""
    """The assistant message as JSON in the provider's own form, or "". This is needed if the
    message contains more than text and calls: signed or encrypted reasoning, which must be sent
    back unchanged.
    """


class Prompt(Struct, frozen=True, kw_only=True):
    """The whole request of one model call."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    stable_messages: int = 0
    """The number of messages, from the first, that stay the same from run to run. A prompt cache
    ends there.
    """
    output_tokens_max: int


class Reply(Struct, frozen=True, kw_only=True):
    """The complete answer of one model call."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    stop: Literal["end", "tools", "length", "refused"] = "end"
    model: str
    """The name of the model that answered, as the provider gave it."""
    tokens: Tokens = Tokens()
    native: str = ""
    """As `Message.native`; "" if the reply has only text and calls."""

    def message(self) -> Message:
        """Return the reply as the next message of the conversation."""
        return Message(role="assistant", text=self.text, calls=self.calls, native=self.native)


class Provider(Protocol):
    """A model provider. `open_provider` in runs/providers opens one from `NAME[:MODEL]`."""

    @property
    def name(self) -> str:
        """Return the name of the provider as used in events, provenance and `-m`: `anthropic`,
        `openai`, `ollama`, `echo`, ...
        """
        ...

    @property
    def model(self) -> str:
        """Return the name of the requested model, or of the provider's default model."""
        ...

    def answer(self, prompt: Prompt) -> Iterator[str | Reply]:
        """Yield pieces of text as they arrive, and finally the complete `Reply`.

        Transient errors (429, 503, 529, a lost connection before the first piece) are retried here,
        respecting Retry-After. Closing the iterator ends the call.

        Raises:
            Forbidden: the API key is missing or was refused.
            Invalid: the model does not exist, or the provider refuses the request.
            Unavailable: the provider does not respond, even after retries.
            Failed: the response is unusable, or its stream ends too early.
        """
        ...
