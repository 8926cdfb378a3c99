"""The record of a run: the status of its steps, its costs, and its exceeded budgets."""

from __future__ import annotations

import os
import platform
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, ValidationError, convert, to_builtins

from contextrelay.client.relay import Relay
from contextrelay.errors import NotFound
from contextrelay.limits import LIST_ITEMS_MAX
from contextrelay.model.pipeline import (
    RunEnded,
    RunnerProcess,
    RunResumed,
    RunStarted,
    RunStatus,
    StepDetail,
    StepView,
)
from contextrelay.model.run import FINAL, StepStatus, writer_name
from contextrelay.model.thread import Event, Numbered
from contextrelay.pipelines.language import RunBudget
from contextrelay.runs.prices import spell_price
from contextrelay.verbs import ReadEvents


class ExceededBudget(NamedTuple):
    """A budget field that was exceeded, and a new value for it that would allow the same amount
    again.
    """

    field: str
    text: str
    more: str


class RunSpent:
    """The costs of a run, or of an included pipeline in a run."""

    def __init__(self) -> None:
        self.tokens_in = self.tokens_out = 0
        self.price: Decimal | None = Decimal(0)

    def add(self, view: StepView) -> None:
        self.tokens_in += view.tokens_in
        self.tokens_out += view.tokens_out
        known = self.price is not None and view.price is not None
        self.price = (self.price or 0) + Decimal(view.price or 0) if known else None

    def fields(self) -> dict[str, Any]:
        return {
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "price": spell_price(self.price),
        }

    def exceeded(self, budget: RunBudget) -> ExceededBudget | None:
        """Return the field of a budget that these costs exceed, or None."""
        tokens = self.tokens_in + self.tokens_out
        if budget.tokens is not None and tokens > budget.tokens:
            used = f"budget exceeded: {tokens:,} of {budget.tokens:,} tokens used"
            return ExceededBudget("tokens", used, str(tokens + budget.tokens))
        if budget.price is None or self.price == 0:
            return None
        if self.price is None:
            return ExceededBudget(
                "price", f"budget of ${budget.price:g}: the amount spent is unknown", "MORE"
            )
        if self.price <= Decimal(str(budget.price)):
            return None
        used = f"budget exceeded: ${spell_price(self.price)} of ${budget.price:g} spent"
        return ExceededBudget("price", used, f"{float(self.price) + budget.price:g}")


CANCEL = "pipeline.cancel"


class RunnerIdentity(RunnerProcess, frozen=True):
    """The identity of the process that runs a pipeline, used to check whether the process is
    alive.
    """

    @property
    def is_here(self) -> bool:
        """Return True if the process was started on this machine since its last boot."""
        return self.host == _host()

    @property
    def is_alive(self) -> bool:
        """Return True if the process is on this machine and is still running."""
        return self.is_here and _began(self.pid) == self.began


def this_runner() -> RunnerIdentity:
    return RunnerIdentity(_host(), os.getpid(), _began(os.getpid()))


