"""Task records, made from the events of a task's thread: messages, state and artifacts.

Rule: the log is the only source. The first terminal state is final, and later events are ignored.
"""

from __future__ import annotations

from datetime import datetime
from itertools import groupby
from typing import Any

from msgspec import UNSET, Struct, ValidationError, convert
from msgspec.structs import replace

from contextrelay.a2a.schema import TERMINAL, WORKING, Part, TaskState, filled
from contextrelay.limits import A2A_TASK_S_MAX
from contextrelay.model.thread import Numbered, TaskEvent
from contextrelay.pipelines.record import RunnerIdentity, this_runner

# The events of a task, with their fields.
ASKED: TaskEvent = "task.asked"
"""A message was received: `message` in stored form; `runner`, the process that works on it."""
STATUS: TaskEvent = "task.status"
"""The state changed: `state`, and optionally `message`."""
ARTIFACT: TaskEvent = "task.artifact"
"""There is output: `artifact`, `append`, `last`; `whole`, the part that replaces all pieces."""
RUNS: TaskEvent = "task.runs"
"""Another process works on the task: `runner`; `note`, what the agent needs to resume."""
SENDS: TaskEvent = "task.sends"
"""A process sends the updates to the webhooks of the task: `runner`, or None when it stops."""
FETCHED: TaskEvent = "task.fetched"
"""The URL of a part was fetched: `url`, `ref`."""


