"""Restores that were cut short: nothing that was acknowledged is ever erased by the next one.

While a restore is unfinished the store takes no writes and gives out no part of its content; every
command says what to do. It is cut short at each of its steps, on every engine.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest

from contextrelay import Conflict, Invalid, Relay, Unavailable
from contextrelay.core.backup import FILLING, LOOKING, BackupPart
from contextrelay.store.ledger import LOCK_KIND, LOCK_LOG, ONLY, UNLOCKED, Row, Write, lock_token
from tests.cli.shell import Shell
from tests.rigs import length, rig
from tests.security.test_restore import end, page, tar
from tests.server.serving import serving
from tests.store import engines
from tests.store.engines import Servers

LARGE = Random(5).randbytes(100_000)
STEPS_MAX = 40
# Every step is tried where the rig runs long, one of so many elsewhere.
STRIDE = length(thin=4, long=1, full=1)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else reads in these tests, but in the one about readers."""
    monkeypatch.setattr("contextrelay.core.backup.LOCK_TRUSTED_S", 0)


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backup")
    with Relay(folder / "store") as relay:
        relay.push(LARGE, name="large", ttl_s=None)
        relay.push(b"one", name="one", ttl_s=None)
        relay.new_thread("notes").put("kept", name="two")
        relay.backup(folder / "backup.tar")
    return folder / "backup.tar"


@pytest.fixture(params=["sqlite", "redis", "redis-cluster"])
def new_address(
    request: pytest.FixtureRequest, servers: Servers, tmp_path: Path, no_waiting: None
) -> Callable[[], str]:
    """Addresses of empty stores on one engine."""
    if request.param == "sqlite":
        return lambda: str(tmp_path / engines.new_prefix())
    url = engines.url_of(request.param, servers)
    return lambda: f"{url}?prefix={engines.new_prefix()}"


@pytest.fixture
def address(new_address: Callable[[], str]) -> str:
    return new_address()


class Killed(BaseException):
    """As good as a kill: nobody catches it."""


@contextmanager
def killed_at(relay: Relay, step: int, is_after: bool) -> Generator[list[str]]:
    """Stop before or after the n-th change of the store; the names of those that were done."""
    done: list[str] = []
    stores = relay.transport.stores

    def counted(name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **named: Any) -> Any:
            if len(done) == step and not is_after:
                raise Killed
            answer = act(*args, **named)
            done.append(name)
            if len(done) > step:
                raise Killed
            return answer

        return changed

    with pytest.MonkeyPatch.context() as patch:
        for name in ("commit", "trim", "drop", "swap_lock"):
            patch.setattr(stores.ledger, name, counted(name, getattr(stores.ledger, name)))
        patch.setattr(stores.blobs, "draft", counted("draft", stores.blobs.draft))
        try:
            yield done
        except Killed:
            done.append("killed")


def is_locked(relay: Relay) -> bool:
    return relay.transport.stores.ledger.locked_by() != UNLOCKED


def names(relay: Relay) -> list[str]:
    return sorted(artifact.name or "" for artifact in relay.list().artifacts)


def check_locked(relay: Relay) -> None:
    """Nothing is taken or given out, and everything says what to do."""
    for act in (
        lambda: relay.push(b"mine"),
        lambda: relay.push_many([b"mine", b"too"]),
        lambda: relay.thread("mine"),
        lambda: relay.publish("mine", {"a": 1}),
        lambda: relay.list(),
        lambda: relay.search("kept"),
        lambda: relay.sweep(),
    ):
        with pytest.raises(Unavailable) as refused:
            act()
        assert "relay restore" in refused.value.hint
    problems = relay.verify().problems
    assert [problem.what for problem in problems] == [
        "a restore or migration into this store is not finished"
    ]
    assert "relay restore" in problems[0].next_step


@rig
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
def test_a_restore_that_is_killed_at_any_step_takes_no_write_with_it(
    new_address: Callable[[], str], backup: Path, is_after: bool
) -> None:
    step = 0
    for step in range(0, STEPS_MAX, STRIDE):
        address = new_address()
        with Relay(address) as relay, killed_at(relay, step, is_after) as done:
            relay.restore(backup)
        if "killed" not in done:
            break
        with Relay(address) as relay:
            if is_locked(relay):
                check_locked(relay)
                assert relay.restore(backup).bodies == 1
            elif not relay.list().artifacts:
                relay.restore(backup)
            assert names(relay) == ["large", "one", "two"]
            assert relay.verify().problem_count == 0

            mine = relay.push(b"mine", ttl_s=None).ref
            with pytest.raises(Conflict):
                relay.restore(backup)
            assert relay.pull(mine) == b"mine"
    else:
        raise AssertionError("it never came to an end")
    assert step > 5


