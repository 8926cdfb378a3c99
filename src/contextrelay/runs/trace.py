"""Traces: the runs of a thread, read out of its events page by page."""

from __future__ import annotations

from contextrelay.client.flow import Flow, Give, Items, for_each
from contextrelay.errors import Invalid
from contextrelay.limits import LIST_ITEMS_MAX, TRACE_RUNS_MAX
from contextrelay.model.thread import Numbered
from contextrelay.model.trace import Run, Trace
from contextrelay.runs.tracing.runs import RunReader, Tracing
from contextrelay.verbs import ReadEvents


def trace_thread(thread: str, runs_max: int) -> Flow[Trace]:
    """The newest runs, and what all of them took.

    Raises:
        Invalid: more runs are wanted than are kept, or none.
    """
    if not 1 <= runs_max <= TRACE_RUNS_MAX:
        raise Invalid(f"{runs_max} runs cannot be traced", f"take 1 to {TRACE_RUNS_MAX}")
    tracing = Tracing(runs_max)

    def add(run: Run) -> Flow[bool]:
        tracing.add((run,))
        return False
        yield

    yield from for_each(read_runs(thread), add)
    return tracing.trace(thread)


def read_runs(thread: str) -> Items[Run]:
    """Every run in the order of its end, then those that have not ended."""
    reader, after = RunReader(), 0
    while True:
        page: list[Numbered] = (yield ReadEvents(thread, after, LIST_ITEMS_MAX)).events
        yield Give([run for each in page for run in reader.read(each.event)])
        if len(page) < LIST_ITEMS_MAX:
            break
        after = page[-1].seq
    yield Give(reader.rest())
