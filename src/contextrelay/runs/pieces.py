"""The words of one call of a model as they come, fit to be written and stored."""

from __future__ import annotations

from threading import Lock
from typing import Any

from msgspec.structs import replace

from contextrelay.content.tokens import count_tokens
from contextrelay.errors import Failed, RelayError
from contextrelay.runs.provider import Prompt, Provider, Reply, ToolCall


class Pieces:
    """The pieces of one call. They may be closed from a thread other than the one that waits."""

    def __init__(self, provider: Provider, prompt: Prompt) -> None:
        self._name = provider.name
        self._pieces: Any = provider.answer(prompt)
        self._lock = Lock()
        self._is_closed = False

    def next(self) -> str | Reply | None:
        """The next piece, or None at the end.

        Raises:
            RelayError: as the provider says; Failed for an error that is none of ours.
        """
        with self._lock:
            try:
                return None if self._is_closed else next(self._pieces, None)
            except RelayError:
                raise
            except Exception as error:
                # Its text may quote all that came, and the key with it.
                raise Failed(
                    f"the provider {self._name} failed with {type(error).__name__}",
                    "ask again, or another provider: -m",
                ) from None
            finally:
                if self._is_closed:
                    self._end()

    def close(self) -> None:
        """End the call; where a piece is being waited for, as soon as it comes."""
        self._is_closed = True
        if self._lock.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._lock.release()

    def _end(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()


def written(text: str) -> str:
    """A text that can be written: half of a pair of surrogates becomes a question mark."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def spelled(reply: Reply) -> Reply:
    """A reply that can be written."""
    calls = tuple(
        ToolCall(written(call.id), written(call.name), written(call.arguments))
        for call in reply.calls
    )
    return replace(
        reply,
        text=written(reply.text),
        calls=calls,
        model=written(reply.model),
        native=written(reply.native),
    )


def cut_bytes(text: str, bytes_max: int) -> str:
    """As much of a text as fits, in whole characters."""
    return text.encode(errors="replace")[:bytes_max].decode(errors="ignore")


def tokens_in(prompt: Prompt) -> int:
    """The tokens of a prompt by our own count, without its tools."""
    results = (result.text for message in prompt.messages for result in message.results)
    texts = (prompt.system, *(message.text for message in prompt.messages), *results)
    return sum(map(count_tokens, texts))
