"""Steps of a pipeline's run: how each stands, as its events say."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from contextrelay.model.artifact import Artifact
from contextrelay.model.key import Key
from contextrelay.model.thread import Event

STEP_EVENT = "run.step"
"""How a step stands; `detail` holds `step`, `status`, `ref` and what the runner says of it."""

CALLER = "caller"
"""In that `detail`: the name of the key that wrote it, on a server."""

StepStatus = Literal["pending", "running", "waiting", "done", "failed", "skipped"]
"""`waiting`: for somebody to approve. The last three are final."""
FINAL: tuple[StepStatus, ...] = ("done", "failed", "skipped")


def caller_name(key: Key) -> str:
    """How a key is named in records: by its name, else its id."""
    return key.name or key.id


def writer(event: Event) -> str:
    """Who wrote an event: the key that the store knows, and the name that its holder gave."""
    caller = event.detail.get(CALLER)
    return named(caller, event.by) if caller and isinstance(caller, str) else event.by


def named(caller: str, label: str) -> str:
    """Who did it, and as whom: a name that one gives oneself stands behind the known one."""
    return caller if label in (caller, "you") else f"{caller} as {label}"


class FinishedStep(Struct, frozen=True, kw_only=True):
    """What became of a step: its result, if it has one."""

    artifact: Artifact | None
