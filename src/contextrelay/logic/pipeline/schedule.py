"""What is to be done next in a run of a pipeline, by what became of its steps so far.

Rule: the same states lead to the same decision, so a run that was killed goes on as it would have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from contextrelay.logic.pipeline.language import Pipeline, Step, values_in

Status = Literal["pending", "running", "waiting", "done", "failed", "skipped"]
"""`waiting`: for somebody to approve. The last three are final."""
FINAL: tuple[Status, ...] = ("done", "failed", "skipped")


class Decision(NamedTuple):
    """What may begin now, and what will not be run, with the reason."""

    ready: list[str]
    skipped: dict[str, str]

    def is_over(self, pipeline: Pipeline, status: Mapping[str, Status]) -> bool:
        """Whether nothing is left to do and nothing is under way."""
        left = [name for name in pipeline.steps if status.get(name, "pending") not in FINAL]
        return all(name in self.skipped for name in left)


def decide(pipeline: Pipeline, status: Mapping[str, Status]) -> Decision:
    """Look at every step that has not begun."""
    ready: list[str] = []
    skipped: dict[str, str] = {}
    now: dict[str, Status] = {name: status.get(name, "pending") for name in pipeline.steps}
    for name, step in pipeline.steps.items():  # in order: what comes before was looked at
        if now[name] != "pending":
            continue
        reason = _never_runs(step, pipeline, now)
        if reason:
            skipped[name], now[name] = reason, "skipped"
        elif all(now[need] in FINAL for need in step.needs):
            ready.append(name)
    return Decision(ready, skipped)


def _never_runs(step: Step, pipeline: Pipeline, now: Mapping[str, Status]) -> str:
    """Why a step can no longer be run; empty where it still can."""
    uses = {
        str(value.path[0])
        for value in values_in(step)
        if value.root == "steps" and value.path[1] != "status"
    }
    for need in step.needs:
        if now[need] == "failed" and pipeline.steps[need].on_failure == "stop":
            return f"{need} failed"
        if now[need] == "skipped" and need in uses:
            return f"{need} was skipped"
        if now[need] == "failed" and need in uses:
            return f"{need} failed and has no result"
    return ""
