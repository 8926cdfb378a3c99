"""Turns: many processes write to one store; each gets its turn, readers do not wait, forks work."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Relay
from contextrelay.errors import Unavailable
from contextrelay.store.ledger import Stale, Write
from contextrelay.store.ledger.sqlite import Connect, SqliteLedger
from tests.rigs import length, rig
from tests.store.waiting import until

WRITERS = 16
COMMITS = length(thin=100, long=200, full=200)
WAIT_S_MAX = 120
LOG = "t/one"

# Forked from a process that has only imported: they have nothing in common.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


def _plainly(ledger: SqliteLedger, number: int) -> None:
    ledger.commit(Write(LOG, (b"%d" % number,)))


def _expecting(ledger: SqliteLedger, number: int) -> None:
    """As core does it: read the head, commit on it, and look again if it moved."""
    while True:
        try:
            ledger.commit(Write(LOG, (b"%d" % number,), expect=ledger.last(LOG)))
        except Stale:
            continue
        return


def _write(folder: Path, number: int, is_expecting: bool, line: Connection) -> None:
    """Commit COMMITS times, and report when each was done."""
    ledger = SqliteLedger(folder / "relay.db")
    act = _expecting if is_expecting else _plainly
    line.send("ready")
    assert line.poll(WAIT_S_MAX)
    line.recv()
    done_at: list[float] = []
    for _ in range(COMMITS):
        act(ledger, number)
        done_at.append(time.monotonic())
    line.send(done_at)
    ledger.close()


def write_together(folder: Path, is_expecting: bool) -> list[list[float]]:
    """Let all writers go at once; for each, when its commits were done."""
    lines: list[Connection] = []
    processes: list[ForkServerProcess] = []
    for number in range(WRITERS):
        ours, theirs = _processes.Pipe()
        process = _processes.Process(target=_write, args=(folder, number, is_expecting, theirs))
        process.start()
        theirs.close()
        lines.append(ours)
        processes.append(process)
    for line in lines:
        assert _received(line) == "ready"
    for line in lines:
        line.send("go")
    done_at = [_received(line) for line in lines]
    for process in processes:
        process.join(WAIT_S_MAX)
        assert process.exitcode == 0
    return done_at


def _received(line: Connection) -> list[float]:
    assert line.poll(WAIT_S_MAX), "a writer was not heard of in time"
    return line.recv()


@rig
@pytest.mark.parametrize("is_expecting", [False, True])
def test_sixteen_processes_commit_to_one_log_and_none_starves(is_expecting: bool) -> None:
    """Promise G1. Every seq once, no error, and nobody is left behind.

    Fairness is counted, not timed: by the moment the first writer is done with all its commits,
    each of the others, which had the same time, is at a fifth or more of the median. A writer
    that only retries on `expect` takes turns at trying; which one wins is chance, so only starving
    counts.
    """
    # On a disk: in memory one writer could be done with all before the next gets its processor.
    with tempfile.TemporaryDirectory() as folder:
        done_at = write_together(Path(folder), is_expecting)

        ledger = SqliteLedger(Path(folder) / "relay.db")
        facts = ledger.read(LOG, 0, WRITERS * COMMITS + 1)
        ledger.close()
    assert [fact.seq for fact in facts] == list(range(1, WRITERS * COMMITS + 1))
    assert sorted(fact.body for fact in facts) == sorted(
        b"%d" % number for number in range(WRITERS) for _ in range(COMMITS)
    )
    first_done = min(times[-1] for times in done_at)
    counts = [sum(at <= first_done for at in times) for times in done_at]
    assert min(counts) * 5 >= statistics.median(counts), counts


def _read_all(folder: Path, line: Connection) -> None:
    with Relay(folder) as relay:
        listed = relay.list().artifacts
        line.send([relay.pull(artifact.ref) for artifact in listed])


def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    """A write transaction is held open in this process until another one has read everything."""
    with Relay(tmp_path) as relay:
        relay.push(b"small")
    ours, theirs = _processes.Pipe()
    reader = _processes.Process(target=_read_all, args=(tmp_path, theirs))
    holder = SqliteLedger(tmp_path / "relay.db")
    turns, writer = holder._turns, holder._writer  # pyright: ignore[reportPrivateUsage]
    assert turns is not None
    with turns:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM row")

        reader.start()

        assert ours.poll(WAIT_S_MAX), "the reader waited"
        assert ours.recv() == [b"small"]
        writer.execute("ROLLBACK")
    reader.join(WAIT_S_MAX)
    holder.close()


# Ctrl-C


def _interrupted_after(sql: str, path: Path) -> Connect:
    """Connections of which one raises KeyboardInterrupt after the next such statement."""

    class Interrupted(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            done = super().execute(statement, *values)
            if statement == sql and (path / "armed").exists():
                (path / "armed").unlink()
                raise KeyboardInterrupt
            return done

    return lambda file: sqlite3.connect(
        file, isolation_level=None, check_same_thread=False, factory=Interrupted
    )


@pytest.mark.parametrize("sql", ["BEGIN IMMEDIATE", "COMMIT"])
def test_a_write_learns_its_outcome_from_an_interrupted_leader(tmp_path: Path, sql: str) -> None:
    """A write that was committed is not reported as failed, or its retry would store it twice."""
    ledger = SqliteLedger(tmp_path / "relay.db", _interrupted_after(sql, tmp_path))
    queue = ledger._queue  # pyright: ignore[reportPrivateUsage]
    outcomes: dict[str, list[int] | str] = {}

    def write(name: str) -> None:
        try:
            outcomes[name] = ledger.commit(Write(name, (b"1",)))
        except (KeyboardInterrupt, Unavailable) as error:
            outcomes[name] = type(error).__name__

    threads = [threading.Thread(target=write, args=(name,)) for name in ("leader", "follower")]
    queued = queue._waiting  # pyright: ignore[reportPrivateUsage]
    with queue.between_commits():
        (tmp_path / "armed").touch()
        threads[0].start()
        until(lambda: len(queued) == 1, "the leader's write")
        threads[1].start()
        until(lambda: len(queued) == 2, "the follower's write")
    for thread in threads:
        thread.join(WAIT_S_MAX)

    is_stored = sql == "COMMIT"
    assert outcomes == {
        "leader": "KeyboardInterrupt",
        "follower": [1] if is_stored else "Unavailable",
    }
    assert ledger.last("follower") == ledger.last("leader") == int(is_stored)
    assert ledger.commit(Write("later", (b"1",))) == [1]
    ledger.close()


# Forks


def _forked(act: Callable[[], None]) -> int:
    """Fork a child that does something and ends; its pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        act()
        status = 0
    finally:
        os._exit(status)


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_relay_opened_before_a_fork_works_in_parent_and_child(tmp_path: Path) -> None:
    """Promise G1. Both push and remove at once; what both did is there, and verify is clean."""
    large = bytes(100_000)
    with Relay(tmp_path) as relay:
        before = relay.push(b"before the fork").ref

        def push_some(who: str) -> None:
            for number in range(50):
                relay.push(f"{who} {number}")
                removed = relay.push(large + b"%d" % (number % 3))
                relay.remove(removed.ref)
            assert relay.pull(before) == b"before the fork"

        children = [_forked(lambda: push_some("child")) for _ in range(2)]
        push_some("parent")
        statuses = [os.waitpid(pid, 0)[1] for pid in children]

        assert statuses == [0, 0]
        bodies = {relay.pull(each.ref) for each in relay.list(limit=1_000).artifacts}
        texts = {f"{who} {number}".encode() for who in ("parent", "child") for number in range(50)}
        assert bodies == texts | {b"before the fork"}
        assert relay.verify().problems == []


