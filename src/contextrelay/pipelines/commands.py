"""The pipeline commands, and the display of a run: one line per step, redrawn on a terminal."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from contextrelay.cli import display, thread_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import (
    LIMIT,
    arg,
    arguments,
    author_option,
    integer_between,
    one_of,
    pair,
)
from contextrelay.cli.terminal import ERASE_BELOW, REDRAW, UP
from contextrelay.errors import Invalid, NotFound
from contextrelay.identity import agent_name, user_name
from contextrelay.limits import PIPELINE_PARALLEL_DEFAULT, PIPELINE_PARALLEL_MAX
from contextrelay.model.key import qualified_name
from contextrelay.model.pipeline import PipelineRun, StepView
from contextrelay.model.run import FINAL
from contextrelay.pipelines import runs
from contextrelay.pipelines.approval import ApprovalDecision
from contextrelay.pipelines.definition import STDIN, check_inputs, read_text, typed, typed_input
from contextrelay.pipelines.language import PipelineGraph as Checked
from contextrelay.pipelines.language import Step, as_mermaid, as_svg, as_text
from contextrelay.pipelines.pipeline import Pipeline, StartedRun
from contextrelay.pipelines.steps.kinds import missing_here

WATCH_S = 0.3


_SIGNS = {"done": "✔", "failed": "✘", "skipped": "–", "waiting": "?", "running": "▶"}
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TICK_S = 0.1


def step_line(view: StepView, sign: str = "", elapsed_s: float | None = None) -> str:
    """Format a step as one line: status, time, tokens, price, and the ref of the result or the
    reason of a failure.
    """
    sign = sign or _SIGNS.get(view.status, "◻")
    parts = [f"{sign} {display.clean(view.step)}", f"{view.kind} {view.status}"]
    duration_s = elapsed_s if elapsed_s is not None else view.duration_ms / 1000
    if duration_s >= _TICK_S / 10:
        parts.append(f"{duration_s:.1f} s")
    if view.is_cached:
        parts.append("cached")
    if view.tokens_in or view.tokens_out:
        parts.append(f"{view.tokens_in:,} tok in, {view.tokens_out:,} out")
        parts.append(price(view.price))
    if view.ref:
        parts.append(display.short(view.ref))
    if view.kind == "approve" and view.status in FINAL:
        parts.append(f"by {display.author(view.by)}")
    if view.reason:
        parts.append(display.clean(view.reason.splitlines()[0]))
    if view.status == "waiting" and view.hint:
        parts.append(f"→ {display.clean(view.hint)}")
    return "  ".join(parts)


def price(amount: str | None) -> str:
    return "price unknown" if amount is None else f"${amount}"


def summary(run: PipelineRun) -> list[str]:
    """Format a run as a few lines: its status, its costs, and what the user can do next."""
    count: dict[str, int] = {}
    for view in run.steps.values():
        if "[" not in view.step and "/" not in view.step:
            count[view.status] = count.get(view.status, 0) + 1
    steps = ", ".join(f"{number} {status}" for status, number in count.items())
    spent = ""
    if run.tokens_in or run.tokens_out:
        spent = f" · {run.tokens_in:,} tok in, {run.tokens_out:,} out · {price(run.price)}"
    time_taken = f" · {run.duration_ms / 1000:.1f} s" if run.duration_ms else ""
    name = display.clean(run.name)
    lines = [f"{name} {display.short(run.run)}  {run.status}: {steps}{time_taken}{spent}"]
    lines += (f"  {display.clean(line)}" for line in run.reason.splitlines())
    if run.hint and run.status != "running":
        lines.append(f"  next: {run.hint}")
    return lines


class View:
    """The live display of a run."""

    def __init__(self, console: Console) -> None:
        self._console = console
        is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._is_live = console.is_human and not console.is_json and is_terminal
        self._lock = Lock()
        self._views: dict[str, StepView] = {}
        self._began_s: dict[str, float] = {}
        self._lines = 0
        self._over = Event()
        self._is_read = True
        self._ticker = Thread(target=self._tick, daemon=True) if self._is_live else None

    def __enter__(self) -> View:
        if self._ticker is not None:
            self._ticker.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._over.set()
        if self._ticker is not None:
            self._ticker.join()
            self._draw(is_last=True)

    def begin(self, run: str, name: str) -> None:
        """Print the id of the run, if the output is JSON."""
        if self._console.is_json:
            self._line(PipelineRun(run=run, name=name, status="running", steps={}), "")

    def hear(self, view: StepView) -> None:
        """Record and print the new status of a step."""
        with self._lock:
            self._views[view.step] = view
            self._began_s.setdefault(view.step, time.monotonic())
        if self._console.is_json:
            self._line(view, "")
        elif not self._is_live and view.status != "running":
            self._line(view, step_line(view))

    def _line(self, value: object, human: str) -> None:
        """Print a line. If stdout was closed (`| head`), the run continues without output."""
        if self._is_read:
            try:
                self._console.line(value, human)
            except OSError:
                self._is_read = False

    def _tick(self) -> None:
        while not self._over.wait(_TICK_S):
            self._draw()

    def _draw(self, is_last: bool = False) -> None:
        """Draw the steps. Until the last call, draw no more steps than fit on the screen.

        Lines that have scrolled off the screen cannot be redrawn, so running steps and the newest
        steps are shown.
        """
        size = shutil.get_terminal_size()
        with self._lock:
            views = list(self._views.values())
        room = max(3, size.lines - 3)
        lines: list[str] = []
        if len(views) > room and not is_last:
            lines.append(f"… {len(views) - room + 1} more steps")
            room -= 1
            busy = [view for view in views if view.status in ("running", "waiting", "failed")]
            rest = [view for view in views if view not in busy]
            views = [*rest[len(rest) - max(0, room - len(busy)) :], *busy][-room:]
        frame = _SPINNER[int(time.monotonic() / _TICK_S) % len(_SPINNER)]
        for view in views:
            is_busy = view.status == "running"
            elapsed_s = time.monotonic() - self._began_s[view.step] if is_busy else None
            line = step_line(view, frame if is_busy else "", elapsed_s)
            lines.append(line[: size.columns - 1])
        above = UP * self._lines + REDRAW + ERASE_BELOW
        sys.stdout.write(above + "".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
        self._lines = len(lines)


_many = integer_between(
    1, PIPELINE_PARALLEL_MAX, f"is out of range: use 1 to {PIPELINE_PARALLEL_MAX}"
)
_FILE = arg("file", metavar="FILE", help="YAML file of a pipeline; - reads it from stdin")
_RUN = arg("run", metavar="RUN", help="id of a run, or the beginning of an id")
_STEP = arg("step", metavar="STEP", help="name of a step, as printed by relay pipeline show")
_ON = arg(
    "--on",
    metavar="URL",
    help="run the steps on a cluster: dask://HOST:8786 (default: this machine)",
)
_FORCE = arg("--force", action="store_true", help="act even if another machine started the run")
_INPUT = arg(
    "--input",
    type=pair,
    action="append",
    default=[],
    metavar="NAME=VALUE",
    help="an input of the pipeline; NAME=@FILE stores FILE and passes the ref",
)


@arguments(
    _FILE,
    _INPUT,
    arg(
        "-m",
        "--model",
        metavar="PROVIDER[:MODEL]",
        help="model for every prompt; overrides the pipeline file",
    ),
    arg(
        "--parallel",
        type=_many,
        default=PIPELINE_PARALLEL_DEFAULT,
        help="maximum number of parallel steps (default: 4)",
    ),
    arg(
        "--dry-run",
        action="store_true",
        help="check the pipeline and print the plan without running it",
    ),
    arg(
        "--watch",
        action="store_true",
        help="run the pipeline again whenever one of its files changes",
    ),
    _ON,
    author_option("name of the author of the run"),
)
def pipeline_run(args: Namespace, console: Console) -> None:
    """Run a pipeline, and print each step when it ends; exit 1 if the run failed.

    With --json each event is one line, and the last line is the whole run.
    """
    if args.dry_run:
        _show_plan(args, console)
        return
    if args.watch and args.file == STDIN:
        raise Invalid("--watch needs a file", "pass the path of the pipeline")
    pipeline = Pipeline.load(args.file)
    seen = pipeline.definition().files
    while True:
        result = _run_once(args, console, pipeline)
        if not args.watch or result.status == "cancelled":
            return
        pipeline = None
        while pipeline is None:
            console.note("waiting for a change; press Ctrl-C to stop")
            try:
                while (now := {name: _now(name) for name in seen}) == seen:
                    time.sleep(WATCH_S)
            except KeyboardInterrupt:
                return
            seen = now
            try:
                pipeline = Pipeline.load(args.file)
                _inputs(args, console, pipeline.check())
                seen = pipeline.definition().files
            except (Invalid, NotFound) as error:  # The next change of a file may fix the error.
                pipeline = None
                console.fail(error)


def _run_once(args: Namespace, console: Console, pipeline: Pipeline) -> PipelineRun:
    given = _inputs(args, console, pipeline.check())
    for note in [] if args.on else _shown(_missing(console, pipeline)):
        console.note(note.strip())
    options: dict[str, Any] = {"parallel": args.parallel, "on": args.on, "model": args.model}
    begun = StartedRun(console.relay, pipeline, given, by=args.by, **options)
    console.note(f"run {display.short(begun.run)}")
    with _cancelled_by_signals(), View(console) as view:
        view.begin(begun.run, pipeline.check().name)
        result = begun.go(view.hear)
    _show_end(console, result)
    return result


def _now(name: str) -> str | None:
    """Return the text of a pipeline file, or None if it cannot be read."""
    try:
        return read_text(Path(name))
    except (Invalid, NotFound):
        return None


@contextmanager
def _cancelled_by_signals() -> Generator[None]:
    """Make SIGTERM and SIGHUP cancel a run like Ctrl-C, so that its child processes are stopped."""
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    for each in before:
        signal.signal(each, signal.default_int_handler)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _inputs(args: Namespace, console: Console, main: Checked) -> dict[str, Any]:
    """Return the inputs given by --input, parsed by their types. The files of NAME=@FILE are
    stored.
    """
    given: dict[str, Any] = {}
    for name, text in args.input:
        taken = main.inputs.get(name)
        if text.startswith("@") and taken is not None and taken.type in ("ref", "text"):
            if args.dry_run:
                given[name] = text
                continue
            path = Path(text[1:])
            try:
                with path.open("rb") as file:
                    given[name] = console.relay.push(file, name=path.name).ref
            except OSError as error:
                raise Invalid(f"cannot read {path}: {error.strerror}", "check the path") from error
        elif taken is not None and taken.type == "ref":
            given[name] = display.resolve(console.relay, text)
        else:
            given[name] = typed_input(taken, text)
    return given


def _show_plan(args: Namespace, console: Console) -> None:
    pipeline = Pipeline.load(args.file)
    main = pipeline.check()
    inputs = check_inputs(main, _inputs(args, console, main))
    notes = _missing(console, pipeline)
    steps = [
        {"step": name, "kind": step.kind, "needs": list(step.needs), "does": _label(step)}
        for name, step in main.steps.items()
    ]
    answer = {"name": main.name, "inputs": inputs, "steps": steps, "notes": notes}
    lines = [f"{main.name}: {display.count(len(steps), 'step')} (dry run)"]
    lines += (f"  {name} = {value!r}" for name, value in inputs.items())
    console.answer(answer, [*lines, *_graph(main, as_text).splitlines(), *_shown(notes)])


def _show_end(console: Console, result: PipelineRun) -> None:
    if console.is_json:
        console.line(result, "")
    else:
        console.show("\n".join(summary(result)))
    console.exit_code = 0
    if result.status != "done":
        console.exit_code = 130 if result.reason == "interrupted" else 1


# Pipeline files


@arguments(_FILE)
def pipeline_validate(args: Namespace, console: Console) -> None:
    """Check a pipeline and the files that it includes, without running it."""
    pipeline = Pipeline.load(args.file)
    main, notes = pipeline.check(), _missing(console, pipeline)
    answer = {
        "name": main.name,
        "steps": list(main.steps),
        "inputs": list(main.inputs),
        "notes": notes,
    }
    right = f"{args.file} is valid ({display.count(len(main.steps), 'step')})"
    console.answer(answer, [right, *_shown(notes)])


def _missing(console: Console, pipeline: Pipeline) -> list[str]:
    """Return notes on programs, modules and capabilities that the steps need but this machine does
    not have.
    """
    checked = pipeline.definition().pipelines().values()
    has_capabilities = any(step.kind == "cap" for each in checked for step in each.steps.values())
    relay = console.relay if has_capabilities else None
    return missing_here(relay, checked, Path.cwd())


def _shown(notes: list[str]) -> list[str]:
    return [f"  note: {display.clean(note)}" for note in notes]


@arguments(
    _FILE,
    one_of(
        arg("--svg", action="store_true", help="print an SVG image"),
        arg("--mermaid", action="store_true", help="print a Mermaid diagram"),
    ),
)
def pipeline_graph(args: Namespace, console: Console) -> None:
    """Print the graph of a pipeline as text, SVG or Mermaid."""
    main = Pipeline.load(args.file).check()
    drawn = _graph(main, as_svg if args.svg else as_mermaid if args.mermaid else as_text)
    needs = {name: list(step.needs) for name, step in main.steps.items()}
    console.answer({"name": main.name, "needs": needs, "graph": drawn}, drawn.rstrip("\n"))


def _graph(main: Checked, draw: Any) -> str:
    needs = {name: step.needs for name, step in main.steps.items()}
    return draw(needs, {name: _label(step) for name, step in main.steps.items()})


def _label(step: Step) -> str:
    """Return a short description of a step."""
    what = step.target or step.model or ""
    each = " for each" if step.foreach is not None else ""
    return f"{step.kind}{f' {what}' if what else ''}{each}"


# Runs


@arguments(LIMIT)
def pipeline_list(args: Namespace, console: Console) -> None:
    """List pipeline runs, newest first."""
    listed = runs.list_runs(console.relay, args.limit)
    lines = [
        f"{display.short(run.run)}  {run.status:9}  {display.clean(run.name)}"
        f"  {display.age(run.started_at) if run.started_at else ''}"
        for run in listed
    ]
    if not listed and console.is_human:
        lines = ["no runs yet", "  next: relay pipeline run FILE"]
    console.answer({"runs": listed}, lines, "\n".join(run.run for run in listed))


@arguments(_RUN)
def pipeline_show(args: Namespace, console: Console) -> None:
    """Show a run: the status, cost and result ref of each step."""
    run = runs.show(console.relay, _run(console, args))
    console.answer(run, [*(step_line(view) for view in run.steps.values()), *summary(run)])


def _run(console: Console, args: Namespace) -> str:
    try:
        view = thread_argument.find(console.relay, args.run)
    except NotFound as error:
        shown = display.clean(args.run)
        raise NotFound(f"run not found: {shown}", "see: relay pipeline list") from error
    if view.kind != "pipeline":
        raise Invalid(f"{args.run} is not a pipeline run", "see: relay pipeline list")
    return view.thread_id


_GOING_ON = (
    arg(
        "--budget",
        type=pair,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="limit of the run; overrides the pipeline file; for example tokens=50000",
    ),
    arg(
        "--parallel",
        type=_many,
        default=None,
        help="maximum number of parallel steps (default: as at the start)",
    ),
    _ON,
    _FORCE,
    author_option("name of the author (default: RELAY_AGENT, or you)"),
)


@arguments(_RUN, *_GOING_ON)
def pipeline_resume(args: Namespace, console: Console) -> None:
    """Resume a run that was killed, cancelled or stopped. Completed steps are not run again."""
    _run_to_end(args, console)


@arguments(_RUN, _STEP, *_GOING_ON)
def pipeline_retry(args: Namespace, console: Console) -> None:
    """Run a step again, and all steps that depend on it."""
    _run_to_end(args, console, args.step)


def _run_to_end(args: Namespace, console: Console, step: str | None = None) -> None:
    run = _run(console, args)
    with _cancelled_by_signals(), View(console) as view:
        view.begin(run, "")
        options: dict[str, Any] = {
            "parallel": args.parallel,
            "on": args.on,
            "is_forced": args.force,
            "budget": {name: typed(text) for name, text in args.budget},
            "by": args.by,
            "hear": view.hear,
        }
        if step is None:
            result = runs.resume(console.relay, run, **options)
        else:
            result = runs.retry(console.relay, run, step, **options)
    _show_end(console, result)


@arguments(_RUN, author_option("name of the author (default: RELAY_AGENT, or you)"))
def pipeline_cancel(args: Namespace, console: Console) -> None:
    """Cancel a run: its processes are terminated, and killed if they do not end. The run can be
    resumed.
    """
    run = runs.cancel(console.relay, _run(console, args), args.by)
    console.answer(run, summary(run))


@arguments(_RUN, _STEP, author_option("name of the approver, recorded together with your own name"))
def pipeline_approve(args: Namespace, console: Console) -> None:
    """Approve a waiting step."""
    _decide(args, console, ApprovalDecision(True, _decider(args)))


@arguments(
    _RUN,
    _STEP,
    arg("reason", metavar="REASON", help="why the step is rejected"),
    author_option("name of the approver, recorded together with your own name"),
)
def pipeline_reject(args: Namespace, console: Console) -> None:
    """Reject a waiting step, so that the step fails."""
    _decide(args, console, ApprovalDecision(False, _decider(args), args.reason))


def _decider(args: Namespace) -> str:
    """Return the name of the approver: the user of this machine, followed by --by or RELAY_AGENT.

    A server adds the name of the key in front.
    """
    return qualified_name(user_name(), agent_name(args.by or None))


def _decide(args: Namespace, console: Console, decision: ApprovalDecision) -> None:
    run = _run(console, args)
    view = runs.decided(console.relay, run, args.step, decision)
    what = "approved" if decision.is_approved else "rejected"
    lines = [f"{what} {display.clean(args.step)}, by {display.author(view.by)}"]
    if runs.show(console.relay, run).status == "killed":
        lines.append(f"  next: relay pipeline resume {display.short(run)}")
    console.answer(view, lines)