def test_what_an_unfinished_restore_wrote_can_be_given_up(address: str, backup: Path) -> None:
    with Relay(address) as relay, killed_at(relay, 6, is_after=True):
        relay.restore(backup)
    with Relay(address) as relay:
        check_locked(relay)

        relay.abandon_restore()

        assert relay.list().artifacts == []
        ref = relay.push(b"mine").ref
        with pytest.raises(Invalid):
            relay.abandon_restore()
        assert relay.pull(ref) == b"mine"


def test_a_store_that_was_not_found_empty_is_never_erased(address: str, backup: Path) -> None:
    """A write that came just before the lock; a crash came before anybody looked again."""
    with Relay(address) as relay:
        mine = relay.push(b"mine", ttl_s=None).ref
        relay.transport.stores.ledger.swap_lock(UNLOCKED, LOOKING + b"0011")
    with Relay(address) as relay:
        check_locked(relay)

        with pytest.raises(Conflict):
            relay.restore(backup)

        assert relay.pull(mine) == b"mine"
        relay.transport.stores.ledger.swap_lock(UNLOCKED, LOOKING + b"2233")
    with Relay(address) as relay:
        check_locked(relay)

        relay.abandon_restore()

        assert relay.pull(mine) == b"mine"


def test_of_two_restores_only_the_one_that_began_last_writes(address: str, backup: Path) -> None:
    with Relay(address) as first, Relay(address) as second:
        with killed_at(first, 6, is_after=True):
            first.restore(backup)
        old = first.transport.stores.ledger.locked_by()

        second.restore(backup)

        with lock_token(old), pytest.raises(Unavailable):
            first.transport.stores.ledger.commit(Write("a/late", (b"late",)))
        assert names(second) == ["large", "one", "two"]
        assert second.verify().problem_count == 0


def test_a_write_that_is_on_its_way_when_a_restore_begins_is_refused(address: str) -> None:
    with Relay(address) as relay, Relay(address) as other:
        ledger = other.transport.stores.ledger
        other.list()  # It has looked, and found no lock.
        assert ledger.swap_lock(UNLOCKED, FILLING + b"0011")

        for act in (
            lambda: relay.transport.stores.ledger.commit(Write("a", (b"fact",))),
            lambda: relay.transport.stores.ledger.trim("a", 5),
            lambda: relay.transport.stores.ledger.drop("a", 0),
        ):
            with pytest.raises(Unavailable):
                act()

        assert [log for log in ledger.logs("", "", 9) if log != LOCK_LOG] == []


def test_a_backup_that_brings_a_lock_locks_nothing(tmp_path: Path) -> None:
    rows = [Row(LOCK_KIND, ONLY, FILLING + b"x"), Row("unfinished", ONLY, b"")]
    parts = BackupPart(LOCK_LOG, 0, [], rows, True), BackupPart("a/x", 0, [b"fact"], [], True)
    members = ("ledger/00000000", page(*parts)), ("end", end(logs=2))
    (tmp_path / "hostile.tar").write_bytes(tar(*members))
    with Relay(tmp_path / "store") as relay:
        relay.restore(tmp_path / "hostile.tar")

        assert not is_locked(relay)
        assert relay.verify().problem_count == 0
        relay.push(b"mine")


def test_what_an_earlier_version_left_unfinished_is_named_and_not_erased(
    tmp_path: Path, backup: Path
) -> None:
    """Its row kept nobody out: what is there now may be somebody's."""
    with Relay(tmp_path) as relay:
        row = Row("unfinished", ONLY, b"")
        relay.transport.stores.ledger.commit(Write(LOCK_LOG, rows=(row,)))
        mine = relay.push(b"mine", ttl_s=None).ref

        with pytest.raises(Conflict):
            relay.restore(backup)

        assert relay.pull(mine) == b"mine"
        assert "was interrupted" in relay.verify().problems[0].what


