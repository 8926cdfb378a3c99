"""Forged records: a write key changes no run of another, and decides under no other name.

What runs commands on somebody's machine was written by them: the store knows who began a run, and
takes its records from nobody else.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import encode

from contextrelay import Forbidden, Pipeline, Refused, Relay, RelayError
from contextrelay.core.answer import answer
from contextrelay.core.schema import RowKind
from contextrelay.core.threads.events import OUR_EVENTS
from contextrelay.core.threads.patch import append_event, new_event
from contextrelay.errors import Broken, NotFound
from contextrelay.model.names import thread_log
from contextrelay.model.pipeline import PipelineRun, RunEnded
from contextrelay.model.run import STEP_EVENT
from contextrelay.pipelines import runs
from contextrelay.pipelines.approval import ApprovalDecision
from contextrelay.pipelines.definition import Started
from contextrelay.store.ledger import ONLY, Row, Write
from contextrelay.verbs import (
    AddEvent,
    BeginPipeline,
    CancelPipeline,
    CopyThread,
    DecideStep,
    ExportThread,
    FinishStep,
    ImportThread,
    NotePipeline,
    NoteRun,
    Publish,
    ReadEvents,
    ResumePipeline,
)
from tests.core.keyed import holder, owner, stores_of


def forge(relay: Relay, thread: str, type: str, detail: dict[str, Any]) -> None:
    """Put an event into a log past all verbs, as a store by an earlier version may hold it."""
    stores = stores_of(relay)
    append_event(stores, thread, new_event(stores, type, "you", detail))


def stopped(relay: Relay, folder: Path) -> PipelineRun:
    """A run that failed at its first command."""
    pipeline = Pipeline("ship")
    pipeline.step("test", exec=["test", "-e", str(folder / "ready")])
    pipeline.step("pack", exec=["touch", str(folder / "packed")], needs=["test"])
    ended = pipeline.run(relay)
    assert ended.status == "failed"
    return ended


def evil(folder: Path) -> bytes:
    """The definition of a run that executes the attacker's command."""
    pipeline = Pipeline("ship")
    pipeline.step("test", exec=["touch", str(folder / "hacked")])
    return encode(Started(pipeline.definition(), {}))


@contextmanager
def unchanged(relay: Relay, run: str) -> Generator[None]:
    before = relay.transport.ask(ReadEvents(run)).events
    yield
    assert relay.transport.ask(ReadEvents(run)).events == before


@pytest.mark.parametrize("start", OUR_EVENTS)
def test_events_that_are_interpreted_are_added_by_no_writer(start: str) -> None:
    """Promise Z1."""
    relay = owner()
    thread = relay.new_thread("work").id

    for each in (holder(relay), relay):
        with pytest.raises(Refused, match="is reserved"):
            each.transport.ask(AddEvent(thread, f"{start}started", {}))


def test_a_writer_changes_nothing_of_a_run_of_another(tmp_path: Path) -> None:
    """Promises X4, Z1: the owner's resume runs the owner's commands."""
    relay = owner()
    attacker = holder(relay, name="untrusted-agent")
    ended = stopped(relay, tmp_path)

    with unchanged(relay, ended.run):
        for verb in (
            ResumePipeline(thread=ended.run),
            NotePipeline(thread=ended.run, ended=RunEnded(status="done")),
            FinishStep(thread=ended.run, step="test", status="pending"),
            FinishStep(thread=ended.run, step="test", detail={"kind": "exec"}),
        ):
            with pytest.raises(Forbidden, match="belongs to another caller"):
                attacker.transport.ask(verb)
    (tmp_path / "ready").touch()
    again = runs.retry(relay, ended.run, "test")

    assert again.status == "done"
    assert (tmp_path / "packed").exists()


def test_a_run_is_resumed_by_who_began_it_alone(tmp_path: Path) -> None:
    """Promises X4, Z1: also where the store's owner is asked to resume a writer's run."""
    relay = owner()
    attacker = holder(relay, name="untrusted-agent")
    run = attacker.transport.ask(BeginPipeline(name="ship"), evil(tmp_path)).thread_id

    for other in (relay, holder(relay, scope="admin")):
        with pytest.raises(Forbidden, match="belongs to another caller"):
            runs.resume(other, run, is_forced=True)

    assert not (tmp_path / "hacked").exists()
    assert runs.resume(attacker, run).status == "done"


