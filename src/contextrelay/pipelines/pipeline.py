"""Pipelines in Python: read from a file or built in code, then run, resumed, cancelled, decided."""

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
    """A graph of steps: `Pipeline.load("review.yaml").run(relay, {"topic": "orders"})`.

    Or the same in code: `Pipeline("review", inputs={"topic": "orders"})`, then `step` by step with
    the fields that a file has. What is wrong is refused when it is checked, before anything runs.
    """

    def __init__(self, name: str, **top: Any) -> None:
        self._document: dict[str, Any] = {"name": name, **top, "steps": {}}
        self._definition: Definition | None = None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a pipeline from a YAML file, with the files that it includes.

        Raises:
            NotFound: there is no such file.
            Invalid: something in it is wrong; with file, line and column.
        """
        pipeline = cls("")
        pipeline._definition = load(path)
        return pipeline

    def step(self, name: str, **fields: Any) -> Self:
        """Add a step: one of prompt, cli, exec, cap, python, pipeline, approve, and its fields."""
        if self._definition is not None:
            raise Invalid("this pipeline is a file's", "add the step to the file")
        if name in self._document["steps"]:
            raise Invalid(f"there is a step {name!r} already", "give this one another name")
        self._document["steps"][name] = fields
        return self

    def definition(self) -> Definition:
        """The files that it is made of, checked.

        Raises:
            Invalid: something in it is wrong.
        """
        if self._definition is not None:
            return self._definition
        # JSON is YAML too; the name of a file says where commands run: here.
        file = f"{self._document['name']}.json"
        try:
            text = format(encode(self._document)).decode()
        except TypeError as error:
            raise Invalid(f"a field has no form in JSON: {error}", "use plain values") from error
        made = Definition(file, {file: text}, os.getcwd())
        return with_included(made)

    def check(self) -> Checked:
        """The pipeline as it is run.

        Raises:
            Invalid: something in it is wrong.
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
        by: str = "you",
        hear: Hear | None = None,
    ) -> PipelineRun:
        """Run it to its end. `hear` is called with each step as it begins and ends.

        `on`: where its tasks are done, as `dask://host:8786`; else in this process. `model`: what
        answers every prompt, whatever the file says.

        Raises:
            Invalid: something in it, or an input, is wrong; nothing was run.
            RelayError: the store does not answer; go on with `resume`.
        """
        given = inputs or {}
        return Begun(relay, self, given, parallel=parallel, on=on, model=model, by=by).go(hear)


class Begun:
    """A run that is begun: it has a thread, and goes on by `go`."""

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
    """Where a relay is, for processes that open it; None for one in memory.

    Of a server of Redis or PostgreSQL it has the user, the password and the options, too.
    """
    if isinstance(relay.transport, Local):
        engine = relay.transport.stores.engine
        if engine.is_shared:
            return engine.url
        return None if engine.address == "memory:" else engine.address
    return relay.transport.server.url


def check_parallel(parallel: int) -> None:
    if not 1 <= parallel <= PIPELINE_PARALLEL_MAX:
        raise Invalid(f"{parallel} steps at once", f"take 1 to {PIPELINE_PARALLEL_MAX}")


def models_of(
    transport: Any,
    pipelines: Mapping[str, Checked],
    own_budget: RunBudget | None = None,
    is_run: bool = True,
) -> dict[str, str]:
    """The models that answer, as PROVIDER:MODEL, by what steps name.

    Without `is_run` a key that is missing here is no fault of the file.

    Raises:
        Invalid: there is no such provider; or the budget is a price, and that of one is not known.
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
                    f"the step {step.name}: the price of {models.get(named, model)} is not known",
                    "leave out budget: price:, take another model, or say its price: prices.json",
                )
    return models


def _answers(transport: Any, pipeline: Checked, step: Step, is_run: bool) -> str:
    """The model that answers a step."""
    try:
        provider = chosen_provider(transport, step.model)
    except Forbidden:
        if is_run:
            raise
        return step.model or ""
    except Invalid as error:
        place = pipeline.nodes[step.name].field("model")
        refuse(pipeline.file, place, f"the step {step.name}: {error.message}", error.hint)
    return f"{provider.name}:{provider.model}"


def runner_on(relay: Relay, parallel: int, on: str | None) -> Runner:
    if on is None:
        return Threads(relay, parallel)
    if not on.startswith(DASK):
        raise Invalid(
            f"there is no way to run on {on!r}", f"write {DASK}HOST:8786, or leave it out"
        )
    from contextrelay.pipelines.dask import Dask

    return Dask(relay, on, address_of(relay))
