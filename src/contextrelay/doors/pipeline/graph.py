"""Graphs of a run: how each step of a pipeline stands, and which have to wait for which.

A run has one graph, and one more for each pipeline that a step includes; the steps of an included
one have the name of that step in front of theirs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from contextrelay.doors.pipeline.steps.values import Known, Scope
from contextrelay.logic.pipeline.language import Pipeline, Step
from contextrelay.model.runs.step import FINAL, StepStatus


class Result(NamedTuple):
    """How a step, or an item of a fan-out, ended."""

    status: StepStatus
    ref: str | None = None
    by: str = ""
    reason: str = ""


class Node:
    """One step of a graph."""

    def __init__(self, step: Step, prefix: str) -> None:
        self.step = step
        self.key = f"{prefix}{step.name}"
        self.status: StepStatus = "pending"
        self.result = Result("pending")
        self.items: list[Any] = []
        self.results: dict[int, Result] = {}
        self.begun = 0
        """How many items were begun."""

    @property
    def is_fan_out(self) -> bool:
        return self.step.foreach is not None

    @property
    def under_way(self) -> int:
        return self.begun - len(self.results)

    def joined(self) -> tuple[Result, list[str | None] | None]:
        """How a fan-out ends whose items are all over: their refs, in order, are its result."""
        results = [self.results[index] for index in range(len(self.items))]
        failed = [each for each in results if each.status == "failed"]
        if failed and (self.step.on_failure == "stop" or len(failed) == len(results)):
            reason = f"{len(failed)} of {len(results)} items failed: {failed[0].reason}"
            return Result("failed", reason=reason), None
        return Result("done"), [each.ref for each in results]

    def unit_key(self, index: int | None) -> str:
        return self.key if index is None else f"{self.key}[{index}]"


class Graph:
    """The steps of one pipeline in a run."""

    def __init__(
        self, pipeline: Pipeline, inputs: dict[str, Any], prefix: str, parent: Unit | None
    ) -> None:
        self.pipeline, self.inputs, self.parent = pipeline, inputs, parent
        self.prefix = prefix
        self.nodes = {name: Node(step, prefix) for name, step in pipeline.steps.items()}
        self.followers: dict[str, list[str]] = {name: [] for name in self.nodes}
        self.open_needs = {name: len(step.needs) for name, step in pipeline.steps.items()}
        for name, step in pipeline.steps.items():
            for need in step.needs:
                self.followers[need].append(name)
        self.left = len(self.nodes)
        """How many steps are not over."""

    def scope(self, run: str, name: str, step: Step, item: Any = None) -> Scope:
        """What the values of a step are looked up in: what it needs, and no more."""
        steps = {
            need: Known(node.status, node.result.ref, node.result.by or None, node.is_fan_out)
            for need in step.needs
            if (node := self.nodes[need]).status in FINAL
        }
        return Scope(self.inputs, steps, {"id": run, "name": name}, item)

    def leaves(self) -> list[Node]:
        """The steps that no other follows: what they give is the pipeline's result."""
        return [node for name, node in self.nodes.items() if not self.followers[name]]

    def ended(self) -> tuple[Result, dict[str, str | None] | None]:
        """How the step ends that includes this pipeline: with what its last steps gave."""
        if failures := self.failures():
            reason = f"{failures[0].key} failed: {failures[0].result.reason}"
            return Result("failed", reason=reason), None
        leaves = self.leaves()
        if len(leaves) == 1:
            return Result("done", leaves[0].result.ref), None
        return Result("done"), {node.step.name: node.result.ref for node in leaves}

    def failures(self) -> list[Node]:
        """The steps because of which the pipeline failed."""
        return [
            node
            for node in self.nodes.values()
            if node.status == "failed" and node.step.on_failure == "stop"
        ]


class Unit(NamedTuple):
    """What is begun at once: a step, or one item of a fan-out."""

    graph: Graph
    node: Node
    item_index: int | None = None

    @property
    def key(self) -> str:
        return self.node.unit_key(self.item_index)

    @property
    def item(self) -> Any:
        return None if self.item_index is None else self.node.items[self.item_index]
