"""Records: what the events of a run's thread say of it; enough to show it and to go on with it."""

from __future__ import annotations

import os
import platform
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, to_builtins

from contextrelay.client.relay import Relay
from contextrelay.errors import NotFound
from contextrelay.limits import LIST_ITEMS_MAX
from contextrelay.model.runs.pipeline import RunStatus
from contextrelay.model.runs.step import CALLER, FINAL, STEP_EVENT, named
from contextrelay.model.thread import Event, Numbered
from contextrelay.wire.verbs import ReadEvents

STARTED, RESUMED, ALIVE = "pipeline.started", "pipeline.resumed", "pipeline.alive"
CANCEL, FINISHED = "pipeline.cancel", "pipeline.finished"


class Runner(Struct, frozen=True):
    """The process that runs a pipeline: to see whether it is still there."""

    host: str
    pid: int
    began: str

    @property
    def is_here(self) -> bool:
        """Whether it is one of this machine, since it was started."""
        return self.host == _host()

    @property
    def is_alive(self) -> bool:
        """Whether it is on this machine, and still runs."""
        return self.is_here and _began(self.pid) == self.began


def this_runner() -> Runner:
    return Runner(_host(), os.getpid(), _began(os.getpid()))


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

    status: str
    ref: str | None
    by: str
    at: datetime
    detail: dict[str, Any]

    @property
    def is_final(self) -> bool:
        return self.status in FINAL


class RunRecord:
    """A run by its events, in order."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.name = ""
        self.definition = ""
        self.parallel: int | None = None
        self.seq = 0
        self.steps: dict[str, StepRecord] = {}
        self.retried: list[tuple[str, StepRecord]] = []
        """What was run again since: it was paid for, too."""
        self.runner: Runner | None = None
        self.status: RunStatus = "running"
        self.started_at: datetime | None = None
        self.end: dict[str, Any] = {}
        self.is_cancel_asked = False
        self.budget: dict[str, Any] = {}
        """What it was gone on with instead of the budget in its file."""
        self.used_s = 0.0
        """How long it ran, until it was last stopped."""
        self._since: datetime | None = None
        self._last: datetime | None = None

    def take(self, numbered: Numbered) -> None:
        """Follow one event."""
        self.seq = numbered.seq
        event = numbered.event
        match event.type:
            case "run.step":
                self._take_step(event)
            case "pipeline.started" | "pipeline.resumed":
                self.status, self.end, self.is_cancel_asked = "running", {}, False
                self.runner = _runner(event.detail.get("runner"))
                self._stopped()
                self._since, self._last = event.at, None
                self.budget = {**self.budget, **(event.detail.get("budget") or {})}
                if event.type == STARTED:
                    self.name = str(event.detail.get("name", ""))
                    self.definition = str(event.detail.get("definition", ""))
                    self.parallel = event.detail.get("parallel")
                    self.started_at = event.at
            case "pipeline.cancel":
                self.is_cancel_asked = True
            case "pipeline.finished":
                self.status, self.end = event.detail.get("status", "failed"), event.detail
                self._stopped()
                if "duration_ms" in event.detail:
                    self.used_s = event.detail["duration_ms"] / 1000
            case _:
                return

    def _stopped(self) -> None:
        """Count the time of a process that ended: of one that was killed until its last event."""
        if self._since is not None and self._last is not None:
            self.used_s += (self._last - self._since).total_seconds()
        self._since = self._last = None

    def _take_step(self, event: Event) -> None:
        key, status = str(event.detail.get("step", "")), str(event.detail.get("status", ""))
        if status == "pending":
            if before := self.steps.pop(key, None):
                self.retried.append((key, before))
            return
        if "decided_by" not in event.detail:  # A decision may come when nothing runs.
            self._last = event.at
        caller, by = event.detail.get(CALLER), event.by
        if caller and event.detail.get("kind") == "approve":
            by = named(str(caller), by)
        self.steps[key] = StepRecord(
            status=status,
            ref=event.detail.get("ref"),
            by=by,
            at=event.at,
            detail=event.detail,
        )

    @property
    def state(self) -> RunStatus:
        """How it stands: one that nobody runs any more was stopped by something else."""
        if self.status != "running":
            return self.status
        if self.runner is not None and self.runner.is_here and not self.runner.is_alive:
            return "killed"
        return "running"


def _runner(value: Any) -> Runner | None:
    try:
        return convert(value, Runner)
    except ValidationError:
        return None


def plain_runner() -> dict[str, Any]:
    return to_builtins(this_runner())


def read_record(relay: Relay, run: str) -> RunRecord:
    """All that the events of a run say.

    Raises:
        NotFound: the thread is no run of a pipeline.
    """
    record = RunRecord(run)
    follow(relay, record)
    if not record.definition:
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


__all__ = ["CANCEL", "FINISHED", "RESUMED", "STARTED", "STEP_EVENT", "RunRecord", "read_record"]
