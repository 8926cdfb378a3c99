"""States against a plain model: whatever is done to a thread, it is what a simple copy would be."""

from __future__ import annotations

import copy
import json
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from contextrelay import Conflict, Refused, Relay
from contextrelay.client.thread import Thread
from contextrelay.client.transport.local import Local
from contextrelay.core.stores import Stores
from contextrelay.model.settings import Settings
from contextrelay.store.engine import Engine, open_engine
from contextrelay.verbs import (
    ForkThread,
    List,
    NewThread,
    PatchState,
    Pull,
    Push,
    ReadState,
    RemoveThread,
    RestoreState,
    ShowThread,
    Sweep,
    TryPatch,
    Verify,
)
from tests.core.clock import DAY_MS, HOUR_MS, Clock, local
from tests.rigs import length, rig
from tests.store.stutter import Stopped, StutterLedger

Document = dict[str, Any]
OF_A_VERSION = ("thread_id", "version", "updated_at", "metrics")


def fact(key: str, value: object) -> Document:
    return {"op": "add", "path": "/facts/-", "value": {"id": key, "key": key, "value": value}}


def plain(state: Document) -> Document:
    return {key: value for key, value in state.items() if key not in OF_A_VERSION}


class Histories(RuleBasedStateMachine):
    """Patches, restores, forks, merges and reopenings, compared with lists of plain copies."""

    @initialize()
    def begin(self) -> None:
        self.engine = open_engine("memory:")
        self.clock = Clock()
        self.core = local(self.clock, self.engine)
        self.histories: dict[str, list[Document]] = {}
        self._begun(self.core.ask(NewThread()).thread_id)

    def _begun(self, thread: str) -> None:
        self.histories[thread] = [plain(self._state(thread))]

    def _state(self, thread: str, version: int | None = None) -> Document:
        return json.loads(bytes(self.core.ask(ReadState(thread, version)).state))

    def _thread(self, number: int) -> str:
        return list(self.histories)[number % len(self.histories)]

    @rule(number=some.integers(0, 9), key=some.text(max_size=5), value=some.integers())
    def add_a_fact(self, number: int, key: str, value: int) -> None:
        thread = self._thread(number)
        bounded = value % 1000
        self.core.ask(PatchState(thread, [fact(key, bounded)]))
        after = copy.deepcopy(self.histories[thread][-1])
        after["facts"].append({"id": key, "key": key, "value": bounded})
        self.histories[thread].append(after)

    @rule(number=some.integers(0, 9), index=some.integers(0, 5))
    def remove_a_fact(self, number: int, index: int) -> None:
        thread = self._thread(number)
        after = copy.deepcopy(self.histories[thread][-1])
        operation = {"op": "remove", "path": f"/facts/{index}"}
        if index < len(after["facts"]):
            self.core.ask(PatchState(thread, [operation]))
            del after["facts"][index]
            self.histories[thread].append(after)
        else:
            with pytest.raises(Refused):
                self.core.ask(PatchState(thread, [operation]))

    @rule(number=some.integers(0, 9), back=some.integers(0, 5))
    def merge_an_append(self, number: int, back: int) -> None:
        thread = self._thread(number)
        history = self.histories[thread]
        expected = max(1, len(history) - back)
        operation = {"op": "add", "path": "/note", "value": len(history)}
        try:
            self.core.ask(PatchState(thread, [operation], expected, merge=True))
        except Conflict:
            assert expected < len(history)
            return
        history.append({**copy.deepcopy(history[-1]), "note": len(history)})

    @rule(number=some.integers(0, 9), version=some.integers(1, 50))
    def restore(self, number: int, version: int) -> None:
        thread = self._thread(number)
        history = self.histories[thread]
        version = min(version, len(history))
        patched = self.core.ask(RestoreState(thread, version))
        if patched.operations:
            history.append(copy.deepcopy(history[version - 1]))
        else:
            assert history[-1] == history[version - 1]

    @rule(number=some.integers(0, 9), version=some.integers(1, 50))
    def fork(self, number: int, version: int) -> None:
        thread = self._thread(number)
        version = min(version, len(self.histories[thread]))
        made = self.core.ask(ForkThread(thread, version)).thread_id
        self.histories[made] = [copy.deepcopy(self.histories[thread][version - 1])]

    @rule()
    def reopen(self) -> None:
        """Another process, or this one after a crash: it has only the log."""
        self.core = local(self.clock, self.engine)

    @invariant()
    def every_version_is_what_it_was(self) -> None:
        for thread, history in getattr(self, "histories", {}).items():
            assert self.core.ask(ShowThread(thread)).version == len(history)
            for version in {1, len(history) // 2 + 1, len(history)}:
                assert plain(self._state(thread, version)) == history[version - 1]


Histories.TestCase.settings = settings(
    max_examples=length(15, 60, 600), stateful_step_count=25, deadline=None
)
TestHistories = Histories.TestCase


def test_a_snapshot_changes_nothing_but_the_time_it_takes(tmp_path: Path) -> None:
    """Promise T5: storage grows with the patches, not with versions x state."""
    relay = Relay(tmp_path / "store")
    thread = relay.new_thread()
    replace = {"op": "replace", "path": "/facts/0/value"}
    thread.patch([fact("a", 0)])
    for number in range(400):
        thread.patch([{**replace, "value": number}])

    ledger = relay.transport.stores.ledger
    snapshots = ledger.rows(f"t/{thread.id}", "snapshot", "", 100)
    patches = sum(len(each.body) for each in ledger.read(f"t/{thread.id}", 0, 10_000))
    again = Relay(tmp_path / "store")

    assert snapshots
    assert sum(len(row.body or b"") for row in snapshots) <= patches / 2
    for version in (2, 3, 150, 401, 402):
        assert again.thread(thread.id).state(version)["facts"][0]["value"] == max(0, version - 3)
    assert again.verify().problem_count == 0
    relay.close()
    again.close()


def test_a_patch_that_changes_nothing_makes_no_version(tmp_path: Path) -> None:
    """Promise T4: empty, or tests alone; a wrong version and a failed test are still refused."""
    with Relay(str(tmp_path)) as relay, Relay(str(tmp_path)) as other:
        thread = relay.new_thread("notes")
        thread.patch([fact("a", 1)])
        other.thread(thread.id).patch([fact("b", 2)])
        is_one = {"op": "test", "path": "/facts/0/value", "value": 1}

        answers = [thread.patch([]), thread.patch([is_one]), thread.patch([], expected=3)]

        assert [answer.version for answer in answers] == [3, 3, 3]
        assert thread.ask(TryPatch(thread.id, [])).version == 3
        assert thread.show().events == 4
        with pytest.raises(Conflict):
            thread.patch([], expected=2)
        with pytest.raises(Conflict) as failed:
            thread.patch([{**is_one, "value": 2}])
        assert failed.value.details["version"] == 3


def test_compaction_keeps_old_versions_readable(tmp_path: Path) -> None:
    """Promise T7."""
    relay = Relay("memory:")
    thread = relay.new_thread()

    def act(number: int) -> Document:
        value = {"at": f"2026-01-01T00:00:{number % 60:02d}Z", "description": f"step {number}"}
        return {"op": "add", "path": "/last_actions/-", "value": value}

    for number in range(60):
        thread.patch([act(number)])

    state = thread.state()
    assert len(state["last_actions"]) == 50
    assert "compacted" in state["session_summary"]
    assert thread.state(11)["last_actions"][0]["description"] == "step 0"
    assert relay.verify().problem_count == 0


# Crashes, on an engine that stops after any write


def put(core: Local, thread: str) -> None:
    core.ask(Push(thread=thread), b"put " * 20_000)


def patch(core: Local, thread: str) -> None:
    core.ask(PatchState(thread, [fact("b", 2)]))


def refer(core: Local, thread: str) -> None:
    artifact = core.ask(Push(), b"elsewhere")
    entry = {"ref": artifact.ref, "type": artifact.type}
    core.ask(PatchState(thread, [{"op": "add", "path": "/artifacts/-", "value": entry}]))


def fork(core: Local, thread: str) -> None:
    core.ask(Push(thread=thread), b"shared")
    core.ask(ForkThread(thread))


def remove(core: Local, thread: str) -> None:
    made = core.ask(NewThread("short")).thread_id
    core.ask(Push(thread=made), b"gone with it" * 10_000)
    core.ask(RemoveThread(made))


@pytest.mark.parametrize("scenario", [put, patch, refer, fork, remove])
def test_any_prefix_of_a_change_does_no_harm(scenario: Callable[[Local, str], None]) -> None:
    """Promise T3: atomic."""
    for stops_after in range(100):
        engine = open_engine("memory:")
        clock = Clock()
        before = local(clock, engine)
        thread = before.ask(NewThread("kept")).thread_id
        before.ask(PatchState(thread, [fact("a", 1)]))
        stuttering = Engine("stutter", StutterLedger(engine.ledger, stops_after), engine.blobs)
        try:
            scenario(Local(Stores(stuttering, Settings(), clock)), thread)
        except Stopped:
            _check(local(clock, engine), clock, thread, f"{scenario.__name__} after {stops_after}")
        else:
            assert stops_after >= 1
            return
    pytest.fail("the scenario never ends")


def _check(core: Local, clock: Clock, thread: str, when: str) -> None:
    for _ in range(2):
        state = json.loads(bytes(core.ask(ReadState(thread)).state))
        assert state["facts"][0]["value"] == 1, when
        for each in state["artifacts"]:
            assert core.ask(Pull(each["ref"])).whole(), when
        for artifact in core.ask(List(100)).artifacts:
            assert core.ask(Pull(artifact.ref)).whole(), when
        clock.pass_ms(2 * HOUR_MS)
        core.ask(Sweep())
        assert core.ask(Verify()).problems == [], when
    core.ask(RemoveThread(thread))
    clock.pass_ms(31 * DAY_MS)
    core.ask(Sweep())
    clock.pass_ms(31 * DAY_MS)
    core.ask(Sweep())
    assert core.ask(Verify()).problems == [], when


# Many processes

WRITERS = 16
PATCHES = length(8, 60, 60)
# Forked from a process that has only imported: they have nothing in common.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


def _patch_often(folder: str, thread: str, number: int, done: Connection) -> None:
    with Relay(folder) as relay:
        handle = Thread(relay, thread)
        done.send("ready")
        done.recv()
        start = time.monotonic()
        for index in range(PATCHES):
            handle.patch([fact(f"{number}-{index}", index)])
        done.send(time.monotonic() - start)


@rig
def test_sixteen_processes_patch_one_thread_and_lose_nothing(tmp_path: Path) -> None:
    """Promise T4: every version once, no error seen by a caller."""
    folder = str(tmp_path / "store")
    with Relay(folder) as relay:
        thread = relay.new_thread()
        pipes = [_processes.Pipe() for _ in range(WRITERS)]
        writers = [
            _processes.Process(target=_patch_often, args=(folder, thread.id, number, child))
            for number, (_, child) in enumerate(pipes)
        ]
        for writer in writers:
            writer.start()
        for mine, _ in pipes:
            assert mine.poll(60)
            mine.recv()
        for mine, _ in pipes:
            mine.send("go")
        taken = sorted(_received(mine) for mine, _ in pipes)
        for writer in writers:
            writer.join(60)

        facts = thread.state()["facts"]
        assert len({each["id"] for each in facts}) == WRITERS * PATCHES
        assert thread.show().version == 1 + WRITERS * PATCHES
        assert relay.verify().problem_count == 0
    assert taken[-1] <= 5 * taken[len(taken) // 2]


def _received(mine: Connection) -> float:
    assert mine.poll(120), "a writer did not finish"
    return mine.recv()