def _host() -> str:
    """Return a text that identifies this machine and its current boot."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{platform.node()} {boot.read_text().strip() if boot.exists() else ''}".strip()


def _began(pid: int) -> str:
    """Return the start time of a process as text, in the clock ticks of the machine, or "" if the
    process has ended.
    """
    try:
        # The process name may contain any character. After the name come the state and, as field
        # 20, the start time.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # The process is a zombie: it has ended, but its parent has not waited for it yet.
        return "" if fields[0] in "ZX" else fields[19]
    except OSError:
        pass
    if Path("/proc/self").exists():
        return ""
    try:
        os.kill(pid, 0)
    except OSError:
        return ""
    return str(pid)


class StepRecord(Struct, frozen=True, kw_only=True):
    """The status of a step, made from its newest event."""

    detail: StepDetail
    by: str
    at: datetime

    @property
    def status(self) -> StepStatus:
        return self.detail.status

    @property
    def is_final(self) -> bool:
        return self.status in FINAL


class RunRecord:
    """The status of a run, made from its events in order."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.seq = 0
        self.begun: RunStarted | None = None
        """The content of the first event of the run, or None if the thread is not a run."""
        self.broken = ""
        """The number and the error of the first invalid event, or ""."""
        self.steps: dict[str, StepRecord] = {}
        self.retried: list[tuple[str, StepRecord]] = []
        """Earlier results of steps that were run again. Their costs still count."""
        self.runner: RunnerIdentity | None = None
        self.status: RunStatus = "running"
        self.started_at: datetime | None = None
        self.end: RunEnded | None = None
        self.budget: dict[str, Any] = {}
        """The budget given at the last resume, which overrides the budget of the file."""
        self.used_s = 0.0
        """The seconds that the run has been active, up to its last stop."""
        self._since: datetime | None = None
        self._last: datetime | None = None

    def take(self, numbered: Numbered) -> None:
        """Update the record by one event. An invalid event marks the run as broken and is otherwise
        ignored.
        """
        self.seq = numbered.seq
        try:
            self._take(numbered.event)
        except ValidationError as error:
            self.broken = self.broken or f"event {numbered.seq}, {numbered.event.type}: {error}"

    def _take(self, event: Event) -> None:
        match event.type:
            case "run.step":
                self._take_step(event, convert(event.detail, StepDetail))
            case "pipeline.started":
                begun = convert(event.detail, RunStarted)
                if self.begun is not None:
                    raise ValidationError("the run was already started")
                self.begun, self.started_at = begun, event.at
                self._goes_on(event, begun.runner)
            case "pipeline.resumed":
                resumed = convert(event.detail, RunResumed)
                self.budget = {**self.budget, **resumed.budget}
                self._goes_on(event, resumed.runner)
            case "pipeline.finished":
                self.end = convert(event.detail, RunEnded)
                self.status = self.end.status
                self._stopped()
                if self.end.duration_ms is not None:
                    self.used_s = self.end.duration_ms / 1000
            case _:
                return

    def _goes_on(self, event: Event, runner: RunnerProcess | None) -> None:
        self.status, self.end = "running", None
        self.runner = (
            None if runner is None else RunnerIdentity(runner.host, runner.pid, runner.began)
        )
        self._stopped()
        self._since = event.at

    def _stopped(self) -> None:
        """Add the running time of a process that ended. For a killed process, count up to its last
        event.
        """
        if self._since is not None and self._last is not None:
            self.used_s += (self._last - self._since).total_seconds()
        self._since = self._last = None

    def _take_step(self, event: Event, detail: StepDetail) -> None:
        if detail.status == "pending":
            if before := self.steps.pop(detail.step, None):
                self.retried.append((detail.step, before))
            return
        if not detail.decided_by:  # A decision may arrive while no process runs the pipeline.
            self._last = event.at
        by = detail.decided_by or (writer_name(event) if detail.kind == "approve" else event.by)
        self.steps[detail.step] = StepRecord(detail=detail, by=by, at=event.at)

    @property
    def state(self) -> RunStatus:
        """Return the status of the run. If its process is no longer alive, the run was killed."""
        if self.broken:
            return "broken"
        if self.status != "running":
            return self.status
        if self.runner is not None and self.runner.is_here and not self.runner.is_alive:
            return "killed"
        return "running"


def plain_runner() -> dict[str, Any]:
    return to_builtins(this_runner())


def read_record(relay: Relay, run: str) -> RunRecord:
    """Return the record of a run.

    Raises:
        NotFound: the thread is not a pipeline run.
    """
    record = RunRecord(run)
    follow(relay, record)
    if record.begun is None and not record.broken:
        raise NotFound(f"{run} is not a pipeline run", "see: relay pipeline list")
    return record


def follow(relay: Relay, record: RunRecord) -> list[Numbered]:
    """Read the new events of a run, update the record by them, and return them."""
    news: list[Numbered] = []
    while page := relay.transport.ask(ReadEvents(record.run, record.seq, LIST_ITEMS_MAX)).events:
        for each in page:
            record.take(each)
        news += page
        if len(page) < LIST_ITEMS_MAX:
            break
    return news
