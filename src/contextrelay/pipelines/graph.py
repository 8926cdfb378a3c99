"""Graphs of a run: the status of each step of a pipeline, and the dependencies between steps.

A run has one graph, and another graph for each pipeline that a step includes. The keys of included
steps are prefixed with the name of the step that includes them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from contextrelay.model.pipeline import StepView
from contextrelay.model.run import FINAL, StepStatus
from contextrelay.pipelines.language import PipelineGraph, RunBudget, Step, values_in
from contextrelay.pipelines.record import ExceededBudget, RunSpent
from contextrelay.pipelines.steps.values import Scope, StepSummary


class StepResult(NamedTuple):
    """The result of a step, or of one item of a fan-out."""

    status: StepStatus
    ref: str | None = None
    by: str = ""
    reason: str = ""
    hint: str = ""


class GraphNode:
    """A step in a graph, with its status and its dependencies."""

    def __init__(self, step: Step, prefix: str) -> None:
        self.step = step
        self.key = f"{prefix}{step.name}"
        self.status: StepStatus = "pending"
        self.result = StepResult("pending")
        self.items: list[Any] = []
        self.results: dict[int, StepResult] = {}
        self.begun = 0
        """The number of items of a fan-out that were started."""

    @property
    def is_fan_out(self) -> bool:
        return self.step.foreach is not None

    @property
    def under_way(self) -> int:
        return self.begun - len(self.results)

    def joined(self) -> tuple[StepResult, list[str | None] | None]:
        """Return the result of a completed fan-out, and the refs of its items in the order of the
        items.
        """
        results = [self.results[index] for index in range(len(self.items))]
        failed = [each for each in results if each.status == "failed"]
        reason = ""
        if failed:
            reason = f"{len(failed)} of {len(results)} items failed: {failed[0].reason}"
        if failed and (self.step.on_failure == "stop" or len(failed) == len(results)):
            return StepResult("failed", reason=reason, hint=failed[0].hint), None
        return StepResult("done", reason=reason), [each.ref for each in results]

    def unit_key(self, index: int | None) -> str:
        return self.key if index is None else f"{self.key}[{index}]"


class Graph:
    """The steps of one pipeline in a run, with their status."""

    def __init__(
        self,
        pipeline: PipelineGraph,
        inputs: dict[str, Any],
        prefix: str,
        parent: Unit | None,
        budget: RunBudget,
    ) -> None:
        self.pipeline, self.inputs, self.parent = pipeline, inputs, parent
        self.prefix = prefix
        self.budget, self.spent, self.began_s = budget, RunSpent(), time.monotonic()
        self.nodes = {name: GraphNode(step, prefix) for name, step in pipeline.steps.items()}
        self.followers: dict[str, list[str]] = {name: [] for name in self.nodes}
        self.open_needs = {name: len(step.needs) for name, step in pipeline.steps.items()}
        for name, step in pipeline.steps.items():
            for need in step.needs:
                self.followers[need].append(name)
        self.left = len(self.nodes)
        """The number of steps that have not ended."""

    def scope(self, run: str, name: str, step: Step, item: Any = None) -> Scope:
        """Return the scope in which a step looks up values. The scope has only the steps that this
        step needs.
        """
        steps = {
            need: StepSummary(node.status, node.result.ref, node.result.by or None, node.is_fan_out)
            for need in step.needs
            if (node := self.nodes[need]).status in FINAL
        }
        return Scope(self.inputs, steps, {"id": run, "name": name}, item)

    def leaves(self) -> list[GraphNode]:
        """Return the steps on which no other step depends. Their results are the result of the
        pipeline.
        """
        return [node for name, node in self.nodes.items() if not self.followers[name]]

    def ended(self) -> tuple[StepResult, dict[str, str | None] | None]:
        """Return the result of the step that includes this pipeline.

        If several steps are last, also return their refs by name, otherwise None.
        """
        if failures := self.failures():
            first = failures[0].result
            reason = f"{failures[0].key} failed: {first.reason}"
            return StepResult("failed", reason=reason, hint=first.hint), None
        leaves = self.leaves()
        if len(leaves) == 1:
            return StepResult("done", leaves[0].result.ref), None
        return StepResult("done"), {node.step.name: node.result.ref for node in leaves}

    def spend(self, view: StepView) -> None:
        """Add the cost of a step to this pipeline and to the pipelines that include it."""
        self.spent.add(view)
        if self.parent is not None:
            self.parent.graph.spend(view)

    def exceeded(self) -> ExceededBudget | None:
        """Return the exceeded budget of this pipeline, or of a pipeline that includes it, or
        None.
        """
        if over := self.spent.exceeded(self.budget):
            return self._named(over)
        above = None if self.parent is None else self.parent.graph.exceeded()
        return self.time_is_up() or above

    def time_is_up(self) -> ExceededBudget | None:
        time_s = self.budget.time_s
        if time_s is None or time.monotonic() - self.began_s <= time_s:
            return None
        return self._named(
            ExceededBudget("time", f"time limit exceeded: {time_s:g} s", f"{2 * time_s:g}s")
        )

    def _named(self, over: ExceededBudget) -> ExceededBudget:
        name = f"{self.prefix[:-1]}: " if self.prefix else ""
        return over._replace(text=name + over.text)

    def failures(self) -> list[GraphNode]:
        """Return the steps that made the pipeline fail."""
        return [
            node
            for node in self.nodes.values()
            if node.status == "failed" and node.step.on_failure == "stop"
        ]


class Unit(NamedTuple):
    """A unit of work: a step, or one item of a fan-out."""

    graph: Graph
    node: GraphNode
    item_index: int | None = None

    @property
    def key(self) -> str:
        return self.node.unit_key(self.item_index)

    @property
    def item(self) -> Any:
        return None if self.item_index is None else self.node.items[self.item_index]


def never_runs(step: Step, pipeline: PipelineGraph, status: Mapping[str, str]) -> str:
    """Return the reason why a step can no longer run, or "". `status` has every step that has
    ended.
    """
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


def _failed_before(step: Step, pipeline: PipelineGraph, status: Mapping[str, str]) -> str:
    """Return the failed step that prevents a step, directly or through skipped steps, or ""."""
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
            # A condition skips a step only if no failure prevents the step, so only failures are
            # found here.
            to_check += reversed(pipeline.steps[need].needs)
    return ""


_BOX_WIDTH, _BOX_HEIGHT, _GAP_ACROSS, _GAP_DOWN, _EDGE = 168, 40, 24, 36, 12
