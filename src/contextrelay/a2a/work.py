"""The interface of agents: their input and output.

A Python agent is a function that takes the text of a message, or an `Asked`. It returns or yields
text (`str`), bytes, JSON values, an `Output` with parts, or a `Say` that changes the state. A
`Direct` is an answer without a task. If the function raises an exception, the task fails with that
error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from hashlib import sha256
from typing import Any, Protocol

from msgspec import UNSET, Struct, UnsetType, ValidationError, convert
from msgspec.json import encode

from contextrelay.a2a.parts import is_empty
from contextrelay.a2a.record import FETCHED, RUNS, KeptMessage, KeptPart, TaskRecord
from contextrelay.a2a.schema import INPUT_REQUIRED, REFS_EXTENSION, BodyDescription, Part, TaskState
from contextrelay.access import reach_of
from contextrelay.bounded.fetch import FetchPolicy, fetch
from contextrelay.client.relay import Relay
from contextrelay.client.thread import Thread
from contextrelay.client.transport.local import AsyncLocal
from contextrelay.errors import Failed
from contextrelay.limits import FETCH_BYTES_MAX, KIB
from contextrelay.pipelines.record import plain_runner
from contextrelay.verbs import NoteTask

# A text of at most this size is passed to the agent directly, and a longer one as a ref.
A2A_WORDS_BYTES_MAX = 16 * KIB
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
    """A new state of the task, optionally with a text for the user."""

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


def asked_of(local: AsyncLocal, record: TaskRecord, kept: KeptMessage) -> Asked:
    """Return the input that the agent of a task gets for a message."""
    relay = Relay.__new__(Relay)
    relay.transport = local.blocking()
    thread = Thread(relay, record.id)

    def ref_of(part: KeptPart) -> str:
        """Return the ref of the artifact that holds a part, which is created if necessary."""
        if part.ref:
            return part.ref
        if not isinstance(part.url, UnsetType):
            if part.url not in record.fetched:
                body = _fetched(local, part)
                ref = thread.put(body, created_by="a2a", metadata={"url": part.url}).ref
                fetched = {"url": part.url, "ref": ref}
                relay.transport.ask(NoteTask(record.id, FETCHED, fetched, "a2a"))
                record.fetched[part.url] = ref
            return record.fetched[part.url]
        return thread.put(_body(part), created_by="a2a").ref

    def read(part: KeptPart) -> bytes:
        if part.url is UNSET and not is_empty(part):
            return _body(part)
        return relay.pull(ref_of(part))

    def note(detail: dict[str, Any]) -> None:
        going_on = {"runner": plain_runner(), "note": detail}
        relay.transport.ask(NoteTask(record.id, RUNS, going_on, "a2a"))

    words = [read(part).decode() for part in kept.parts if _is_inline_text(part)]
    others = [part for part in kept.parts if not _is_inline_text(part)]
    return Asked(
        text="\n\n".join(words),
        parts=kept.parts,
        message=kept,
        task=record.id,
        context=record.context,
        turn=len(record.history),
        relay=relay,
        thread=thread,
        read=read,
        refs=lambda: [ref_of(part) for part in others],
        note=note,
        noted=record.note,
    )


def _is_inline_text(part: KeptPart) -> bool:
    """Return True if a part is a short text. Others are passed as refs."""
    is_text = part.text is not UNSET or part.kind == "text"
    return is_text and part.size <= A2A_WORDS_BYTES_MAX


def _body(part: KeptPart) -> bytes:
    if not isinstance(part.text, UnsetType):
        return part.text.encode(errors="replace")
    return encode(part.data) if isinstance(part.raw, UnsetType) else part.raw


def _fetched(local: AsyncLocal, part: KeptPart) -> bytes:
    """Fetch the body behind the URL of a part, from a host allowed for `http.fetch`.

    Raises:
        Failed: the body does not match the description in the part.
    """
    settings = local.stores.settings
    wanted = ("public", "private") if settings.fetch_private else ("public",)
    ways = FetchPolicy(
        lambda address: reach_of(address) in wanted,
        bytes_max=min(FETCH_BYTES_MAX, settings.body_bytes_max),
    )
    body = fetch(str(part.url), ways).body
    try:
        described = convert(part.metadata.get(REFS_EXTENSION), BodyDescription)
    except ValidationError:
        return body
    if sha256(body).hexdigest() != described.sha256:
        problem = f"the content of {str(part.url)[:200]!r} does not match its description"
        raise Failed(problem, "send the part again")
    return body
