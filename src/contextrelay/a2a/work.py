"""The interface of agents: their input and output.

A Python agent is a function that takes the text of a message, or an `Asked`. It returns or yields
text (`str`), bytes, JSON values, an `Output` with parts, or a `Say` that changes the state. A
`Direct` is an answer without a task. If the function raises an exception, the task fails with that
error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol

from msgspec import Struct

from contextrelay.a2a.record import KeptMessage, KeptPart
from contextrelay.a2a.schema import INPUT_REQUIRED, Part, TaskState
from contextrelay.client.relay import Relay
from contextrelay.client.thread import Thread

WORDS = "answer"
"""The id of the artifact that contains the words of an agent."""


class Output(Struct, frozen=True, kw_only=True):
    """An artifact of an agent, or the next piece of one."""

    parts: list[Part]
    id: str = ""
    """The id of the artifact within the task, or "" for a new artifact."""
    name: str = ""
    append: bool = False
    """True if this piece is appended to the artifact with this id."""
    is_last: bool = True
    is_all: bool = False
    """True if this is the whole answer, which completes the task."""
    refs: tuple[str, ...] = ()
    """The refs of the parts, if they are already artifacts of the thread."""


class Say(Struct, frozen=True, kw_only=True):
    """A new state of the task, optionally with text: `Say(state=INPUT_REQUIRED, text="which
    one?")`.
    """

    state: TaskState = INPUT_REQUIRED
    text: str = ""


class Direct(Struct, frozen=True, kw_only=True):
    """A message that is the whole answer, for which no task is created."""

    text: str


Made = str | bytes | Output | Say | Direct | dict[str, Any] | list[Any]


class Asked(Struct, frozen=True, kw_only=True):
    """A message to an agent, and the task to which the message belongs."""

    text: str
    """The text of the message."""
    parts: list[KeptPart]
    message: KeptMessage
    task: str
    context: str
    turn: int
    """The number of the message in its task, from 1."""
    relay: Relay
    """The store, as a blocking client. An asynchronous agent must call it in a thread."""
    thread: Thread
    """The thread of the task."""
    read: Callable[[KeptPart], bytes]
    """Return the body of a part. A body behind a URL is fetched once and stored in the thread. This
    blocks.
    """
    refs: Callable[[], list[str]]
    """Return the refs of all parts that are not text, as artifacts of the thread. This blocks."""
    note: Callable[[dict[str, Any]], None]
    """Store the data that the agent needs to resume after a restart of the server. This blocks."""
    noted: dict[str, Any]
    """The data that was stored last by `note`, if the agent is resumed."""


class Agent(Protocol):
    """Handles the messages of an A2A agent."""

    @property
    def description(self) -> str:
        """Return the description of the agent for its card."""
        ...

    @property
    def lives_elsewhere(self) -> bool:
        """Return True if the agent keeps working while the server is not running."""
        ...

    def work(self, asked: Asked) -> AsyncGenerator[Made]:
        """Answer a message, and yield the output. Closing the iterator stops the agent."""
        ...
