"""Records: what the events of a task's thread say of it: its messages, its state, its artifacts.

Rule: the log is the task. The first terminal state stands; what comes behind it says nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import UNSET, Struct, ValidationError, convert
from msgspec.structs import replace

from contextrelay.a2a.schema import TERMINAL, WORKING, Part, TaskState
from contextrelay.limits import A2A_TASK_S_MAX
from contextrelay.model.thread import Numbered, TaskEvent
from contextrelay.pipelines.record import RunnerIdentity, this_runner

ASKED: TaskEvent = "task.asked"
"""A message came, and is worked on: `message`, with its parts as they are kept; `runner`, the
process that works on it."""
STATUS: TaskEvent = "task.status"
"""The state changed: `state`, maybe `message`."""
ARTIFACT: TaskEvent = "task.artifact"
"""Something was made: `artifact`, `append`, `last`; `whole`: the part that stands for all of it."""
RUNS: TaskEvent = "task.runs"
"""Another process works on it: `runner`; `note`: what the agent needs to go on after a restart."""
SENDS: TaskEvent = "task.sends"
"""A process sends the updates to the hooks of the task: `runner`, or None where it ended that."""
FETCHED: TaskEvent = "task.fetched"
"""A URL that a part names was read: `url`, `ref`."""


class KeptPart(Part, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A part as it is kept: its content here, or in `ref`, which is text, raw, data by `kind`."""

    ref: str = ""
    kind: str = ""
    size: int = 0


class KeptMessage(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A message as it is kept."""

    message_id: str
    role: str
    parts: list[KeptPart]
    metadata: dict[str, Any] = {}
    extensions: list[str] = []
    reference_task_ids: list[str] = []
    is_direct: bool = False
    """Whether it is an answer without a task: that is only its record."""


class KeptArtifact(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An artifact of a task, or the next piece of one, as it is kept."""

    artifact_id: str
    parts: list[KeptPart]
    name: str = ""
    description: str = ""
    metadata: dict[str, Any] = {}


class TaskStatus(Struct, frozen=True, kw_only=True):
    """The state of a task, since when, and what is said with it."""

    state: TaskState
    at: datetime
    message: KeptMessage | None = None

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL


class ArtifactChange(Struct, frozen=True, kw_only=True):
    """A change of an artifact."""

    artifact: KeptArtifact
    append: bool = False
    last: bool = False
    whole: KeptPart | None = None
    ref: str = ""
    """The artifact of the thread that its one part is, where that was stored with it."""


Update = TaskStatus | ArtifactChange


class Claim(Struct, frozen=True, kw_only=True):
    """A process that works on a task, or sends its updates, since an event."""

    runner: RunnerIdentity | None
    """None where it said that it ended."""
    since: datetime
    seq: int
    server: str = ""
    """Which server of that process it is."""

    def is_dead(self, now: datetime, is_embedded: bool) -> bool:
        """Whether that process is gone. One on another machine gets the time of a task.

        `is_embedded`: the store is of one machine, which may have been started again.
        """
        if self.runner is None or self.runner.is_here:
            return self.runner is None or not self.runner.is_alive
        _, _, boot = this_runner().host.partition(" ")
        if is_embedded and boot and not self.runner.host.endswith(boot):
            return True
        return (now - self.since).total_seconds() > A2A_TASK_S_MAX


def _claim(numbered: Numbered) -> Claim:
    try:
        runner = convert(numbered.event.detail.get("runner"), RunnerIdentity | None)
    except ValidationError:  # Somebody else wrote it.
        runner = None
    server = str(numbered.event.detail.get("server", ""))
    return Claim(runner=runner, since=numbered.event.at, seq=numbered.seq, server=server)


class TaskRecord:
    """A task by its events, in order."""

    def __init__(self, task: str, context: str, agent: str) -> None:
        self.id = task
        self.context = context
        self.agent = agent
        self.seq = 0
        self.at: datetime | None = None
        """When its last event was."""
        self.updates = 0
        self.status: TaskStatus | None = None
        self.history: list[KeptMessage] = []
        self.artifacts: dict[str, KeptArtifact] = {}
        self.fetched: dict[str, str] = {}
        self.runner: Claim | None = None
        self.sender: Claim | None = None
        """Who sends its updates to its hooks, or did."""
        self.note: dict[str, Any] = {}

    def copy(self) -> TaskRecord:
        """The same, to be followed further on its own."""
        copied = TaskRecord(self.id, self.context, self.agent)
        copied.become(self)
        copied.history, copied.fetched = list(self.history), dict(self.fetched)
        copied.artifacts = {
            id: replace(each, parts=list(each.parts)) for id, each in self.artifacts.items()
        }
        return copied

    def become(self, other: TaskRecord) -> None:
        """Stand as another record of the same task does, which is followed no further."""
        vars(self).update(vars(other))

    @property
    def is_over(self) -> bool:
        return self.status is not None and self.status.is_terminal

    @property
    def state(self) -> TaskState | None:
        return None if self.status is None else self.status.state

    @property
    def direct(self) -> KeptMessage | None:
        """The message that is all of its answer, if it is one."""
        message = None if self.status is None else self.status.message
        return message if message is not None and message.is_direct else None

    def take(self, numbered: Numbered) -> Update | None:
        """Follow one event; what it is to those who follow the task."""
        self.seq, self.at = numbered.seq, numbered.event.at
        if numbered.event.type == SENDS:
            self.sender = _claim(numbered)
        if self.is_over or not numbered.event.type.startswith("task."):
            return None
        try:
            return self._taken(numbered)
        except ValidationError:  # Somebody else wrote it.
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
        # A list of its own, which later pieces lengthen: the piece itself stays as it is.
        self.artifacts[new.artifact_id] = replace(new, parts=list(new.parts))


def joined(parts: list[KeptPart]) -> list[KeptPart]:
    """Parts with words that came piece by piece in one part."""
    together: list[KeptPart] = []
    words: list[str] = []
    for part in parts:
        last = together[-1] if together else None
        if not _is_words(part) or last is None or not words or not _is_like(part, last):
            _close(together, words)
            words = [str(part.text)] if _is_words(part) else []
            together.append(part)
        else:
            words.append(str(part.text))
    _close(together, words)
    return together


def _close(together: list[KeptPart], words: list[str]) -> None:
    if len(words) > 1:
        together[-1] = replace(together[-1], text="".join(words))


def _is_words(part: KeptPart) -> bool:
    return part.text is not UNSET and not part.ref


def _is_like(part: KeptPart, last: KeptPart) -> bool:
    return (part.media_type, part.filename) == (last.media_type, last.filename)


def plain(part: KeptPart) -> dict[str, Any]:
    """A part that is kept whole, as it goes out."""
    return part_fields(part, text=part.text, raw=part.raw, url=part.url, data=part.data)


def part_fields(part: KeptPart, **content: Any) -> dict[str, Any]:
    """A part with some content, as it goes out."""
    fields: dict[str, Any] = {name: each for name, each in content.items() if each is not UNSET}
    if part.metadata:
        fields["metadata"] = part.metadata
    if part.filename:
        fields["filename"] = part.filename
    if part.media_type:
        fields["mediaType"] = part.media_type
    return fields
