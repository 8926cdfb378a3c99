"""Threads of a kind: listed by it alone, never the last used one, gone after their end."""

from __future__ import annotations

import pytest

from contextrelay import Conflict, Gone, Refused
from contextrelay.doors.pipeline.record import RunRecord, follow
from contextrelay.model.settings import Settings
from contextrelay.wire.verbs import (
    EndThread,
    FindThreads,
    FinishStep,
    LastUsedThread,
    ListThreads,
    NewThread,
    OpenThread,
    ReadEvents,
    ShowThread,
    Sweep,
    UseThread,
)
from tests.core.clock import DAY_MS, Clock, local
from tests.core.keyed import holder, owner


def test_threads_of_a_kind_are_listed_by_it_alone_and_are_never_the_last_used_one() -> None:
    """Promise X4."""
    store = local(Clock())
    plain = store.ask(NewThread("review"))
    run = store.ask(NewThread("review", kind="pipeline"))

    store.ask(UseThread(plain.thread_id, "/here"))
    store.ask(UseThread(run.thread_id, "/here"))

    assert [each.thread_id for each in store.ask(ListThreads()).threads] == [plain.thread_id]
    of_kind = store.ask(ListThreads(kind="pipeline")).threads
    assert [(each.thread_id, each.kind) for each in of_kind] == [(run.thread_id, "pipeline")]
    assert store.ask(OpenThread("review")).thread_id == plain.thread_id
    assert [each.thread_id for each in store.ask(FindThreads("review"))] == [plain.thread_id]
    assert [each.thread_id for each in store.ask(LastUsedThread("/here"))] == [plain.thread_id]


def test_a_step_says_which_key_wrote_it_whatever_name_was_given() -> None:
    """Promise X4."""
    relay = owner()
    run = relay.transport.ask(NewThread("review", kind="pipeline")).thread_id
    detail = {"kind": "approve", "caller": "the boss"}

    for step, writer in (("a", holder(relay, name="ci")), ("b", relay)):
        writer.transport.ask(FinishStep(thread=run, step=step, detail=detail, by="ana"))

    record = RunRecord(run)
    follow(relay, record)
    assert {name: step.by for name, step in record.steps.items()} == {"a": "ci as ana", "b": "ana"}
    assert "caller" not in record.steps["b"].detail


def test_a_thread_of_a_kind_is_gone_as_long_after_its_end_as_the_setting_says() -> None:
    """Promise X4."""
    clock = Clock()
    store = local(clock, settings=Settings(ended_kept_s=2 * 86_400))
    run = store.ask(NewThread("review", kind="pipeline")).thread_id
    store.ask(EndThread(run, "pipeline.finished"))
    clock.pass_ms(DAY_MS)
    store.ask(EndThread(run, "pipeline.resumed", is_over=False))
    clock.pass_ms(5 * DAY_MS)
    store.ask(Sweep())
    assert store.ask(ShowThread(run)).status == "open"

    store.ask(EndThread(run, "pipeline.finished"))
    clock.pass_ms(2 * DAY_MS + 1)
    store.ask(Sweep())

    with pytest.raises(Gone):
        store.ask(ShowThread(run))
    assert store.ask(ListThreads(kind="pipeline")).threads == []


def test_a_run_that_is_killed_and_never_gone_on_with_is_gone_in_the_end() -> None:
    """Promise X4."""
    clock = Clock()
    store = local(clock, settings=Settings(ended_kept_s=10 * 86_400))
    killed = store.ask(NewThread("killed", kind="pipeline")).thread_id
    alive = store.ask(NewThread("alive", kind="pipeline")).thread_id
    for _ in range(3):
        clock.pass_ms(4 * DAY_MS)
        store.ask(EndThread(alive, "pipeline.alive", is_over=False))
    store.ask(Sweep())

    assert store.ask(ShowThread(alive)).status == "open"
    with pytest.raises(Gone):
        store.ask(ShowThread(killed))


def test_a_thread_that_somebody_works_on_does_not_end_so() -> None:
    store = local(Clock())
    thread = store.ask(NewThread("mine")).thread_id

    with pytest.raises(Refused, match="of no kind"):
        store.ask(EndThread(thread, "pipeline.finished"))


def test_a_step_ends_once_with_its_result_until_it_is_let_run_again() -> None:
    """Promises X4, T8."""
    store = local(Clock())
    run = store.ask(NewThread("review", kind="pipeline")).thread_id

    done = store.ask(FinishStep(thread=run, step="plan", has_result=True), b"the plan")
    with pytest.raises(Conflict, match="done already"):
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
    assert store.ask(ShowThread(run)).artifacts == 1