def test_readers_that_looked_before_see_nothing_of_it(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader looks at the lock now and then; the restore waits that long before it writes."""
    monkeypatch.undo()
    with ExitStack() as opened:
        reader, writer = (opened.enter_context(Relay(tmp_path)) for _ in range(2))
        seen: list[list[str] | str] = []
        ledger = writer.transport.stores.ledger
        commit = ledger.commit

        def watched(*writes: Write) -> list[int]:
            try:
                if ledger.locked_by() != UNLOCKED:
                    seen.append(names(reader))
            except Unavailable as error:
                seen.append(error.code)
            return commit(*writes)

        monkeypatch.setattr(ledger, "commit", watched)
        assert names(reader) == []

        writer.restore(backup)

        assert set(map(str, seen)) == {"unavailable"}
        assert names(reader) == ["large", "one", "two"]


CHILD = """
import os, signal, sys
from contextrelay import Relay
from contextrelay.core import backup
backup.LOCK_TRUSTED_S = 0
from contextrelay.store.ledger import sqlite
step, folder, file = int(sys.argv[1]), sys.argv[2], sys.argv[3]
commits = 0
def trace(statement):
    global commits
    if statement == "COMMIT":
        commits += 1
        if commits > step:
            os.kill(os.getpid(), signal.SIGKILL)
plain = sqlite.connect
def connect(path):
    connection = plain(path)
    connection.set_trace_callback(trace)
    return connection
ledger = sqlite.SqliteLedger
sqlite.SqliteLedger = lambda path: ledger(path, connect)
with Relay(folder) as relay:
    relay.restore(file)
"""


@rig
def test_a_process_killed_at_every_commit_loses_no_later_push(tmp_path: Path, backup: Path) -> None:
    """Promise G1. The attack: kill a restore, push, restore again; the push was gone."""
    kills = 0
    for step in range(3, STEPS_MAX, STRIDE):  # The first three make the schema.
        folder = tmp_path / str(step)
        child = [sys.executable, "-c", CHILD, str(step), str(folder), str(backup)]
        code = subprocess.run(child, timeout=120).returncode
        if code == 0:
            break
        assert code == -signal.SIGKILL
        kills += 1
        with Relay(folder) as relay:
            pushed = None
            if is_locked(relay):
                check_locked(relay)
            else:
                pushed = relay.push(b"mine", ttl_s=None).ref
            try:
                relay.restore(backup)
            except Conflict:
                assert pushed is not None
            if pushed is not None:
                assert relay.pull(pushed) == b"mine"
            else:
                assert names(relay) == ["large", "one", "two"]
            assert relay.verify().problem_count == 0
    else:
        raise AssertionError("it never came to an end")
    assert kills > 3 // STRIDE


# Through the doors


def locked_store(folder: Path, backup: Path) -> None:
    with Relay(folder) as relay, killed_at(relay, 6, is_after=True):
        relay.restore(backup)


def test_every_command_says_what_to_do(tmp_path: Path, backup: Path) -> None:
    shell = Shell(tmp_path)
    locked_store(tmp_path / "store", backup)
    (tmp_path / "file").write_text("mine")

    for words in (("push", "file"), ("artifact", "list"), ("gc",), ("thread", "list"), ("backup",)):
        code, reply = shell.fails(*words)
        assert code == 1
        assert "relay restore FILE" in reply
    assert b"not finished" in shell.run("verify").stdout
    doctor = shell.run("doctor")
    assert doctor.returncode == 2
    assert b"not finished" in doctor.stdout
    assert shell.fails("restore")[0] == 2
    shell.out("restore", str(backup))
    shell.out("push", "file")


def test_a_restore_is_given_up_by_a_command(tmp_path: Path, backup: Path) -> None:
    shell = Shell(tmp_path)
    locked_store(tmp_path / "store", backup)

    shell.out("restore", "--abandon")

    assert shell.fails("restore", "--abandon")[0] == 2
    shell.out("verify")


def test_a_server_says_503_and_finishes_the_restore(tmp_path: Path, backup: Path) -> None:
    locked_store(tmp_path / "store", backup)
    with serving(tmp_path / "store") as served:
        answers = [
            httpx2.get(f"{served.url}/readyz"),
            httpx2.post(f"{served.url}/push", json={"data": "mine"}),
            httpx2.get(f"{served.url}/v1/artifacts"),
        ]
        for answer in answers:
            assert answer.status_code == 503
            assert "not finished" in answer.text
        assert httpx2.get(f"{served.url}/health").status_code == 200

        with Relay(served.url) as relay:
            relay.restore(backup)
            ref = relay.push(b"mine").ref
            assert relay.pull(ref) == b"mine"
            assert len(relay.list().artifacts) == 4
