"""Threads of a kind: listed by it alone, never the current one, gone after their end."""

from __future__ import annotations

import pytest

from contextrelay import Conflict, Gone, Refused
from contextrelay.model.pipeline import RunEnded
from contextrelay.model.settings import Settings
from contextrelay.verbs import (
    BeginPipeline,
    FindThreads,
    FinishStep,
    ListThreads,
    NewThread,
    NotePipeline,
    OpenThread,
    ReadCurrentThread,
    ReadEvents,
    ResumePipeline,
    ShowThread,
    Sweep,
    UseThread,
)
from tests.core.clock import DAY_MS, Clock, local


def test_threads_of_a_kind_are_listed_by_it_alone_and_are_never_the_current_one() -> None:
    """Promise X4."""
    store = local(Clock())
    plain = store.ask(NewThread("review"))
    run = store.ask(BeginPipeline(name="review"), b"{}")

    store.ask(UseThread(plain.thread_id, "/here", "you"))
    with pytest.raises(Refused, match="is a pipeline"):
        store.ask(UseThread(run.thread_id, "/here", "you"))

    assert [each.thread_id for each in store.ask(ListThreads()).threads] == [plain.thread_id]
    of_kind = store.ask(ListThreads(kind="pipeline")).threads
    assert [(each.thread_id, each.kind) for each in of_kind] == [(run.thread_id, "pipeline")]
    assert store.ask(OpenThread("review")).thread_id == plain.thread_id
    assert [each.thread_id for each in store.ask(FindThreads("review"))] == [plain.thread_id]
    current = store.ask(ReadCurrentThread("/here", "you"))
    assert current.thread is not None
    assert current.thread.thread_id == plain.thread_id
    assert [each.thread_id for each in current.candidates] == [plain.thread_id]


def test_a_thread_of_a_kind_is_gone_as_long_after_its_end_as_the_setting_says() -> None:
    """Promise X4."""
    clock = Clock()
    store = local(clock, settings=Settings(ended_kept_s=2 * 86_400))
    run = store.ask(BeginPipeline(name="review"), b"{}").thread_id
    store.ask(NotePipeline(thread=run, ended=RunEnded(status="done")))
    clock.pass_ms(DAY_MS)
    store.ask(ResumePipeline(thread=run))
    clock.pass_ms(5 * DAY_MS)
    store.ask(Sweep())
    assert store.ask(ShowThread(run)).status == "open"

    store.ask(NotePipeline(thread=run, ended=RunEnded(status="done")))
    clock.pass_ms(2 * DAY_MS + 1)
    store.ask(Sweep())

    with pytest.raises(Gone):
        store.ask(ShowThread(run))
    assert store.ask(ListThreads(kind="pipeline")).threads == []


def test_a_run_that_is_killed_and_never_gone_on_with_is_gone_in_the_end() -> None:
    """Promise X4."""
    clock = Clock()
    store = local(clock, settings=Settings(ended_kept_s=10 * 86_400))
    killed = store.ask(BeginPipeline(name="killed"), b"{}").thread_id
    alive = store.ask(BeginPipeline(name="alive"), b"{}").thread_id
    for _ in range(3):
        clock.pass_ms(4 * DAY_MS)
        store.ask(NotePipeline(thread=alive))
    store.ask(Sweep())

    assert store.ask(ShowThread(alive)).status == "open"
    with pytest.raises(Gone):
        store.ask(ShowThread(killed))


def test_a_step_ends_once_with_its_result_until_it_is_let_run_again() -> None:
    """Promises X4, T8."""
    store = local(Clock())
    run = store.ask(BeginPipeline(name="review"), b"{}").thread_id

    done = store.ask(FinishStep(thread=run, step="plan", has_result=True), b"the plan")
    with pytest.raises(Conflict, match="already ended: done"):
        store.ask(FinishStep(thread=run, step="plan", has_result=True), b"another")
    with pytest.raises(Conflict):
        store.ask(FinishStep(thread=run, step="plan", status="failed"))
    assert done.artifact is not None
    store.ask(FinishStep(thread=run, step="plan", status="pending"))
    store.ask(FinishStep(thread=run, step="plan", ref=done.artifact.ref, detail={"is_hit": True}))

    events = [each.event for each in store.ask(ReadEvents(run)).events]
    steps = [each.detail for each in events if each.type == "run.step"]
    assert [(each["status"], each["ref"]) for each in steps] == [
        ("done", done.artifact.ref),
        ("pending", None),
        ("done", done.artifact.ref),
    ]
    assert store.ask(ShowThread(run)).artifacts == 2  # The definition, and the plan.