def test_a_run_goes_on_with_the_definition_that_it_began_with(tmp_path: Path) -> None:
    """Promise X4: a second beginning, or another definition, breaks the run."""
    relay = owner()
    ended = stopped(relay, tmp_path)
    other = stopped(relay, tmp_path)
    definition = relay.push(evil(tmp_path)).ref
    begun = {"name": "ship", "definition": definition, "sha256": "0" * 64}
    forge(relay, ended.run, "pipeline.started", begun)
    (first,) = (
        each.event.detail
        for each in relay.transport.ask(ReadEvents(other.run)).events
        if each.event.type == "pipeline.started"
    )
    swapped = relay.transport.ask(BeginPipeline(name="ship"), b"{}").thread_id
    forge(relay, swapped, "pipeline.started", {**first, "definition": definition})

    for run in (ended.run, swapped):
        with pytest.raises(Broken):
            runs.resume(relay, run, is_forced=True)

    assert not (tmp_path / "hacked").exists()


def test_a_copy_and_an_import_of_a_run_are_shown_and_not_resumed(tmp_path: Path) -> None:
    """Promises X4, A3: an archive is somebody else's text."""
    relay = owner()
    ended = stopped(relay, tmp_path)
    stores = stores_of(relay)
    packed = answer(stores, ExportThread(ended.run)).whole()
    imported = answer(stores, ImportThread(), packed).thread_id
    copied = relay.transport.ask(CopyThread(ended.run)).thread_id
    (tmp_path / "ready").touch()

    for each in (imported, copied):
        with pytest.raises(Forbidden, match="is a copy"):
            runs.resume(relay, each, is_forced=True)
        with pytest.raises(Forbidden, match="is a copy"):
            relay.transport.ask(DecideStep(thread=each, step="test", is_approved=True))

    assert not (tmp_path / "packed").exists()
    assert runs.list_runs(relay)[0].run == ended.run


def test_a_run_without_a_known_owner_is_not_resumed(tmp_path: Path) -> None:
    """Promise X4: runs of earlier versions, whose events anybody may have written."""
    relay = owner()
    ended = stopped(relay, tmp_path)
    forgotten = Write(thread_log(ended.run), rows=(Row(RowKind.OWNER, ONLY, None),))
    stores_of(relay).ledger.commit(forgotten)

    with pytest.raises(Forbidden, match="by an earlier version"):
        runs.retry(relay, ended.run, "test")

    assert runs.show(relay, ended.run).status == "failed"


def waiting(relay: Relay, step: str = "ask", **detail: Any) -> str:
    run = relay.transport.ask(BeginPipeline(name="release"), evil(Path("/nowhere"))).thread_id
    said = {"kind": "approve", "question": "Go?", **detail}
    relay.transport.ask(FinishStep(thread=run, step=step, status="waiting", detail=said))
    return run


def test_an_approval_names_the_key_that_gave_it(tmp_path: Path) -> None:
    """Promises X4, Z1: a name that the caller gives is only a label behind it."""
    relay = owner()
    run = waiting(relay)
    agent = holder(relay, name="untrusted-agent")
    forged = {"kind": "approve", "decided_by": "ceo-key as ceo", "caller": "ceo-key"}

    with unchanged(relay, run):
        for verb in (
            AddEvent(run, STEP_EVENT, {**forged, "step": "ask", "status": "done"}, "ceo"),
            FinishStep(thread=run, step="ask", detail=forged, by="ceo"),
        ):
            with pytest.raises(Refused):
                agent.transport.ask(verb)
    view = runs.decided(agent, run, "ask", ApprovalDecision(True, "ceo-key as ceo"))

    assert view.by == '"untrusted-agent/ceo-key as ceo"'


def test_what_does_not_wait_is_not_decided() -> None:
    """Promise X4."""
    relay = owner()
    run = waiting(relay)
    decide = DecideStep(thread=run, step="ask", is_approved=True)

    with pytest.raises(NotFound, match="step 'other' is not waiting"):
        relay.transport.ask(DecideStep(thread=run, step="other", is_approved=True))
    with pytest.raises(RelayError, match="is waiting for a decision"):
        relay.transport.ask(FinishStep(thread=run, step="ask"))
    relay.transport.ask(decide)
    with pytest.raises(RelayError, match="already ended: done"):
        relay.transport.ask(decide)


def test_a_decision_on_a_channel_names_the_key_of_the_signal(tmp_path: Path) -> None:
    """Promise X4."""
    relay = owner()
    agent = holder(relay, name="untrusted-agent")
    pipeline = Pipeline("release")
    pipeline.step("ask", approve="Go?", channel="releases", timeout="20s")

    def hear(view: Any) -> None:
        if view.status == "waiting":
            message = {"step": "ask", "approve": True}
            agent.transport.ask(Publish("releases", message, "ceo-key as ceo"))

    ended = pipeline.run(relay, hear=hear)

    assert ended.steps["ask"].by == '"untrusted-agent/ceo-key as ceo" on releases'