def _fork_in_a_turn_and_die(folder: Path, line: Connection) -> None:
    """Fork while the turn is ours, as a thread's commit may have it, and be killed in it."""
    relay = Relay(folder)
    ledger = relay.transport.stores.ledger
    assert isinstance(ledger, SqliteLedger)
    turns = ledger._turns  # pyright: ignore[reportPrivateUsage]
    assert turns is not None
    with turns:
        if os.fork() == 0:
            line.send("child is up")
            line.recv()  # Until the parent of both has seen enough.
            os._exit(0)
        signal.pause()


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_forked_child_does_not_keep_the_turn_of_its_dead_parent(tmp_path: Path) -> None:
    """A lock belongs to the file as it was opened: a child that keeps it open keeps the lock."""
    ours, theirs = _processes.Pipe()
    spawning = multiprocessing.get_context("spawn")  # It has to be a child of ours.
    parent = spawning.Process(target=_fork_in_a_turn_and_die, args=(tmp_path, theirs))
    parent.start()
    theirs.close()
    assert ours.poll(WAIT_S_MAX)
    ours.recv()
    parent.kill()
    assert parent.pid is not None
    # Not join: it waits for the end of a pipe that the child has open as well.
    os.waitid(os.P_PID, parent.pid, os.WEXITED | os.WNOWAIT)
    pushed, child_end = _processes.Pipe()
    other = _processes.Process(target=_push_one, args=(tmp_path, child_end))
    other.start()
    try:
        assert pushed.poll(20), "a push waits for the turn of a process that is dead"
    finally:
        ours.send("enough")
        other.kill()
        other.join(WAIT_S_MAX)
        parent.join(WAIT_S_MAX)


def _push_one(folder: Path, line: Connection) -> None:
    with Relay(folder) as relay:
        relay.push(b"after the death of another")
        line.send("pushed")
