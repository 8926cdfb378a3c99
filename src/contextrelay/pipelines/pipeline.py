"""Pipelines in Python: loaded from a file or built in code, then run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

from msgspec.json import encode, format
from msgspec.structs import replace

from contextrelay.client.relay import Relay
from contextrelay.client.transport.local import Local
from contextrelay.errors import Forbidden, Invalid
from contextrelay.limits import (
    PIPELINE_PARALLEL_DEFAULT,
    PIPELINE_PARALLEL_MAX,
)
from contextrelay.model.pipeline import PipelineRun
from contextrelay.pipelines.definition import (
    Definition,
    Hear,
    Setting,
    Started,
    check_inputs,
    load,
    with_included,
)
from contextrelay.pipelines.language import PipelineGraph as Checked
from contextrelay.pipelines.language import RunBudget, Step
from contextrelay.pipelines.record import RunRecord, follow, this_runner
from contextrelay.pipelines.run import ActiveRun, Runner, Threads
from contextrelay.pipelines.yaml_nodes import refuse
from contextrelay.runs.prices import price, prices_here
from contextrelay.runs.provider import Tokens
from contextrelay.runs.run import chosen_provider
from contextrelay.verbs import BeginPipeline

DASK = "dask://"


class Pipeline:
    """A graph of steps. For example: `Pipeline.load("review.yaml").run(relay, {"topic":
    "orders"})`.

    To build a pipeline in code, create `Pipeline("review", inputs={"topic": "orders"})` and call
    `step` with the fields of each step. Errors are raised when the pipeline is checked, before
    anything is run.
    """

    def __init__(self, name: str, **top: Any) -> None:
        self._document: dict[str, Any] = {"name": name, **top, "steps": {}}
        self._definition: Definition | None = None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a pipeline from a YAML file, with the files that it includes.

        Raises:
            NotFound: the file does not exist.
            Invalid: a file is invalid; the message has the file, line and column.
        """
        pipeline = cls("")
        pipeline._definition = load(path)
        return pipeline

    def step(self, name: str, **fields: Any) -> Self:
        """Add a step. `fields` has one of prompt, cli, exec, cap, python, pipeline and approve, and
        further fields of the step.
        """
        if self._definition is not None:
            raise Invalid(
                "cannot add a step to a pipeline loaded from a file", "add the step to the file"
            )
        if name in self._document["steps"]:
            raise Invalid(f"step {name!r} already exists", "use another name")
        self._document["steps"][name] = fields
        return self

    def definition(self) -> Definition:
        """Return the pipeline as a definition, the checked texts of its files.

        Raises:
            Invalid: the pipeline is invalid.
        """
        if self._definition is not None:
            return self._definition
        # JSON is valid YAML. The file name puts the pipeline in the current folder, where commands
        # are run.
        file = f"{self._document['name']}.json"
        try:
            text = format(encode(self._document)).decode()
        except TypeError as error:
            raise Invalid(
                f"a field is not JSON-serializable: {error}", "use values that JSON can represent"
            ) from error
        made = Definition(file, {file: text}, os.getcwd())
        return with_included(made)

    def check(self) -> Checked:
        """Return the checked graph of the pipeline.

        Raises:
            Invalid: the pipeline is invalid.
        """
        definition = self.definition()
        pipelines = definition.pipelines()
        models_of(None, pipelines, is_run=False)
        return pipelines[definition.main]

    def run(
        self,
        relay: Relay,
        inputs: Mapping[str, Any] | None = None,
        *,
        parallel: int = PIPELINE_PARALLEL_DEFAULT,
        on: str | None = None,
        model: str | None = None,
        by: str = "",
        hear: Hear | None = None,
    ) -> PipelineRun:
        """Run the pipeline to its end, and return the run. `hear` is called with each step when it
        starts and when it ends.

        `on`: where the tasks run, for example `dask://host:8786`; by default in this process.
        `model`: the model for every prompt, which overrides the file.

        Raises:
            Invalid: the pipeline or an input is invalid; nothing was run.
            RelayError: the store is not available; continue with `resume`.
        """
        given = inputs or {}
        return StartedRun(relay, self, given, parallel=parallel, on=on, model=model, by=by).go(hear)


