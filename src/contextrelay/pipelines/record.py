"""What a run took so far, and whether that is past a budget."""

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
from contextrelay.model.run import FINAL, StepStatus, writer
from contextrelay.model.thread import Event, Numbered
from contextrelay.pipelines.language import RunBudget
from contextrelay.runs.prices import spell_price
from contextrelay.verbs import ReadEvents


class Over(NamedTuple):
    """What of a budget is used up, and how much of it would let the run go on for as long again."""

    field: str
    text: str
    more: str


class RunSpent:
    """What a run, or a pipeline in it, took so far."""

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

    def over(self, budget: RunBudget) -> Over | None:
        """What of a budget is used up; None where nothing is."""
        tokens = self.tokens_in + self.tokens_out
        if budget.tokens is not None and tokens > budget.tokens:
            used = f"{tokens:,} tokens of {budget.tokens:,} are used"
            return Over("tokens", used, str(tokens + budget.tokens))
        if budget.price is None or self.price == 0:
            return None
        if self.price is None:
            return Over("price", f"what was spent of ${budget.price:g} is not known", "MORE")
        if self.price <= Decimal(str(budget.price)):
            return None
        used = f"${spell_price(self.price)} of ${budget.price:g} is used"
        return Over("price", used, f"{float(self.price) + budget.price:g}")


CANCEL = "pipeline.cancel"


class RunnerIdentity(RunnerProcess, frozen=True):
    """The process that runs a pipeline: to see whether it is still there."""

    @property
    def is_here(self) -> bool:
        """Whether it is one of this machine, since it was started."""
        return self.host == _host()

    @property
    def is_alive(self) -> bool:
        """Whether it is on this machine, and still runs."""
        return self.is_here and _began(self.pid) == self.began


def this_runner() -> RunnerIdentity:
    return RunnerIdentity(_host(), os.getpid(), _began(os.getpid()))


def _host() -> str:
    """This machine, until it is started again."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{platform.node()} {boot.read_text().strip() if boot.exists() else ''}".strip()


def _began(pid: int) -> str:
    """When a process began, as its machine counts; "" where there is none, or a dead one."""
    try:
        # Behind the name, which may hold anything: its state, and as the 20th field its start.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # Killed, and not yet waited for by who started it.
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
    """How a step stands, by its newest event."""

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
    """A run by its events, in order."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.seq = 0
        self.begun: RunStarted | None = None
        """What its first event says; None for a thread that is no run."""
        self.broken = ""
        """Which of its events is invalid, and why; "" if none is."""
        self.steps: dict[str, StepRecord] = {}
        self.retried: list[tuple[str, StepRecord]] = []
        """What was run again since: it was paid for, too."""
        self.runner: RunnerIdentity | None = None
        self.status: RunStatus = "running"
        self.started_at: datetime | None = None
        self.end: RunEnded | None = None
        self.budget: dict[str, Any] = {}
        """What it was gone on with instead of the budget in its file."""
        self.used_s = 0.0
        """How long it ran, until it was last stopped."""
        self._since: datetime | None = None
        self._last: datetime | None = None

    def take(self, numbered: Numbered) -> None:
        """Follow one event. An invalid one makes the run a broken one, and says nothing else."""
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
                    raise ValidationError("it began before")
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
        """Count the time of a process that ended: of one that was killed until its last event."""
        if self._since is not None and self._last is not None:
            self.used_s += (self._last - self._since).total_seconds()
        self._since = self._last = None

    def _take_step(self, event: Event, detail: StepDetail) -> None:
        if detail.status == "pending":
            if before := self.steps.pop(detail.step, None):
                self.retried.append((detail.step, before))
            return
        if not detail.decided_by:  # A decision may come when nothing runs.
            self._last = event.at
        by = detail.decided_by or (writer(event) if detail.kind == "approve" else event.by)
        self.steps[detail.step] = StepRecord(detail=detail, by=by, at=event.at)

    @property
    def state(self) -> RunStatus:
        """How it stands: one that nobody runs any more was stopped by something else."""
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
    """All that the events of a run say.

    Raises:
        NotFound: the thread is no run of a pipeline.
    """
    record = RunRecord(run)
    follow(relay, record)
    if record.begun is None and not record.broken:
        raise NotFound(f"{run} is no run of a pipeline", "see: relay pipeline list")
    return record


def follow(relay: Relay, record: RunRecord) -> list[Numbered]:
    """Take in the events that are new; what they are."""
    news: list[Numbered] = []
    while page := relay.transport.ask(ReadEvents(record.run, record.seq, LIST_ITEMS_MAX)).events:
        for each in page:
            record.take(each)
        news += page
        if len(page) < LIST_ITEMS_MAX:
            break
    return news
