"""Runs out of events: whatever stands in a detail, and however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import encode

from contextrelay.model.run import Run
from contextrelay.model.thread import Event
from contextrelay.runs.otlp import SpanFactory
from contextrelay.runs.trace import (
    TRACE_CALLS_MAX,
    TRACE_PARTS_MAX,
    TRACE_TEXT_CHARS_MAX,
    TRACE_TOOLS_MAX,
    RunReader,
    Tracing,
    parts,
)

AT = datetime(2026, 11, 16, 12, tzinfo=UTC)
REF = "0b5c1e1e-3c5f-4b8e-9d5e-1f2a3b4c5d6e"


def event(type: str, detail: dict[str, Any], second: int = 0) -> Event:
    return Event(id="e", type=type, at=AT + timedelta(seconds=second), by="you", detail=detail)


def runs(*events: Event) -> list[Run]:
    reader = RunReader()
    return [run for each in events for run in reader.read(each)] + list(reader.rest())


def test_events_of_no_run_or_of_one_that_nobody_began_are_passed_over() -> None:
    """Promise X5."""
    begun = event("run.started", {"run": "r1"})
    others = [
        event("run.called", {"run": "unknown", "round": 1}),
        event("run.finished", {"run": "unknown"}),
        event("run.started", {}),
        event("run.started", {"run": ["r"]}),
        event("run.started", {"run": "r" * 1_000}),
        event("message.received", {"text": "no run"}),
        event("state.created", {"run": "r2"}),
    ]

    assert [run.run for run in runs(begun, *others)] == ["r1"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
counts = ("tokens_in", "tokens_out", "cache_read", "cache_write", "price", "duration_ms")
texts = ("ref", "text", "refs", "kind", "provider", "model", "version", "round", "exchange")
names = st.sampled_from((*counts, *texts, "tools", "reason", "error"))
details = st.dictionaries(names, values | st.lists(st.dictionaries(names, values), max_size=3))
types = st.sampled_from(["message.received", "run.started", "run.called", "run.failed"])


@given(st.lists(st.tuples(types, details), max_size=8))
def test_whatever_stands_in_an_event_makes_a_trace(given: list[tuple[str, dict[str, Any]]]) -> None:
    """Promises X5 and Z3: anybody may add events; none makes a trace fail."""
    events = [event(type, {**detail, "run": "r1"}) for type, detail in given]

    for run in runs(*events):
        assert encode(run)
        assert list(SpanFactory().spans_of(run, REF))
        assert run.usage.tokens_in >= 0


def test_one_run_is_bounded_and_what_is_left_out_is_counted() -> None:
    """Promise Z3."""
    tools = [{"name": "n", "refs": [REF] * 50}] * (TRACE_TOOLS_MAX + 3)
    called = {"run": "r1", "model": "m" * 5_000, "tokens_in": 1, "tools": tools}
    (run,) = runs(
        event("run.started", {"run": "r1"}),
        *[event("run.called", called)] * (TRACE_CALLS_MAX + 2),
    )

    assert (len(run.calls), run.calls_left_out) == (TRACE_CALLS_MAX, 2)
    assert (len(run.calls[0].tools), run.calls[0].tools_left_out) == (TRACE_TOOLS_MAX, 3)
    assert len(run.calls[0].model) == TRACE_TEXT_CHARS_MAX
    assert run.usage.tokens_in == TRACE_CALLS_MAX + 2


def flood(count: int) -> Iterator[Event]:
    """Runs that begin, call with many refs, and never end."""
    tools = [{"name": "n", "refs": [REF] * 16}] * TRACE_TOOLS_MAX
    for number in range(count):
        yield event("run.started", {"run": f"r{number}"}, number)
        yield event("run.called", {"run": f"r{number}", "tools": tools}, number)


@pytest.mark.parametrize("count", [200])
def test_many_runs_at_once_are_bounded(count: int) -> None:
    """Promise Z3: runs that never end are given up, the oldest first, and all are counted."""
    reader, tracing, open_max = RunReader(), Tracing(1_000), 0
    for each in flood(count):
        tracing.add(reader.read(each))
        open_max = max(open_max, reader.parts)
    tracing.add(reader.rest())
    trace = tracing.trace(REF)

    assert open_max <= 2 * TRACE_PARTS_MAX
    assert trace.totals.runs == count
    assert sum(map(parts, trace.runs)) <= TRACE_PARTS_MAX
    assert trace.runs[-1].run == f"r{count - 1}"
    assert trace.runs_left_out == count - len(trace.runs) > 0
