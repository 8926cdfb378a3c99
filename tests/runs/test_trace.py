"""Traces of a thread: what its runs did, read out of its events, on a store and on a server."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from contextrelay import Relay
from contextrelay.client.thread import Thread
from contextrelay.limits import LIST_ITEMS_MAX
from contextrelay.model.run import ModelUsage
from contextrelay.verbs import NoteRun
from tests.runs.recorded import MODEL, begin_run, call, record_run
from tests.server.serving import serving


@pytest.fixture(params=["local", "remote"])
def thread(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Thread]:
    """A thread of a store in this process, and one of a server."""
    if request.param == "local":
        yield Relay("memory:").new_thread("work")
        return
    with serving(tmp_path / "store") as served, Relay(served.url) as relay:
        yield relay.new_thread("work")


def test_a_trace_shows_what_a_run_did_call_by_call(thread: Thread) -> None:
    """Promise X5: calls, tools, refs, tokens, price, time."""
    answer = record_run(thread, "r1")

    (run,) = thread.trace().runs

    assert (run.run, run.status, run.kind, run.model) == ("r1", "finished", "ask", MODEL)
    assert (run.asked, run.ref, run.version) == ("what does the log say?", answer, 1)
    assert [each.round for each in run.calls] == [1, 2]
    assert run.usage == ModelUsage(
        tokens_in=2_000, tokens_out=100, cache_read=1_600, cache_write=200, price="0.0030"
    )
    assert run.duration_ms == 900
    (tool,) = run.calls[0].tools
    assert (tool.name, tool.refs, tool.duration_ms) == ("relay_get", run.refs, 5)
    exchange = run.calls[0].exchange
    assert exchange is not None
    assert b"round 1 of r1" in thread.relay.pull(exchange)


def test_a_trace_says_how_a_run_ended_or_that_it_did_not(thread: Thread) -> None:
    """Promise X5."""
    begin_run(thread, "broken")
    begin_run(thread, "going on")
    call(thread, "going on", 1)
    detail = {"error": "unavailable", "reason": "529"}
    thread.ask(NoteRun(thread=thread.id, run="broken", status="failed", detail=detail))

    trace = thread.trace()

    broken, going = trace.runs
    assert (broken.status, broken.error, broken.reason) == ("failed", "unavailable", "529")
    assert (going.status, going.ended_at, len(going.calls)) == ("running", None, 1)
    assert (trace.totals.runs, trace.totals.failed, trace.totals.running) == (2, 1, 1)


def test_a_trace_keeps_the_newest_runs_and_counts_all_of_them() -> None:
    """Promise X5: across pages of events, runs of several processes side by side."""
    thread = Relay("memory:").new_thread()
    count = LIST_ITEMS_MAX // 4
    for number in range(0, count, 2):
        begin_run(thread, f"r{number}")
        record_run(thread, f"r{number + 1}")
        thread.ask(NoteRun(thread=thread.id, run=f"r{number}", status="finished"))

    trace = thread.trace(2)

    # Both may have begun in the same millisecond.
    assert {run.run for run in trace.runs} == {f"r{count - 2}", f"r{count - 1}"}
    assert trace.runs_left_out == count - 2
    assert (trace.totals.runs, trace.totals.calls, trace.totals.tools) == (count, count, count // 2)
