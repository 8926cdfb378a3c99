"""Budgets: past one a run stops cleanly, says how it goes on, and does so with a larger one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from contextrelay import Invalid, Relay
from contextrelay.model.ref import new_ref
from contextrelay.model.thread import Event, Numbered
from contextrelay.pipelines import runs
from contextrelay.pipelines.record import RunRecord, read_record
from tests.pipelines.running import run

SMALL = """\
budget: {tokens: 10}
steps:
  a: {prompt: "one two three", model: echo}
  b: {exec: "echo ran >> ran", needs: a}
"""


def test_a_run_past_its_budget_goes_on_with_a_larger_one(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    first = run(relay, tmp_path, SMALL)

    still = runs.resume(relay, first.run)
    over = runs.resume(relay, first.run, budget={"tokens": 100_000})

    assert (first.status, still.status, over.status) == ("stopped", "stopped", "done")
    used = first.tokens_in + first.tokens_out
    hint = f"relay pipeline resume {first.run[:8]} --budget tokens={used + 10}"
    assert hint in first.hint
    assert hint in still.hint
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert over.steps["a"].ref == first.steps["a"].ref


def test_a_budget_that_is_none_is_refused_and_nothing_changes(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    budget = {"token": 3}
    said = "did you mean tokens?"
    first = run(relay, tmp_path, SMALL)
    before = read_record(relay, first.run).seq

    with pytest.raises(Invalid) as refused:
        runs.resume(relay, first.run, budget=budget)

    assert said in str(refused.value)
    assert read_record(relay, first.run).seq == before


def test_the_time_of_a_budget_goes_on_when_a_run_is_resumed(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    text = "budget: {time: 1500ms}\nsteps:\n  ask: {approve: Go?}\n  b: {exec: [b], needs: ask}\n"
    ended = run(relay, tmp_path, text)

    assert ended.status == "stopped"
    assert ended.reason == "time limit exceeded: 1.5 s"
    again = runs.resume(relay, ended.run)
    assert again.status == "stopped"
    assert again.duration_ms >= ended.duration_ms
    assert "--budget time=3s" in again.hint


def test_the_time_of_a_run_that_was_killed_counts_until_its_last_step() -> None:
    """Promise X4."""
    began = datetime(2026, 1, 1, tzinfo=UTC)
    record = RunRecord("run")
    said: list[tuple[int, str, dict[str, str]]] = [
        (0, "pipeline.started", {"name": "x", "definition": new_ref(bytes(16))}),
        (5, "run.step", {"step": "a", "status": "done"}),
        (900, "run.step", {"step": "ask", "status": "done", "decided_by": "ana"}),
        (1_000, "pipeline.resumed", {}),
        (1_002, "run.step", {"step": "b", "status": "running"}),
        (1_003, "pipeline.cancel", {}),
        (2_000, "pipeline.finished", {"status": "cancelled"}),
    ]
    for seq, (after_s, kind, detail) in enumerate(said):
        at = began + timedelta(seconds=after_s)
        event = Event(id=str(seq), type=kind, by="x", at=at, detail=detail)
        record.take(Numbered(seq=seq, event=event))

    assert record.used_s == 5 + 2
