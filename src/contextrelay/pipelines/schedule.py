"""Whether a step may run once all that it needs is over, by what became of those steps.

Rule: the same states lead to the same decision, so a run that was killed goes on as it would have.
"""

from __future__ import annotations

from collections.abc import Mapping

from contextrelay.pipelines.language import Pipeline, Step, values_in


def never_runs(step: Step, pipeline: Pipeline, status: Mapping[str, str]) -> str:
    """Why a step can no longer be run; empty where it can."""
    uses = {
        str(value.path[0])
        for value in values_in(step)
        if value.root == "steps" and value.path[1] != "status"
    }
    for need in step.needs:
        if status[need] == "failed" and pipeline.steps[need].on_failure == "stop":
            return f"{need} failed"
        if status[need] == "skipped" and need in uses:
            return f"{need} was skipped"
        if status[need] == "failed" and need in uses:
            return f"{need} failed and has no result"
    return ""
