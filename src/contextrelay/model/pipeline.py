"""Pipeline runs: the contents of their events, and the views of a run.

Rule: an event's `detail` is converted to one of these types when it is written and when it is
read. Stored events are untrusted: an invalid one makes its run `broken`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from contextrelay.limits import (
    EVENT_BYTES_MAX,
    LABEL_CHARS_MAX,
    NUMBER_MAX,
    PIPELINE_PARALLEL_MAX,
    STEP_KEY_CHARS_MAX,
)
from contextrelay.model.ref import Ref
from contextrelay.model.run import StepStatus

RunStatus = Literal["running", "done", "failed", "cancelled", "stopped", "killed", "broken"]
"""Statuses of a run. `stopped`: the budget is used up. `killed`: the process ended early. `broken`:
an event of the run is invalid.
"""
EndStatus = Literal["done", "failed", "cancelled", "stopped"]

DEFINITION_MEDIA_TYPE = "application/vnd.contextrelay.pipeline+json"

Count = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
Parallel = Annotated[int, Meta(ge=1, le=PIPELINE_PARALLEL_MAX)]
Price = Annotated[str, Meta(pattern=r"^[0-9]{1,12}(\.[0-9]{1,40})?$")]
Said = Annotated[str, Meta(max_length=EVENT_BYTES_MAX)]
_Name = Annotated[str, Meta(min_length=1, max_length=LABEL_CHARS_MAX)]


class RunnerProcess(Struct, frozen=True):
    """The process that runs a pipeline: its machine, its process id and its start time."""

    host: Said
    pid: Count
    began: Said


class RunStarted(Struct, frozen=True, kw_only=True):
    """The detail of `pipeline.started`, the first event of a run."""

    name: _Name
    definition: Ref
    sha256: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?$")] = ""
    """The hash of the definition's bytes; "" in runs started by earlier versions of Context Relay.
    """
    parallel: Parallel | None = None
    on: Said | None = None
    runner: RunnerProcess | None = None


class RunResumed(Struct, frozen=True, kw_only=True):
    """The detail of `pipeline.resumed`."""

    runner: RunnerProcess | None = None
    parallel: Parallel | None = None
    on: Said | None = None
    budget: dict[str, int | float | Said] = {}
    """Fields that replace those of the budget in the pipeline file."""


class RunEnded(Struct, frozen=True, kw_only=True):
    """The detail of `pipeline.finished`: how a run ended, and what the run used."""

    status: EndStatus
    reason: Said = ""
    hint: Said = ""
    steps: dict[str, Count] = {}
    """A dict that maps each status to the number of steps with that status."""
    tokens_in: Count = 0
    tokens_out: Count = 0
    price: Price | None = "0"
    duration_ms: Count | None = None
    """Duration of the run in milliseconds; None if a process other than the run's own ended the
    run.
    """


class StepDetail(Struct, frozen=True, kw_only=True):
    """The fields of the detail of `run.step` that Context Relay interprets."""

    step: Annotated[str, Meta(min_length=1, max_length=STEP_KEY_CHARS_MAX)]
    status: StepStatus
    ref: Ref | None = None
    caller: Said = ""
    """The name of the key that wrote the event, set by the store; "" for the store's owner."""
    kind: Said = ""
    reason: Said = ""
    hint: Said = ""
    question: Said = ""
    decided_by: Said = ""
    after: Count = 0
    """The seq of the newest signal in the channel when the step began to wait."""
    is_cached: bool = False
    tokens_in: Count = 0
    tokens_out: Count = 0
    price: Price | None = "0"
    duration_ms: Count = 0


class StepView(Struct, frozen=True, kw_only=True):
    """The current status of a step of a run."""

    step: str
    kind: str
    status: str
    ref: str | None = None
    """The ref of the step's result."""
    by: str = ""
    reason: str = ""
    hint: str = ""
    is_cached: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    price: str | None = "0"
    """The price of the step in US dollars; None if unknown."""
    duration_ms: int = 0


class PipelineRun(Struct, frozen=True, kw_only=True):
    """A run of a pipeline. `run` is the id of its thread; the refs of its steps are its results."""

    run: str
    name: str
    status: RunStatus
    reason: str = ""
    hint: str = ""
    steps: dict[str, StepView]
    tokens_in: int = 0
    tokens_out: int = 0
    price: str | None = "0"
    duration_ms: int = 0
    started_at: datetime | None = None

    @property
    def refs(self) -> dict[str, str]:
        """A dict that maps the names of steps to the refs of their results."""
        return {name: step.ref for name, step in self.steps.items() if step.ref is not None}
