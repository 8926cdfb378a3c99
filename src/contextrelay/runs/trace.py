"""Traces: runs assembled from the events of a thread.

Anybody with write access to a thread can add events, so an event may contain anything. Values of
the wrong type count as missing, and texts are cut.

Rule: memory use does not grow with the thread. The numbers of unfinished runs and of calls per run,
and the length of texts, are bounded by limits in limits.py. What is left out is counted.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from contextrelay.client.flow import Emit, Flow, Items, for_each
from contextrelay.documents.values import is_list, is_object
from contextrelay.errors import Invalid
from contextrelay.limits import LABEL_CHARS_MAX, LIST_ITEMS_MAX, TRACE_RUNS_MAX
from contextrelay.model.ref import is_ref
from contextrelay.model.run import CALLER, ModelCall, ModelUsage, Run, ToolSpan, Totals, Trace
from contextrelay.model.thread import Event, Numbered
from contextrelay.verbs import ReadEvents

TRACE_CALLS_MAX = 64
TRACE_TOOLS_MAX = 64
TRACE_REFS_MAX = 16
# The maximum total number of runs, calls, tools and refs. Each of them takes less than a kilobyte.
TRACE_PARTS_MAX = 100_000
TRACE_TEXT_CHARS_MAX = 300


STARTED, CALLED, RECEIVED = "run.started", "run.called", "message.received"
ENDS: dict[str, Literal["finished", "interrupted", "failed"]] = {
    "run.finished": "finished",
    "run.interrupted": "interrupted",
    "run.failed": "failed",
}
_PRICE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,12})?")
_NUMBER_MAX = 2**53
_CUT = "…"


class Tracing:
    """A trace to which runs are added. All runs are counted, but only the last ones are kept."""

    def __init__(self, runs_max: int) -> None:
        self._runs_max = runs_max
        self._last: deque[Run] = deque()
        self.parts = 0
        self._totals = Totals()

    def add(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self._totals = _counted(self._totals, run)
            self._last.append(run)
            self.parts += parts(run)
            while len(self._last) > self._runs_max or self.parts > TRACE_PARTS_MAX:
                self.parts -= parts(self._last.popleft())

    def trace(self, thread: str) -> Trace:
        runs = sorted(self._last, key=lambda run: run.number)
        left_out = self._totals.runs - len(runs)
        return Trace(thread_id=thread, runs=runs, runs_left_out=left_out, totals=self._totals)


def _counted(totals: Totals, run: Run) -> Totals:
    """Return the totals with one more run added."""
    kept = run.calls
    return replace(
        totals,
        **{run.status: getattr(totals, run.status) + 1},
        runs=totals.runs + 1,
        calls=totals.calls + len(kept) + run.calls_left_out,
        tools=totals.tools + sum(len(call.tools) + call.tools_left_out for call in kept),
        unpriced_calls=totals.unpriced_calls + sum(call.usage.price is None for call in kept),
        usage=together(totals.usage, run.usage),
        duration_ms=totals.duration_ms + run.duration_ms,
    )


def parts(run: Run) -> int:
    """Return the approximate number of parts of a run: calls, tools and refs."""
    return 1 + len(run.refs) + sum(map(_parts_of_call, run.calls))


def _parts_of_call(call: ModelCall) -> int:
    return 1 + sum(1 + len(tool.refs) for tool in call.tools)


class RunReader:
    """Reads events, and returns each run when it ends. `rest` returns the unfinished runs.

    If there are too many unfinished runs, the oldest one is returned unfinished.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._begun = 0
        self.parts = 0

    def read(self, event: Event) -> Iterator[Run]:
        """Process the next event, and yield the run that the event ends, if any."""
        is_begin = event.type in (STARTED, RECEIVED)
        if not is_begin and event.type != CALLED and event.type not in ENDS:
            return
        id = event.detail.get("run")
        if not isinstance(id, str) or not id or len(id) > LABEL_CHARS_MAX:
            return
        if is_begin and id not in self._open:
            self._begun += 1
            self._open[id] = _Open(run=id, number=self._begun, at=event.at, by=event.by)
            self.parts += 1
        if (run := self._open.get(id)) is None:
            return  # The start of the run is missing, or is before the events that were read.
        if not run.is_of(event):
            return
        before = run.parts
        run.take_in(event)
        self.parts += run.parts - before
        if event.type in ENDS:
            yield self._close(id)
        while self.parts > TRACE_PARTS_MAX:
            yield self._close(next(iter(self._open)))

    def rest(self) -> Iterator[Run]:
        """Yield the unfinished runs."""
        while self._open:
            yield self._close(next(iter(self._open)))

    def _close(self, id: str) -> Run:
        run = self._open.pop(id)
        self.parts -= run.parts
        return run.run_now()


