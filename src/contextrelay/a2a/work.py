"""The interface of agents: their input and output.

A Python agent is a function that takes the text of a message, or an `Asked`. It returns or yields
text (`str`), bytes, JSON values, an `Output` with its own parts, or a `Say` that changes the state;
a `Direct` is an answer without a task. If it raises, the task fails with the error.
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
"""The id of the artifact with an agent's words."""


class Output(Struct, frozen=True, kw_only=True):
    """An artifact, or the next piece of one."""

    parts: list[Part]
    id: str = ""
    """Its id within the task; "" for a new artifact."""
    name: str = ""
    append: bool = False
    """True if it is appended to the artifact with its id."""
    is_last: bool = True
    is_all: bool = False
    """True if it is the whole answer, so that it completes the task."""
    refs: tuple[str, ...] = ()
    """The refs of the parts, if they are already artifacts of the thread."""


class Say(Struct, frozen=True, kw_only=True):
    """A new state, optionally with text: `Say(state=INPUT_REQUIRED, text="which one?")`."""

    state: TaskState = INPUT_REQUIRED
    text: str = ""


class Direct(Struct, frozen=True, kw_only=True):
    """A message that is the whole answer: no task is created."""

    text: str


Made = str | bytes | Output | Say | Direct | dict[str, Any] | list[Any]


class Asked(Struct, frozen=True, kw_only=True):
    """A message to an agent, with its task."""

    text: str
    """The text of the message."""
    parts: list[KeptPart]
    message: KeptMessage
    task: str
    context: str
    turn: int
    """The number of the message in its task, from 1."""
    relay: Relay
    """The store, blocking; an asynchronous agent calls it in a thread."""
    thread: Thread
    """The thread of the task."""
    read: Callable[[KeptPart], bytes]
    """Return the body of a part; one behind a URL is fetched once and stored in the thread. Blocks.
    """
    refs: Callable[[], list[str]]
    """Return the refs of all parts except text, as artifacts of the thread. Blocks."""
    note: Callable[[dict[str, Any]], None]
    """Store what the agent needs to resume after a restart of the server. Blocks."""
    noted: dict[str, Any]
    """The last stored note, if the agent is resumed."""


class Agent(Protocol):
    """A handler of messages."""

    @property
    def description(self) -> str:
        """Return the description for the card."""
        ...

    @property
    def lives_elsewhere(self) -> bool:
        """Return True if it keeps working while the server is not running."""
        ...

    def work(self, asked: Asked) -> AsyncGenerator[Made]:
        """Answer a message. Closing the iterator stops it."""
        ...
