"""Definitions: a pipeline's file with the files that it includes, read, checked and kept as one."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import UNSET, DecodeError, Struct, ValidationError
from msgspec.json import decode
from msgspec.structs import replace

from contextrelay.documents.bounds import check_json
from contextrelay.errors import Broken, Invalid, NotFound
from contextrelay.limits import PIPELINE_BYTES_MAX, STEP_JSON_BYTES_MAX
from contextrelay.model.pipeline import StepView
from contextrelay.pipelines.language import (
    Input,
    PipelineGraph,
    RunBudget,
    Step,
    check_input,
    read_pipeline,
    suggestion,
)
from contextrelay.pipelines.yaml_nodes import place_behind, refuse

PIPELINE_FILES_DEEP_MAX = 8


Hear = Callable[[StepView], object]
"""What is called with a step as it begins and ends."""
STDIN = "-"


class Definition(Struct, frozen=True):
    """What a run is made of, as it was when it began: so it can go on whatever became of files."""

    main: str
    files: dict[str, str]
    """Texts by path; `main` is one of them."""
    folder: str
    """Where these paths are looked for, if they do not begin at the root."""

    def pipelines(self) -> dict[str, PipelineGraph]:
        """Every pipeline, by the path of its file.

        Raises:
            Invalid: something in one of them is wrong.
        """
        return _Reader(lambda path: self.files[str(path)]).read(Path(self.main))


class Started(Struct, frozen=True):
    """What is stored of a run when it begins."""

    definition: Definition
    inputs: dict[str, Any]
    model: str | None = None
    """Answers every prompt, whatever the file says."""

    def pipelines(self) -> dict[str, PipelineGraph]:
        """Every pipeline by the path of its file, as this run has it."""
        pipelines = self.definition.pipelines()
        if self.model is None:
            return pipelines
        return {
            path: replace(
                each,
                steps={
                    name: replace(step, model=self.model) if step.kind == "prompt" else step
                    for name, step in each.steps.items()
                },
            )
            for path, each in pipelines.items()
        }


def read_started(body: bytes) -> Started:
    """What a run began with.

    Raises:
        Broken: it cannot be read.
    """
    try:
        return decode(body, type=Started)
    except (DecodeError, ValidationError) as error:
        raise Broken(
            f"the definition of the run cannot be read: {error}", "run it again"
        ) from error


class Setting(Struct, frozen=True, kw_only=True):
    """What a run is given besides its pipeline."""

    pipelines: dict[str, PipelineGraph]
    main: PipelineGraph
    folder: str
    inputs: dict[str, Any]
    parallel: int
    models: dict[str, str]
    """For each model that steps name, "" for none: the one that answers, as PROVIDER:MODEL."""
    address: str | None
    hear: Hear
    budget: RunBudget
    has_own_budget: bool
    """Whether the budget was given when the run was gone on with: it is then the only one."""


def load(path: str | os.PathLike[str]) -> Definition:
    """Read a file and all that it includes, and check them.

    Raises:
        NotFound: there is no such file.
        Invalid: something in one of them is wrong; with file, line and column.
    """
    main = Path(path)
    reader = _Reader(read_text)
    reader.read(main)
    return Definition(str(main), reader.files, os.getcwd())


def with_included(made: Definition) -> Definition:
    """A definition that was made in code, with the files that it includes."""
    reader = _Reader(lambda path: made.files.get(str(path)) or read_text(path))
    reader.read(Path(made.main))
    return replace(made, files=reader.files)


def read_text(path: Path) -> str:
    """What a file says; of one that is too long the beginning.

    Raises:
        NotFound: there is no such file.
        Invalid: it cannot be read, or is no text.
    """
    if str(path) == STDIN:
        return sys.stdin.buffer.read(PIPELINE_BYTES_MAX + 1).decode(errors="replace")
    try:
        # A pipe would be waited for.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Invalid(f"{path} is no file", "give the path of a pipeline")
            raw = file.read(PIPELINE_BYTES_MAX + 1)
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {path}", "give the path of a pipeline") from error
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}", "check the path") from error
    if len(raw) > PIPELINE_BYTES_MAX:
        return raw.decode(errors="replace")  # Too long, which the reader of it says.
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        place = place_behind(raw[: error.start].decode())
        refuse(str(path), place, f"no UTF-8: {error.reason}", "save it as UTF-8")


class _Reader:
    """Reads pipelines, each once, and refuses one that includes itself."""

    def __init__(self, text_of: Callable[[Path], str]) -> None:
        self._text_of = text_of
        self.files: dict[str, str] = {}
        self._read: dict[str, PipelineGraph] = {}

    def read(self, main: Path) -> dict[str, PipelineGraph]:
        self._pipeline(main, ())
        return self._read

    def _pipeline(self, path: Path, above: tuple[str, ...]) -> PipelineGraph:
        name = str(path)
        if name in self._read:
            return self._read[name]
        self.files[name] = self._text_of(path)
        pipeline = read_pipeline(self.files[name], name)
        for step in pipeline.steps.values():
            if step.kind == "pipeline":
                self._included(pipeline, step, (*above, name))
        self._read[name] = pipeline
        return pipeline

    def _included(self, pipeline: PipelineGraph, step: Step, above: tuple[str, ...]) -> None:
        path, node = included_path(pipeline, step), pipeline.nodes[step.name]
        place = node.field("pipeline")
        if str(path) in above:
            chain = " includes ".join((*above[above.index(str(path)) :], str(path)))
            refuse(pipeline.file, place, f"a cycle: {chain}", "take this step out")
        if len(above) >= PIPELINE_FILES_DEEP_MAX:
            deep = f"more than {PIPELINE_FILES_DEEP_MAX} files deep"
            refuse(pipeline.file, place, deep, "put steps into one file")
        try:
            inner = self._pipeline(path, above)
        except NotFound as error:
            refuse(pipeline.file, place, f"the step {step.name}: {error.message}", error.hint)
        given: Mapping[str, Any] = step.args or {}
        for name in given:
            if name not in inner.inputs:
                meant = suggestion(name, inner.inputs or ["none"])
                at = node.value["inputs"].keys[name]
                refuse(pipeline.file, at, f"{inner.name} has no input {name!r}", meant)
        for taken in inner.inputs.values():
            if taken.default is UNSET and taken.name not in given:
                hint = f"add inputs: {{{taken.name}: ...}}"
                at = node.field("inputs")
                refuse(pipeline.file, at, f"{inner.name} needs {taken.name}", hint)


def included_path(pipeline: PipelineGraph, step: Step) -> Path:
    """The file that a step includes, next to its own."""
    return Path(os.path.normpath(Path(pipeline.file).parent / step.target))


def check_inputs(pipeline: PipelineGraph, given: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a run, with defaults.

    Raises:
        Invalid: one is not known, missing, or of another type.
    """
    for name in given:
        if name not in pipeline.inputs:
            meant = suggestion(name, pipeline.inputs or ["none"])
            raise Invalid(f"{pipeline.name} has no input {name!r}", meant)
    inputs: dict[str, Any] = {}
    for name, taken in pipeline.inputs.items():
        if name in given:
            inputs[name] = check_input(taken, given[name])
        elif taken.default is UNSET:
            raise Invalid(f"the input {name} is missing", f"give it: --input {name}=VALUE")
        else:
            inputs[name] = taken.default
    check_json(inputs, f"an input of {pipeline.name}", STEP_JSON_BYTES_MAX)
    return inputs


def typed_input(taken: Input | None, text: str) -> Any:
    """A value as somebody types it, read as the input's type; what cannot be is left a text."""
    if taken is None or taken.type in ("text", "ref"):
        return text
    if taken.type == "list" and not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",")] if text else []
    return typed(text)


def typed(text: str) -> Any:
    """A value as somebody types it: JSON, or else a text."""
    try:
        return decode(text)
    except (DecodeError, RecursionError):
        return text
