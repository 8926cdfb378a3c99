"""The runner of a pipeline. It starts steps whose dependencies have ended, until no step is left.

Rule: only one thread decides at a time, under the lock of the run. This is either the thread whose
task has just ended, so that a chain of steps continues in one thread, or the thread of the run. All
state comes from the events of the run, so a run that was killed at any moment resumes where its
events end.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Lock, local
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from contextrelay.client.relay import Relay
from contextrelay.errors import Conflict, NotFound, RelayError
from contextrelay.limits import RUN_LOOK_S
from contextrelay.model.pipeline import PipelineRun, RunStatus, StepView
from contextrelay.model.run import StepStatus, writer_name
from contextrelay.pipelines.approval import Waits
from contextrelay.pipelines.completion import (
    OF_THE_STORE,
    LongTasks,
    failed,
    result_of,
    write_end,
    write_run_end,
)
from contextrelay.pipelines.definition import Setting, check_inputs, included_path
from contextrelay.pipelines.graph import Graph, GraphNode, StepResult, Unit, never_runs
from contextrelay.pipelines.language import PipelineGraph, RunBudget, Step, suggestion
from contextrelay.pipelines.record import CANCEL, ExceededBudget, RunRecord, StepRecord, follow
from contextrelay.pipelines.steps.child import end_leftovers
from contextrelay.pipelines.steps.kinds import TRIES
from contextrelay.pipelines.steps.python_pool import PythonPool
from contextrelay.pipelines.steps.task import Task, Workplace, perform
from contextrelay.pipelines.steps.values import Scope, Values
from contextrelay.pipelines.views import all_views, next_step, paid, reasons, view_of
from contextrelay.runs.prices import since_ms

_PART = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)(?:\[([0-9]{1,6})\])?")
_ENDS = re.compile(r"[\[/]")


class _Part(NamedTuple):
    """One part of a step key, for example `review[3]` in `sub/review[3]/plan`, and the step of this
    part.
    """

    pipeline: PipelineGraph
    prefix: str
    step: Step
    has_index: bool
    key: str


def run_again(
    key: str,
    main: PipelineGraph,
    pipelines: Mapping[str, PipelineGraph],
    steps: Mapping[str, StepRecord],
) -> list[str]:
    """Return the keys of the steps to run again. A step comes before the steps that it depends on.

    This order makes a crash safe: no finished step ever depends on an unfinished one. If the key
    names a part of a step, the failed parts of that step are run again too.

    Raises:
        NotFound: there is no such step, or no such part of a step.
    """
    parts = _parts(key, main, pipelines)
    if parts[-1].has_index and not any(each == key or each.startswith(f"{key}/") for each in steps):
        begun = [
            each for each in steps if each.startswith(f"{parts[-1].prefix}{parts[-1].step.name}[")
        ]
        hint = (
            f"started items: {begun[0]} to {begun[-1]}"
            if begun
            else "none of its items was started"
        )
        raise NotFound(f"item {key} was not started", hint)
    seeds = [parts]
    if len(parts) > 1 or parts[0].has_index:
        top = parts[0].step.name
        seeds += (
            _parts(each, main, pipelines)
            for each, record in steps.items()
            if record.status == "failed" and each != top and _ENDS.split(each)[0] == top
        )
    wholes, holders = set[str](), set[str]()
    followers: dict[tuple[str, str], list[str]] = {}
    for seed in seeds:
        for part in seed:
            at = (part.pipeline.file, part.step.name)
            if at not in followers:
                followers[at] = _followers(part.pipeline, part.step.name)
            wholes.update(part.prefix + name for name in followers[at])
            holders.update((part.prefix + part.step.name, part.key))
        wholes.add(seed[-1].key)
    # The record of a step comes after those of all steps that it depends on, and after those of its
    # parts.
    return [each for each in reversed(list(steps)) if each in holders or _is_in(each, wholes)]


def _parts(key: str, main: PipelineGraph, pipelines: Mapping[str, PipelineGraph]) -> list[_Part]:
    found: list[_Part] = []
    pipeline, prefix = main, ""
    for text in key.split("/"):
        if found:
            above = found[-1]
            if above.step.kind != "pipeline":
                raise NotFound(f"{key} not found: {above.key} has no nested steps", _SHOW)
            if above.step.foreach is not None and not above.has_index:
                raise NotFound(f"{key} not found", f"name an item: {above.key}[0]/{text}")
            pipeline = pipelines[str(included_path(pipeline, above.step))]
            prefix = f"{above.key}/"
        match = _PART.fullmatch(text)
        step = None if match is None else pipeline.steps.get(match[1])
        if match is None or step is None:
            near = suggestion(_ENDS.split(text)[0], pipeline.steps)
            raise NotFound(f"unknown step {key!r}", near)
        if match[2] is not None and step.foreach is None:
            raise NotFound(f"{key} not found: {prefix}{step.name} has no items", _SHOW)
        found.append(_Part(pipeline, prefix, step, match[2] is not None, f"{prefix}{text}"))
    return found


_SHOW = "see: relay pipeline show RUN"


def _followers(pipeline: PipelineGraph, name: str) -> list[str]:
    """Return the names of the steps that depend on a step, directly or indirectly."""
    again = {name}
    # The steps are in topological order, so the dependencies of a step come first.
    for each, step in pipeline.steps.items():
        if again.intersection(step.needs):
            again.add(each)
    return sorted(again - {name})


def _is_in(key: str, wholes: set[str]) -> bool:
    """Return True if a key is in a set of keys, or is a part of one of these keys."""
    return key in wholes or any(key[: end.start()] in wholes for end in _ENDS.finditer(key))


WHEN = "when: does not hold"


class ActiveRun:
    """A run of a pipeline that is active in this process."""

    def __init__(self, relay: Relay, record: RunRecord, setting: Setting, runner: Runner) -> None:
        self._relay, self._record, self._setting = relay, record, setting
        self._runner = runner
        self._reports: SimpleQueue[tuple[Unit, StepView | BaseException]] = SimpleQueue()
        self._lock, self._woken = Lock(), Event()
        self._ready: deque[Unit] = deque()
        self._opened: deque[tuple[Graph, GraphNode]] = deque()
        self._under_way = 0
        self._waits = Waits(relay, record.run)
        self._lasting = LongTasks(relay, record.run)
        self._looked_s = time.monotonic()
        self._is_stopped = self._is_cancelled = False
        """Both are set when no new step may be started."""
        self._end: tuple[RunStatus, str] | None = None
        self._over: ExceededBudget | None = None
        self._error: BaseException | None = None
        self._hear_error: Exception | None = None
        self._views: dict[str, StepView] = {}
        self._graph = Graph(setting.main, setting.inputs, "", None, setting.budget)
        self._graph.began_s -= record.used_s
        self._timed: list[Graph] = []

    # The loop

    def go(self) -> PipelineRun:
        """Run the pipeline to its end and return the result.

        Raises:
            Conflict: another process has taken over the run.
            RelayError: the store is not available.
            Exception: the callback `hear` raised it; the run itself was completed.
        """
        for key, record in self._record.steps.items():
            if record.status != "running":
                self._views[key] = view_of(key, record)
        try:
            self._begin_graph(self._graph)
            while True:
                try:
                    with self._lock:
                        self._look()
                        self._process_reports()
                        if self._is_over():
                            break
                    self._decide()
                    self._woken.wait(max(0.0, self._looked_s + RUN_LOOK_S - time.monotonic()))
                    self._woken.clear()
                except KeyboardInterrupt:
                    if self._is_cancelled:
                        raise
                    self.cancel("interrupted")
        finally:
            self._runner.close()
        if self._error is not None:
            raise self._error
        result = self._finish()
        if self._hear_error is not None:
            self._hear_error.add_note(
                f"run {result.run} continued without the callback: {result.status}"
            )
            raise self._hear_error
        return result

    def _is_over(self) -> bool:
        if self._under_way or self._opened:
            return False
        return self._is_stopped or not (self._ready or self._waits)

    def _decide(self) -> None:
        """Process the reports of ended tasks, unless another thread is already processing them."""
        while not self._reports.empty() and self._lock.acquire(blocking=False):
            try:
                self._process_reports()
            except BaseException as error:
                self._error = self._error or error
                self._stop()
            finally:
                if self._error is not None or self._is_over():
                    self._woken.set()
                self._lock.release()

    def _process_reports(self) -> None:
        """Process the reports of ended tasks, and start the steps that can start now."""
        while not self._reports.empty():
            unit, outcome = self._reports.get()
            self._under_way -= 1
            self._take(unit, outcome)
        self._open_all()
        self._pump()

    def _take(self, unit: Unit, outcome: StepView | BaseException) -> None:
        self._lasting.ended(unit)
        if isinstance(outcome, Conflict):
            # Another worker ended the task first, for example a worker that was considered lost.
            # Its record counts.
            follow(self._relay, self._record)
            before = self._record.steps.get(unit.key)
            if before is not None and before.is_final:
                outcome = view_of(unit.key, before)
        if isinstance(outcome, BaseException):
            # A result that could not be recorded does not count.
            self._error = self._error or outcome
            self._stop()
            return
        # A worker may notice a cancellation before this process does.
        if outcome.status == "cancelled":
            self._end = self._end or ("cancelled", outcome.reason)
            self._stop()
            return
        unit.graph.spend(outcome)
        self._call_back(outcome)
        status: Any = outcome.status
        self._ended(unit, StepResult(status, outcome.ref, outcome.by, outcome.reason, outcome.hint))
        self._check_budget(unit.graph)

    def _look(self) -> None:
        """Check for cancellations, decisions and exceeded time limits."""
        if time.monotonic() < self._looked_s + RUN_LOOK_S:
            return
        self._waits.listen()
        for numbered in follow(self._relay, self._record):
            if numbered.event.type == CANCEL:
                self.cancel(f"cancelled by {writer_name(numbered.event)}")
        for unit, decided in self._waits.decided(self._record):
            self._call_back(view_of(unit.key, decided))
            self._ended(unit, result_of(decided))
        for graph in self._timed:
            if graph.left and (over := graph.time_is_up()):
                self._past(over)
                self._runner.stop()
        self._lasting.show()
        self._looked_s = time.monotonic()

    def cancel(self, reason: str) -> None:
        """Cancel the run. Running steps are stopped, and run again when the run is resumed."""
        self._end = self._end or ("cancelled", reason)
        self._is_cancelled = True
        self._stop()

    def _stop(self) -> None:
        self._is_stopped = True
        self._runner.stop()

    # Starting steps

    def _begin_graph(self, graph: Graph) -> None:
        """Apply the recorded ends of steps to a graph, and start the steps that can start."""
        if graph.budget.time_s is not None:
            self._timed.append(graph)
        if not graph.prefix or graph.budget != RunBudget():
            for view in paid(self._record):
                if view.step.startswith(graph.prefix):
                    graph.spent.add(view)
        for name, node in graph.nodes.items():
            before = self._record.steps.get(node.key)
            if before is not None and before.is_final:
                node.result = result_of(before)
                node.status = node.result.status
                graph.left -= 1
                for follower in graph.followers[name]:
                    graph.open_needs[follower] -= 1
        for name, node in graph.nodes.items():
            if node.status == "pending" and not graph.open_needs[name]:
                self._opened.append((graph, node))
        self._check_budget(graph)
        if not graph.left:
            self._graph_over(graph)

    def _open_all(self) -> None:
        while self._opened:
            graph, node = self._opened.popleft()
            try:
                if node.status == "running":
                    self._fill(graph, node)
                elif node.status == "pending" and not self._is_stopped:
                    self._open(graph, node)
            except OF_THE_STORE:
                raise
            except RelayError as error:
                self._write_end(Unit(graph, node), failed(error))

    def _open(self, graph: Graph, node: GraphNode) -> None:
        """Start or skip a step whose dependencies have all ended."""
        step = node.step
        status = {name: each.status for name, each in graph.nodes.items()}
        reason = never_runs(step, graph.pipeline, status)
        values = self._values(Unit(graph, node))
        if reason or not (step.is_filtered or values.hold(step.when)):
            self._write_end(Unit(graph, node), StepResult("skipped", reason=reason or WHEN))
            return
        if step.foreach is None:
            self._begin_unit(Unit(graph, node))
            return
        node.items = values.items(step.foreach)
        node.status = "running"
        self._fill(graph, node)

    def _fill(self, graph: Graph, node: GraphNode) -> None:
        """Start as many items of a fan-out as allowed. Items that have ended keep their results."""
        most = node.step.max_parallel or len(node.items)
        while node.begun < len(node.items) and node.under_way < most and not self._is_stopped:
            unit = Unit(graph, node, node.begun)
            node.begun += 1
            self._begin_unit(unit)
        if len(node.results) == len(node.items):
            self._write_end(Unit(graph, node), *node.joined())

    def _begin_unit(self, unit: Unit) -> None:
        before = self._record.steps.get(unit.key)
        if unit.item_index is not None and before is not None and before.is_final:
            unit.node.results[unit.item_index] = result_of(before)
            return
        unit.node.status = "running"
        step = unit.node.step
        try:
            if step.is_filtered and not self._values(unit).hold(step.when):
                self._write_end(unit, StepResult("skipped", reason=WHEN))
            elif step.kind == "approve":
                self._begin_wait(unit, before)
            elif step.kind == "pipeline":
                self._begin_included(unit)
            else:
                self._ready.append(unit)
        except OF_THE_STORE:
            raise
        except RelayError as error:
            self._write_end(unit, failed(error))

    def _begin_wait(self, unit: Unit, before: StepRecord | None) -> None:
        assert unit.node.step.text is not None
        question = self._values(unit).text(unit.node.step.text)
        hint = self._waits.begin(unit, question, before)
        self._call_back(replace(self._view(unit, "waiting", None, reason=question), hint=hint))

    def _begin_included(self, unit: Unit) -> None:
        path = str(included_path(unit.graph.pipeline, unit.node.step))
        pipeline = self._setting.pipelines[path]
        given: dict[str, Any] = self._values(unit).document(unit.node.step.args or {})
        inputs = check_inputs(pipeline, given)
        self._call_back(self._view(unit, "running", None))
        budget = RunBudget() if self._setting.has_own_budget else pipeline.budget
        self._begin_graph(Graph(pipeline, inputs, f"{unit.key}/", unit, budget))

    def _values(self, unit: Unit) -> Values:
        return Values(self._relay, self._scope(unit))

    def _scope(self, unit: Unit) -> Scope:
        return unit.graph.scope(
            self._record.run, self._setting.main.name, unit.node.step, unit.item
        )

    def _pump(self) -> None:
        """Submit as many tasks to the runner as may run at the same time."""
        while self._ready and self._under_way < self._setting.parallel and not self._is_stopped:
            unit = self._ready.popleft()
            step = unit.node.step
            task = Task(
                thread=self._record.run,
                key=unit.key,
                step=step,
                scope=self._scope(unit),
                folder=str(Path(self._setting.folder, unit.graph.pipeline.file).parent),
                address=self._setting.address,
                model=self._setting.models.get(step.model or "") if step.kind == "prompt" else None,
            )
            self._under_way += 1
            self._lasting.begin(unit)
            self._call_back(self._view(unit, "running", None))
            self._runner.submit(task, partial(self._report, unit))

    def _report(self, unit: Unit, outcome: StepView | BaseException) -> None:
        """Report the end of a task, and continue the run in the thread that ran the task."""
        self._reports.put((unit, outcome))
        self._decide()

    # Ends of steps

    def _ended(self, unit: Unit, result: StepResult) -> None:
        """Update the graph after the end of a step or an item was recorded."""
        graph, node = unit.graph, unit.node
        if unit.item_index is not None:
            node.results[unit.item_index] = result
            self._opened.append((graph, node))
            return
        node.status, node.result = result.status, result
        graph.left -= 1
        for follower in graph.followers[node.step.name]:
            graph.open_needs[follower] -= 1
            if not graph.open_needs[follower]:
                self._opened.append((graph, graph.nodes[follower]))
        if not graph.left:
            self._graph_over(graph)

    def _graph_over(self, graph: Graph) -> None:
        """End the pipeline of a graph. If a step includes the pipeline, end that step too."""
        if graph.parent is not None:
            self._write_end(graph.parent, *graph.ended())

    def _write_end(self, unit: Unit, result: StepResult, body: Any = None) -> None:
        """Record an end that this thread decided, and continue the run from there."""
        ended = write_end(self._relay, self._record.run, unit, result, body)
        view = self._view(unit, ended.status, ended.ref, ended.by, ended.reason)
        self._call_back(replace(view, hint=ended.hint))
        self._ended(unit, ended)

    # Budget

    def _check_budget(self, graph: Graph) -> None:
        """Stop starting steps if a budget is exceeded. Running steps may finish."""
        over = graph.exceeded()
        if over and (self._ready or self._opened or self._under_way or self._waits):
            self._past(over)

    def _past(self, over: ExceededBudget) -> None:
        self._over = self._over or over
        self._end = self._end or ("stopped", over.text)
        self._is_stopped = True

    def _finish(self) -> PipelineRun:
        """Record the status and the costs of the run, and return its view."""
        failures = self._graph.failures()
        status, reason = self._end or ("done", "")
        if self._end is None and failures:
            status, reason = "failed", reasons(failures)
        result = PipelineRun(
            run=self._record.run,
            name=self._setting.main.name,
            status=status,
            reason=reason,
            hint=next_step(status, self._record.run, failures, self._over),
            steps=all_views(self._graph, self._views),
            **self._graph.spent.fields(),
            duration_ms=since_ms(self._graph.began_s),
            started_at=self._record.started_at,
        )
        write_run_end(self._relay, result, self._graph)
        return result

    # Callbacks

    def _view(
        self, unit: Unit, status: StepStatus | str, ref: str | None, by: str = "", reason: str = ""
    ) -> StepView:
        kind = unit.node.step.kind
        return StepView(step=unit.key, kind=kind, status=status, ref=ref, by=by, reason=reason)

    def _call_back(self, view: StepView) -> None:
        self._views[view.step] = view
        if self._hear_error is None:
            try:
                self._setting.hear(view)
            except Exception as error:
                # An error in the callback must not abandon running steps.
                self._hear_error = error


Done = Callable[[StepView | BaseException], None]


class Runner(Protocol):
    """Runs tasks, a limited number at a time."""

    def submit(self, task: Task, done: Done) -> None:
        """Start a task. `done` is called with the outcome of the task, in any thread."""
        ...

    def stop(self) -> None:
        """Terminate the running tasks, and kill those that do not end."""
        ...

    def close(self) -> None: ...


class Threads:
    """A runner that uses one operating system thread per running task. Commands and functions run
    in child processes.
    """

    def __init__(self, relay: Relay, parallel: int) -> None:
        self._place = Workplace(relay, PythonPool(), Event())
        self._threads = ThreadPoolExecutor(parallel, "relay-step")
        self._next = local()
        """For each thread that reports the end of a task: `jobs`, the tasks that the thread runs
        next.
        """
        self._run: str | None = None

    def submit(self, task: Task, done: Done) -> None:
        self._run = task.thread
        jobs: list[tuple[Task, Done]] | None = getattr(self._next, "jobs", None)
        if jobs is not None and not jobs:
            jobs.append((task, done))  # This is faster than waking another thread.
        else:
            self._threads.submit(self._work, task, done)

    def _work(self, task: Task, done: Done) -> None:
        jobs = [(task, done)]
        while jobs:
            task, done = jobs.pop()
            try:
                outcome: StepView | BaseException = perform(self._place, task, TRIES)
            except BaseException as error:
                outcome = error
            self._next.jobs = jobs
            done(outcome)
            self._next.jobs = None

    def stop(self) -> None:
        self._place.stop.set()

    def close(self) -> None:
        self._place.stop.set()
        self._threads.shutdown()
        self._place.pool.close()
        if self._run is not None:
            end_leftovers(self._run)
