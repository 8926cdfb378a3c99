"""Work: what an agent is given, and what it may answer with.

A Python agent is a function of the words of a message, or of an `Asked`. It returns, or yields one
by one, words (`str`), bytes, JSON values, an `Output` with parts of its own, or a `Say` that
changes the state; a `Direct` is an answer without a task. What it raises is why the task failed.
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
"""The id of the artifact that an agent's words become."""


class Output(Struct, frozen=True, kw_only=True):
    """An artifact, or the next piece of one."""

    parts: list[Part]
    id: str = ""
    """Its id within the task; without one it is a new artifact."""
    name: str = ""
    append: bool = False
    """Whether it goes on with what came under its id."""
    is_last: bool = True
    is_all: bool = False
    """Whether it is all of the answer, so that the task is completed with it."""
    refs: tuple[str, ...] = ()
    """Where the parts are artifacts of the thread already, one ref for each."""


class Say(Struct, frozen=True, kw_only=True):
    """A new state, maybe with words: `Say(state=INPUT_REQUIRED, text="which one?")`."""

    state: TaskState = INPUT_REQUIRED
    text: str = ""


class Direct(Struct, frozen=True, kw_only=True):
    """A message that is all of the answer: no task comes of it."""

    text: str


Made = str | bytes | Output | Say | Direct | dict[str, Any] | list[Any]


class Asked(Struct, frozen=True, kw_only=True):
    """One message to an agent, with the task that it belongs to."""

    text: str
    """The words of the message."""
    parts: list[KeptPart]
    message: KeptMessage
    task: str
    context: str
    turn: int
    """Which message of the task it is, from 1 on."""
    relay: Relay
    """The store, blocking; an agent that is awaited uses `read` in a thread."""
    thread: Thread
    """The task's own thread."""
    read: Callable[[KeptPart], bytes]
    """The body of a part; one behind a URL is fetched once, and kept in the thread. Blocks."""
    refs: Callable[[], list[str]]
    """The refs of all parts that are no words, as artifacts of the thread. Blocks."""
    note: Callable[[dict[str, Any]], None]
    """Keep what the agent needs to go on after a restart of the server. Blocks."""
    noted: dict[str, Any]
    """What it kept the last time, if it is to go on."""


class Agent(Protocol):
    """Works on messages."""

    @property
    def description(self) -> str:
        """What it does, for its card."""
        ...

    @property
    def lives_elsewhere(self) -> bool:
        """Whether it goes on while the server does not run."""
        ...

    def work(self, asked: Asked) -> AsyncGenerator[Made]:
        """Answer a message. Closing the iterator ends it."""
        ...
