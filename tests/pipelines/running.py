"""Pipelines for tests: written to a file and run, with what each step gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contextrelay import Pipeline, Relay
from contextrelay.model.pipeline import PipelineRun, StepView


def run(relay: Relay, folder: Path, text: str, /, parallel: int = 4, **inputs: Any) -> PipelineRun:
    """Run a pipeline whose steps are given, or the whole of it."""
    file = folder / "pipeline.yaml"
    file.write_text(text if text.startswith("name:") else f"name: test\n{text}")
    return Pipeline.load(file).run(relay, inputs, parallel=parallel)


def result(relay: Relay, ended: PipelineRun, step: str) -> str:
    """What a step gave, as text."""
    assert ended.steps[step].ref is not None, ended
    return relay.pull(ended.steps[step].ref or "").decode()


def statuses(ended: PipelineRun) -> dict[str, str]:
    return {name: view.status for name, view in ended.steps.items()}


def reason(ended: PipelineRun, step: str) -> str:
    view: StepView = ended.steps[step]
    return view.reason
