"""The provider protocol: what a model is sent, what it answers, and what that took.

Rule: a provider translates between these values and its vendor's API, and does nothing else. It
knows no thread, no ref and no tool by name; it stores nothing and prints nothing.
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
    """The model asks for a tool. `arguments` is the JSON text as it came: it may be no JSON."""

    id: str
    name: str
    arguments: str


class ToolResult(Struct, frozen=True):
    """What a tool answered."""

    call_id: str
    text: str
    is_error: bool = False


class Message(Struct, frozen=True, kw_only=True):
    """One message after the system text.

    The assistant's has text and `calls`; the user's that follows has the `results` of these calls.
    """

    role: Literal["user", "assistant"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    native: str = ""
    """The assistant's message in its provider's own form, as JSON, where that says more than text
    and calls do: signed or encrypted reasoning, which has to be sent back as it came."""


class Prompt(Struct, frozen=True, kw_only=True):
    """All that one call of a model is sent."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    stable_messages: int = 0
    """How many of the first messages stay the same from run to run: a prompt cache ends there."""
    output_tokens_max: int


class Reply(Struct, frozen=True, kw_only=True):
    """The answer of one call, whole."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    stop: Literal["end", "tools", "length", "refused"] = "end"
    model: str
    """The model that answered, as the provider names it."""
    tokens: Tokens = Tokens()
    native: str = ""
    """See `Message.native`; empty where text and calls are all there is."""

    def message(self) -> Message:
        """The reply as a message of the conversation that goes on."""
        return Message(role="assistant", text=self.text, calls=self.calls, native=self.native)


class Provider(Protocol):
    """Answers prompts. `open_provider` in runs/providers makes one from `NAME[:MODEL]`."""

    @property
    def name(self) -> str:
        """What events, provenance and `-m` call it: `anthropic`, `openai`, `ollama`, `echo`, ..."""
        ...

    @property
    def model(self) -> str:
        """The model that is asked: the one that was named, or the provider's default."""
        ...

    def answer(self, prompt: Prompt) -> Iterator[str | Reply]:
        """Yield pieces of text as they come, and last the whole `Reply`.

        Transient refusals (429, 503, 529, a lost connection before the first piece) are retried
        here, with Retry-After. Closing the iterator ends the call.

        Raises:
            Forbidden: there is no key, or it is refused.
            Invalid: there is no such model, or the provider refuses the request itself.
            Unavailable: it does not answer, also after retries.
            Failed: it answers with something unusable, or its stream ends too early.
        """
        ...
