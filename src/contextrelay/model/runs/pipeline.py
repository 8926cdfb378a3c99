"""Runs of pipelines, as they are shown."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

RunStatus = Literal["running", "done", "failed", "cancelled", "stopped", "killed"]
"""`stopped`: its budget is used up. `killed`: its process ended before it did."""


class StepView(Struct, frozen=True, kw_only=True):
    """A step of a run as it stands, or as it has just become."""

    step: str
    kind: str
    status: str
    ref: str | None = None
    """Of its result."""
    by: str = ""
    reason: str = ""
    hint: str = ""
    is_cached: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    price: str | None = "0"
    """In US dollars; None where it is not known."""
    duration_ms: int = 0


class PipelineRun(Struct, frozen=True, kw_only=True):
    """A run of a pipeline: its thread is `run`, its results are behind the refs of its steps."""

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
        """The refs of results, by step."""
        return {name: step.ref for name, step in self.steps.items() if step.ref is not None}