def test_others_say_nothing_of_a_run_of_a_model() -> None:
    """Promise X5: a run's end is written by who began it."""
    relay = owner()
    thread = relay.new_thread("work")
    agent = holder(relay, name="untrusted-agent")
    thread.ask(NoteRun(thread=thread.id, run="r1", status="started", detail={"kind": "ask"}))

    agent.transport.ask(
        NoteRun(thread=thread.id, run="r1", status="failed", detail={"caller": "", "error": "x"})
    )

    assert thread.trace().runs[0].status == "running"


@pytest.mark.parametrize(
    ("type", "detail"),
    [
        ("pipeline.resumed", {"budget": "x"}),
        ("pipeline.finished", {"status": "done", "duration_ms": "x"}),
        ("pipeline.finished", {"status": ["done"]}),
        (STEP_EVENT, {"step": "test", "status": "done", "tokens_in": "x"}),
        (STEP_EVENT, {"step": "test", "status": "done", "price": "NaN"}),
    ],
)
def test_a_run_with_an_invalid_event_is_shown_as_broken(
    tmp_path: Path, type: str, detail: dict[str, Any]
) -> None:
    """Promise X4: it hides no other run, and is not resumed."""
    relay = owner()
    good, bad = stopped(relay, tmp_path), stopped(relay, tmp_path)
    forge(relay, bad.run, type, detail)

    shown = runs.show(relay, bad.run)

    assert shown.status == "broken"
    assert type in shown.reason
    assert {each.run: each.status for each in runs.list_runs(relay)} == {
        good.run: "failed",
        bad.run: "broken",
    }
    with pytest.raises(Broken):
        runs.resume(relay, bad.run)


def test_a_signal_that_decides_is_named_by_the_store_and_not_by_the_run() -> None:
    """Promise X4. The run's owner is not recorded as the one who decided."""
    root = owner()
    ceo = holder(root, name="ceo-key")
    run = waiting(ceo)
    agent = holder(root, name="untrusted-agent")
    signal = agent.transport.ask(
        Publish("rel", {"step": "ask", "approve": True}, by="ceo-key as ceo")
    )

    view = runs.decided(ceo, run, "ask", ApprovalDecision(True, channel="rel", signal=signal.seq))

    assert view.by == '"untrusted-agent/ceo-key as ceo" on rel'
    with pytest.raises(NotFound, match="signal 9 not found"):
        ceo.transport.ask(
            DecideStep(thread=run, step="ask", is_approved=True, channel="rel", signal=9)
        )


def test_without_a_key_nobody_is_recorded_as_one() -> None:
    """Promise X4. A store with keys names a caller without one so."""
    relay = owner()
    holder(relay, name="ceo-key")

    view = runs.decided(relay, waiting(relay), "ask", ApprovalDecision(True, "ceo-key as ceo"))

    assert view.by == 'no key as "ceo-key as ceo"'


@pytest.mark.parametrize(
    ("by", "shown"),
    [
        ("ceo-key as ceo on rel", '"ceo-key as ceo on rel"'),
        ("ceo on", '"ceo on"'),
        ('"ceo-key" as', '"\\"ceo-key\\" as"'),
        ("Jason Bason", "Jason Bason"),
    ],
)
def test_a_label_does_not_imitate_a_decision_by_a_signal(by: str, shown: str) -> None:
    """Promise X4. Nor in a store without keys."""
    relay = owner()

    view = runs.decided(relay, waiting(relay), "ask", ApprovalDecision(True, by))

    assert view.by == shown


def test_only_the_owner_says_that_a_process_is_gone() -> None:
    """Promise X4."""
    relay = owner()
    run = waiting(relay)
    agent = holder(relay, name="untrusted-agent")

    with unchanged(relay, run), pytest.raises(Forbidden):
        agent.transport.ask(CancelPipeline(thread=run, is_gone=True))
    agent.transport.ask(CancelPipeline(thread=run))


def test_a_run_whose_event_cannot_be_read_is_listed_as_broken() -> None:
    """Promise X4. The others are listed as they are."""
    relay = owner()
    well, damaged = waiting(relay), waiting(relay)
    ledger = stores_of(relay).ledger
    ledger.commit(Write(thread_log(damaged), (b"\xff\x00\xfe",)))

    listed = {each.run: each.status for each in runs.list_runs(relay)}

    assert listed[damaged] == "broken"
    assert listed[well] != "broken"


def test_a_run_whose_definition_cannot_be_read_is_listed_as_broken() -> None:
    """Any caller that may write can begin a run with any body."""
    relay = owner()
    relay.transport.ask(BeginPipeline(name="g"), b"garbage")

    (listed,) = runs.list_runs(relay)

    assert (listed.name, listed.status) == ("g", "broken")
    assert "definition" in listed.reason
