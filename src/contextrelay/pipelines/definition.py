"""Definitions: a pipeline file together with the files that it includes, read, checked and
stored.
"""

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
"""A callback that receives the view of a step when the step starts and when it ends."""
STDIN = "-"


class Definition(Struct, frozen=True):
    """The files of a run as they were when it started, so that the run can be resumed after they
    change.
    """

    main: str
    files: dict[str, str]
    """The contents of the files by path. The path `main` is one of the keys."""
    folder: str
    """The folder that relative paths are resolved against."""

    def pipelines(self) -> dict[str, PipelineGraph]:
        """Return every pipeline of the definition, by the path of its file.

        Raises:
            Invalid: a file is invalid.
        """
        return _Reader(lambda path: self.files[str(path)]).read(Path(self.main))


class Started(Struct, frozen=True):
    """The data that is stored when a run starts."""

    definition: Definition
    inputs: dict[str, Any]
    model: str | None = None
    """The model for every prompt, which overrides the pipeline file; None for the models in the
    file.
    """

    def pipelines(self) -> dict[str, PipelineGraph]:
        """Return every pipeline of the run, by the path of its file, with the model of this run."""
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
    """Decode the data that was stored when a run started.

    Raises:
        Broken: the data cannot be decoded.
    """
    try:
        return decode(body, type=Started)
    except (DecodeError, ValidationError) as error:
        raise Broken(
            f"cannot read the definition of the run: {error}", "run the pipeline again"
        ) from error


class Setting(Struct, frozen=True, kw_only=True):
    """The parameters of a run, except its pipeline."""

    pipelines: dict[str, PipelineGraph]
    main: PipelineGraph
    folder: str
    inputs: dict[str, Any]
    parallel: int
    models: dict[str, str]
    """Maps each model name that steps use to PROVIDER:MODEL. The name "" stands for the default
    model.
    """
    address: str | None
    hear: Hear
    budget: RunBudget
    has_own_budget: bool
    """True if the budget was overridden when the run was resumed. Budgets in files are then
    ignored.
    """


def load(path: str | os.PathLike[str]) -> Definition:
    """Read a pipeline file and all files that it includes, and check them.

    Raises:
        NotFound: a file does not exist.
        Invalid: a file is invalid; the message has the file, line and column.
    """
    main = Path(path)
    reader = _Reader(read_text)
    reader.read(main)
    return Definition(str(main), reader.files, os.getcwd())


def with_included(made: Definition) -> Definition:
    """Return a definition made in code together with the files that it includes."""
    reader = _Reader(lambda path: made.files.get(str(path)) or read_text(path))
    reader.read(Path(made.main))
    return replace(made, files=reader.files)


def read_text(path: Path) -> str:
    """Return the text of a file. If the file is too long, return only its beginning.

    Raises:
        NotFound: the file does not exist.
        Invalid: the file cannot be read, or is not text.
    """
    if str(path) == STDIN:
        return sys.stdin.buffer.read(PIPELINE_BYTES_MAX + 1).decode(errors="replace")
    try:
        # Reading a pipe would block until somebody writes to it.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Invalid(f"{path} is not a file", "pass the path of a pipeline file")
            raw = file.read(PIPELINE_BYTES_MAX + 1)
    except FileNotFoundError as error:
        raise NotFound(f"file not found: {path}", "pass the path of a pipeline file") from error
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}", "check the path") from error
    if len(raw) > PIPELINE_BYTES_MAX:
        return raw.decode(errors="replace")  # The file is too long, which the YAML reader reports.
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        place = place_behind(raw[: error.start].decode())
        refuse(str(path), place, f"not valid UTF-8: {error.reason}", "save the file as UTF-8")


class _Reader:
    """A reader of pipelines that reads each file once and refuses circular includes."""

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
            refuse(pipeline.file, place, f"circular include: {chain}", "remove this step")
        if len(above) >= PIPELINE_FILES_DEEP_MAX:
            deep = f"more than {PIPELINE_FILES_DEEP_MAX} levels of included files"
            refuse(pipeline.file, place, deep, "merge some of the files")
        try:
            inner = self._pipeline(path, above)
        except NotFound as error:
            refuse(pipeline.file, place, f'step "{step.name}": {error.message}', error.hint)
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
                refuse(pipeline.file, at, f"missing input {taken.name!r} of {inner.name}", hint)


def included_path(pipeline: PipelineGraph, step: Step) -> Path:
    """Return the path of the file that a step includes. The path is relative to the file of the
    step.
    """
    return Path(os.path.normpath(Path(pipeline.file).parent / step.target))


def check_inputs(pipeline: PipelineGraph, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a run, with default values for missing ones.

    Raises:
        Invalid: an input is unknown, missing, or of the wrong type.
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
            raise Invalid(f"missing input {name!r}", f"pass it: --input {name}=VALUE")
        else:
            inputs[name] = taken.default
    check_json(inputs, f"an input of {pipeline.name}", STEP_JSON_BYTES_MAX)
    return inputs


def typed_input(taken: Input | None, text: str) -> Any:
    """Parse the text of an input by the type of the input. If it does not match the type, return
    the text.
    """
    if taken is None or taken.type in ("text", "ref"):
        return text
    if taken.type == "list" and not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",")] if text else []
    return typed(text)


def typed(text: str) -> Any:
    """Parse a text as JSON. If it is not valid JSON, return the text."""
    try:
        return decode(text)
    except (DecodeError, RecursionError):
        return text