class KeptPart(Part, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A part in stored form. Its content is inline or in `ref`. `kind` is text, raw or data."""

    ref: str = ""
    kind: str = ""
    size: int = 0


class KeptMessage(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A message in stored form."""

    message_id: str
    role: str
    parts: list[KeptPart]
    metadata: dict[str, Any] = {}
    extensions: list[str] = []
    reference_task_ids: list[str] = []
    is_direct: bool = False
    """True if the message is an answer without a task, which is then only its record."""


class KeptArtifact(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An artifact of a task, or the next piece of one, in stored form."""

    artifact_id: str
    parts: list[KeptPart]
    name: str = ""
    description: str = ""
    metadata: dict[str, Any] = {}


class TaskStatus(Struct, frozen=True, kw_only=True):
    """The state of a task, the time of the state, and its message."""

    state: TaskState
    at: datetime
    message: KeptMessage | None = None

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL


class ArtifactChange(Struct, frozen=True, kw_only=True):
    """An update that changes an artifact of a task."""

    artifact: KeptArtifact
    append: bool = False
    last: bool = False
    whole: KeptPart | None = None
    ref: str = ""
    """The ref of the only part, if this part was stored together with the event, or ""."""


Update = TaskStatus | ArtifactChange


class Claim(Struct, frozen=True, kw_only=True):
    """A process that works on a task or sends its updates, and the event that says so."""

    runner: RunnerIdentity | None
    """The process, or None if it has reported its end."""
    since: datetime
    seq: int
    server: str = ""
    """The id of the server in that process."""

    def is_dead(self, now: datetime, is_embedded: bool) -> bool:
        """Return True if the process is gone. `is_embedded`: the store is on one machine.

        A process on another machine counts as alive for the time limit of a task.
        """
        if self.runner is None or self.runner.is_here:
            return self.runner is None or not self.runner.is_alive
        _, _, boot = this_runner().host.partition(" ")
        if is_embedded and boot and not self.runner.host.endswith(boot):
            return True  # The machine was rebooted.
        return (now - self.since).total_seconds() > A2A_TASK_S_MAX


def _claim(numbered: Numbered) -> Claim:
    try:
        runner = convert(numbered.event.detail.get("runner"), RunnerIdentity | None)
    except ValidationError:  # Something other than our server wrote this event.
        runner = None
    server = str(numbered.event.detail.get("server", ""))
    return Claim(runner=runner, since=numbered.event.at, seq=numbered.seq, server=server)


class TaskRecord:
    """A task, made from its events in order."""

    def __init__(self, task: str, context: str, agent: str) -> None:
        self.id = task
        self.context = context
        self.agent = agent
        self.seq = 0
        self.at: datetime | None = None
        """The time of the last event."""
        self.updates = 0
        self.status: TaskStatus | None = None
        self.history: list[KeptMessage] = []
        self.artifacts: dict[str, KeptArtifact] = {}
        self.fetched: dict[str, str] = {}
        self.runner: Claim | None = None
        self.sender: Claim | None = None
        """The process that sends or has sent the updates of the task to its webhooks."""
        self.note: dict[str, Any] = {}

    def copy(self) -> TaskRecord:
        """Return a copy that can be updated separately."""
        copied = TaskRecord(self.id, self.context, self.agent)
        copied.become(self)
        copied.history, copied.fetched = list(self.history), dict(self.fetched)
        copied.artifacts = {
            id: replace(each, parts=list(each.parts)) for id, each in self.artifacts.items()
        }
        return copied

    def become(self, other: TaskRecord) -> None:
        """Take over the state of another record, which must not be used afterwards."""
        vars(self).update(vars(other))

    @property
    def is_over(self) -> bool:
        return self.status is not None and self.status.is_terminal

    @property
    def state(self) -> TaskState | None:
        return None if self.status is None else self.status.state

    @property
    def direct(self) -> KeptMessage | None:
        """Return the message that is the whole answer, or None."""
        message = None if self.status is None else self.status.message
        return message if message is not None and message.is_direct else None

    def take(self, numbered: Numbered) -> Update | None:
        """Update the record by one event, and return the update for followers, or None."""
        self.seq, self.at = numbered.seq, numbered.event.at
        if numbered.event.type == SENDS:
            self.sender = _claim(numbered)
        if self.is_over or not numbered.event.type.startswith("task."):
            return None
        try:
            return self._taken(numbered)
        except ValidationError:  # Something other than our server wrote this event.
            return None

    def _taken(self, numbered: Numbered) -> Update | None:
        event = numbered.event
        detail = event.detail
        match event.type:
            case "task.asked":
                self.history.append(convert(detail.get("message"), KeptMessage))
                self.runner = _claim(numbered)
                is_first = self.status is None
                self.status = TaskStatus(state=WORKING, at=event.at)
                return None if is_first else self.status
            case "task.runs":
                self.runner = _claim(numbered)
                self.note = convert(detail.get("note", {}), dict[str, Any])
            case "task.status":
                self.status = convert({"at": event.at, **detail}, TaskStatus)
                self.updates += 1
                return self.status
            case "task.artifact":
                piece = convert(detail, ArtifactChange)
                if piece.ref and len(piece.artifact.parts) == 1:
                    part = replace(piece.artifact.parts[0], ref=piece.ref)
                    piece = replace(piece, artifact=replace(piece.artifact, parts=[part]))
                self._add(piece)
                self.updates += 1
                return piece
            case "task.fetched":
                self.fetched[str(detail.get("url", ""))] = str(detail.get("ref", ""))
            case _:
                pass
        return None

    def _add(self, piece: ArtifactChange) -> None:
        new = piece.artifact
        old = self.artifacts.get(new.artifact_id)
        if piece.whole is not None:
            new = replace(old or new, parts=[piece.whole])
        elif piece.append and old is not None:
            old.parts.extend(new.parts)
            return
        # Copy the list, because later pieces extend it, but the piece itself must not change.
        self.artifacts[new.artifact_id] = replace(new, parts=list(new.parts))


def joined(parts: list[KeptPart]) -> list[KeptPart]:
    """Return parts in which consecutive pieces of one text are joined."""
    together: list[KeptPart] = []
    for (is_text, *_), pieces in groupby(parts, _text_of_piece):
        each = list(pieces)
        if is_text and len(each) > 1:
            each = [replace(each[0], text="".join(str(part.text) for part in each))]
        together += each
    return together


def _text_of_piece(part: KeptPart) -> tuple[bool, str, str]:
    return part.text is not UNSET and not part.ref, part.media_type, part.filename


def plain(part: KeptPart) -> dict[str, Any]:
    """Return an inline part in the form of the protocol."""
    return part_fields(part, text=part.text, raw=part.raw, url=part.url, data=part.data)


def part_fields(part: KeptPart, **content: Any) -> dict[str, Any]:
    """Return the fields of a part with the given content, in the form of the protocol."""
    fields = {name: each for name, each in content.items() if each is not UNSET}
    named = {"metadata": part.metadata, "filename": part.filename, "mediaType": part.media_type}
    return fields | filled(named)