class StartedRun:
    """A run that has been started: it has a thread, and `go` runs its steps to the end."""

    def __init__(
        self,
        relay: Relay,
        pipeline: Pipeline,
        inputs: Mapping[str, Any],
        *,
        parallel: int,
        on: str | None,
        model: str | None,
        by: str,
    ) -> None:
        started = Started(pipeline.definition(), dict(inputs), model)
        checked = started.pipelines()
        main = checked[started.definition.main]
        started = replace(started, inputs=check_inputs(main, inputs))
        check_parallel(parallel)
        models = models_of(relay.transport, checked)
        self._relay, self._parallel, self._on = relay, parallel, on
        self._runner = runner_on(relay, parallel, on)
        begin = BeginPipeline(
            name=main.name[:_NAME_CHARS_MAX],
            parallel=parallel,
            on=on,
            runner=this_runner(),
            by=by,
        )
        self.run = relay.transport.ask(begin, encode(started)).thread_id
        self.record = RunRecord(self.run)
        follow(relay, self.record)
        self._setting = setting_of(relay, started, checked, parallel, models)

    def go(self, hear: Hear | None) -> PipelineRun:
        return go(self._relay, self.record, self._setting, self._runner, hear)


_NAME_CHARS_MAX = 100


def setting_of(
    relay: Relay,
    started: Started,
    pipelines: dict[str, Checked],
    parallel: int,
    models: dict[str, str],
    own_budget: RunBudget | None = None,
) -> Setting:
    main = pipelines[started.definition.main]
    return Setting(
        pipelines=pipelines,
        main=main,
        budget=own_budget or main.budget,
        has_own_budget=own_budget is not None,
        folder=started.definition.folder,
        inputs=started.inputs,
        parallel=parallel,
        models=models,
        address=address_of(relay),
        hear=lambda view: None,
    )


def go(
    relay: Relay, record: RunRecord, setting: Setting, runner: Runner, hear: Hear | None
) -> PipelineRun:
    heard = setting if hear is None else replace(setting, hear=hear)
    return ActiveRun(relay, record, heard, runner).go()


def address_of(relay: Relay) -> str | None:
    """Return the address with which another process can open a relay, or None for a store in
    memory.

    For Redis and PostgreSQL, the address includes the user, the password and the options.
    """
    if isinstance(relay.transport, Local):
        engine = relay.transport.stores.engine
        if engine.is_shared:
            return engine.url
        return None if engine.address == "memory:" else engine.address
    return relay.transport.server.url


def check_parallel(parallel: int) -> None:
    if not 1 <= parallel <= PIPELINE_PARALLEL_MAX:
        raise Invalid(
            f"invalid number of parallel steps: {parallel}", f"use 1 to {PIPELINE_PARALLEL_MAX}"
        )


def models_of(
    transport: Any,
    pipelines: Mapping[str, Checked],
    own_budget: RunBudget | None = None,
    is_run: bool = True,
) -> dict[str, str]:
    """Return the models as PROVIDER:MODEL, by the names that steps use.

    If `is_run` is False, a missing API key is not an error.

    Raises:
        Invalid: a provider is unknown, or there is a price budget and the price of a model is
            unknown.
    """
    models: dict[str, str] = {}
    budgets = [own_budget] if own_budget else [each.budget for each in pipelines.values()]
    has_price = any(each.price is not None for each in budgets)
    prices = prices_here(os.environ)
    for pipeline in pipelines.values():
        for step in pipeline.steps.values():
            named, model, node = step.model or "", step.target, pipeline.nodes[step.name]
            if step.kind == "prompt":
                if named not in models:
                    models[named] = _answers(transport, pipeline, step, is_run)
                model = models[named].partition(":")[2]
            elif step.kind != "cli":
                continue
            if has_price and model and price(Tokens(), model, prices) is None:
                refuse(
                    pipeline.file,
                    node.field("model" if step.kind == "prompt" else "cli"),
                    f'step "{step.name}": unknown price of {models.get(named, model)}',
                    "remove price: from the budget, use another model, or add its price to "
                    "prices.json",
                )
    return models


def _answers(transport: Any, pipeline: Checked, step: Step, is_run: bool) -> str:
    """Return the model that answers the prompt of a step, as PROVIDER:MODEL."""
    try:
        provider = chosen_provider(transport, step.model)
    except Forbidden:
        if is_run:
            raise
        return step.model or ""
    except Invalid as error:
        place = pipeline.nodes[step.name].field("model")
        refuse(pipeline.file, place, f'step "{step.name}": {error.message}', error.hint)
    return f"{provider.name}:{provider.model}"


def runner_on(relay: Relay, parallel: int, on: str | None) -> Runner:
    if on is None:
        return Threads(relay, parallel)
    if not on.startswith(DASK):
        raise Invalid(f"unknown runner {on!r}", f"use {DASK}HOST:8786, or omit it")
    from contextrelay.pipelines.dask import Dask

    return Dask(relay, on, address_of(relay))