class _Open(Struct, kw_only=True):
    """A run that has not ended."""

    run: str
    number: int
    at: datetime
    by: str
    asked: dict[str, Any] = {}
    started: dict[str, Any] = {}
    ended: dict[str, Any] = {}
    ended_at: datetime | None = None
    status: Literal["running", "finished", "interrupted", "failed"] = "running"
    calls: list[ModelCall] = field(default_factory=list[ModelCall])
    calls_left_out: int = 0
    usage: ModelUsage = ModelUsage()
    duration_ms: int = 0
    parts: int = 1

    def is_of(self, event: Event) -> bool:
        """Return True if the author of the run wrote the event. Events by others are ignored."""
        if not self.started or event.type == RECEIVED:
            return True
        return event.detail.get(CALLER) == self.started.get(CALLER)

    def take_in(self, event: Event) -> None:
        if event.type == RECEIVED:
            self.asked = self.asked or event.detail
        elif event.type == STARTED:
            self.started, self.by = self.started or event.detail, event.by
        elif event.type == CALLED:
            call = call_of(event)
            self.usage = together(self.usage, call.usage)
            self.duration_ms += call.duration_ms
            if len(self.calls) < TRACE_CALLS_MAX:
                self.calls.append(call)
                self.parts += _parts_of_call(call)
            else:
                self.calls_left_out += 1
        else:
            self.ended, self.ended_at, self.status = event.detail, event.at, ENDS[event.type]

    def run_now(self) -> Run:
        """Return the run with everything that is known about it so far."""
        started, ended = self.started, self.ended
        return Run(
            run=self.run,
            number=self.number,
            status=self.status,
            kind=_text(started.get("kind")) or "ask",
            provider=_text(started.get("provider")),
            model=_text(started.get("model")),
            by=self.by,
            started_at=self.at,
            ended_at=self.ended_at,
            version=_number(started.get("version")) or None,
            asked=_text(self.asked.get("text")),
            asked_ref=_ref(self.asked.get("ref")),
            refs=_refs(self.asked.get("refs")),
            ref=_ref(ended.get("ref")),
            # The model calls of a wrapped command are not visible, so use what the final event
            # says.
            usage=self.usage if self.calls else _usage(ended),
            duration_ms=_number(ended.get("duration_ms")) or self.duration_ms,
            calls=tuple(self.calls),
            calls_left_out=self.calls_left_out,
            reason=_text(ended.get("reason")),
            error=_text(ended.get("error")),
        )


def together(one: ModelUsage, other: ModelUsage) -> ModelUsage:
    """Return the sum of two usages of a model."""
    prices = [Decimal(each.price) for each in (one, other) if each.price is not None]
    return ModelUsage(
        tokens_in=one.tokens_in + other.tokens_in,
        tokens_out=one.tokens_out + other.tokens_out,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        price=f"{sum(prices):f}" if prices else None,
    )


def call_of(event: Event) -> ModelCall:
    """Return the call described by an event."""
    detail = event.detail
    uses = _items(detail.get("tools"))
    return ModelCall(
        round=_number(detail.get("round")),
        at=event.at,
        model=_text(detail.get("model")),
        usage=_usage(detail),
        basis=_text(detail.get("basis")),
        duration_ms=_number(detail.get("duration_ms")),
        exchange=_ref(detail.get("exchange")),
        tools=tuple(_tool(each) for each in uses[:TRACE_TOOLS_MAX] if is_object(each)),
        tools_left_out=max(0, len(uses) - TRACE_TOOLS_MAX),
    )


def _tool(detail: dict[str, Any]) -> ToolSpan:
    return ToolSpan(
        id=_text(detail.get("id")),
        name=_text(detail.get("name")),
        duration_ms=_number(detail.get("duration_ms")),
        is_error=detail.get("is_error") is True,
        refs=_refs(detail.get("refs")),
    )


def _usage(detail: dict[str, Any]) -> ModelUsage:
    price = detail.get("price")
    return ModelUsage(
        tokens_in=_number(detail.get("tokens_in")),
        tokens_out=_number(detail.get("tokens_out")),
        cache_read=_number(detail.get("cache_read")),
        cache_write=_number(detail.get("cache_write")),
        price=price if isinstance(price, str) and _PRICE.fullmatch(price) else None,
    )


def _number(value: Any) -> int:
    """Return a value as an integer, or 0 if it is not a number. A time may have fractions of
    milliseconds.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value <= _NUMBER_MAX else 0


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    if len(value) <= TRACE_TEXT_CHARS_MAX:
        return value
    return value[: TRACE_TEXT_CHARS_MAX - len(_CUT)] + _CUT


def _ref(value: Any) -> str | None:
    return value if isinstance(value, str) and is_ref(value) else None


def _refs(value: Any) -> tuple[str, ...]:
    return tuple(each for each in _items(value)[:TRACE_REFS_MAX] if _ref(each))


def _items(value: Any) -> list[Any]:
    return value if is_list(value) else []


def trace_thread(thread: str, runs_max: int) -> Flow[Trace]:
    """Return the newest runs of a thread, and the totals of all runs.

    Raises:
        Invalid: the number of runs is out of range.
    """
    if not 1 <= runs_max <= TRACE_RUNS_MAX:
        raise Invalid(f"invalid number of runs: {runs_max}", f"use 1 to {TRACE_RUNS_MAX}")
    tracing = Tracing(runs_max)

    def add(run: Run) -> Flow[bool]:
        tracing.add((run,))
        return False
        yield

    yield from for_each(read_runs(thread), add)
    return tracing.trace(thread)


def read_runs(thread: str) -> Items[Run]:
    """Yield every run of a thread in the order in which the runs end, then the unfinished runs."""
    reader, after = RunReader(), 0
    while True:
        page: list[Numbered] = (yield ReadEvents(thread, after, LIST_ITEMS_MAX)).events
        yield Emit([run for each in page for run in reader.read(each.event)])
        if len(page) < LIST_ITEMS_MAX:
            break
        after = page[-1].seq
    yield Emit(reader.rest())
