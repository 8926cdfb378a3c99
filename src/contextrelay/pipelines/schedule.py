"""Whether a step may run once all that it needs is over, by what became of those steps.

Rule: the same states lead to the same decision, so a run that was killed goes on as it would have.
"""

from __future__ import annotations

from collections.abc import Mapping

from contextrelay.pipelines.language import Pipeline, Step, values_in


def never_runs(step: Step, pipeline: Pipeline, status: Mapping[str, str]) -> str:
    """Return why a step can no longer run, or an empty string. `status` has all that is over."""
    uses = {
        str(value.path[0])
        for value in values_in(step)
        if value.root == "steps" and value.path[1] != "status"
    }
    if failed := _failed_before(step, pipeline, status):
        return f"{failed} failed"
    for need in step.needs:
        if status[need] == "skipped" and need in uses:
            return f"{need} was skipped"
        if status[need] == "failed" and need in uses:
            return f"{need} failed and has no result"
    return ""


def _failed_before(step: Step, pipeline: Pipeline, status: Mapping[str, str]) -> str:
    """Return the failed step that stops this one, also through steps that it skipped."""
    to_check = list(reversed(step.needs))
    seen: set[str] = set()
    while to_check:
        need = to_check.pop()
        if need in seen:
            continue
        seen.add(need)
        if status[need] == "failed" and pipeline.steps[need].on_failure == "stop":
            return need
        if status[need] == "skipped":
            # A condition skips a step only if nothing stops it, so this finds failures alone.
            to_check += reversed(pipeline.steps[need].needs)
    return ""
