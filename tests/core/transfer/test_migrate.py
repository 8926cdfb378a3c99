"""A store is moved to another engine: all of it, while in use, and however often it is cut off."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import tracemalloc
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from contextrelay import Conflict, Invalid, Relay, Unavailable
from contextrelay.client.transport.local import open_stores
from contextrelay.core.migrate import migrate
from contextrelay.core.schema import RESTORE, walk_facts, walk_logs, walk_rows
from contextrelay.core.stores import Stores
from contextrelay.core.verify import check_store
from contextrelay.errors import Full, Gone
from contextrelay.model.reports import MigrateProgress
from contextrelay.store.blobs.memory import MemoryBlobs
from contextrelay.store.ledger import Write
from tests.cli.shell import RELAY, Shell
from tests.store.engines import Servers, new_prefix, url_of
from tests.store.stutter import Stopped, StutterLedger
from tests.store.waiting import until

LARGE = os.urandom(200_000)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@contextmanager
def opened(address: str | Path, blobs: str = "") -> Generator[Stores]:
    stores = open_stores(address, None, blobs)
    try:
        yield stores
    finally:
        stores.close()


def fill(address: str | Path) -> dict[str, Any]:
    """Some of everything; its refs and names."""
    with Relay(address) as relay:
        thread = relay.new_thread("moving")
        for number in range(12):
            fact = {"id": f"f{number}", "key": "n", "value": str(number)}
            thread.patch([{"op": "add", "path": "/facts/-", "value": fact}])
        thread.checkpoint("here")
        large = thread.put(LARGE, name="large.bin")
        small = relay.push("the heron stands in the reeds", name="heron.md", channel="news")
        relay.push("derived", source_refs=(small.ref,))
        for number in range(5):
            relay.publish("news", f"message {number}")
        relay.push(LARGE, name="the same again")
        gone = relay.push("removed")
        relay.remove(gone.ref)
        key = relay.new_key(name="mover", scope="write")
        handoff = thread.hand_off("other", "go on")
        relay.peek(small.ref)
        ledger = relay.transport.stores.ledger
        ledger.commit(Write("i/trimmed", (b"1", b"2", b"3")), Write("i/all trimmed", (b"1",)))
        ledger.trim("i/trimmed", 3)
        ledger.trim("i/all trimmed", 2)
        ledger.commit(Write("x/{tenant}%7B/savings", adds=(("tokens", 7),)))
    return {
        "thread": thread.id,
        "large": large.ref,
        "small": small.ref,
        "gone": gone.ref,
        "key": key.key.id,
        "handoff": handoff.ref,
    }


def everything(stores: Stores) -> dict[str, Any]:
    """All that a ledger holds, and the sizes of its bodies."""
    ledger = stores.ledger
    found: dict[str, Any] = {
        log: (
            ledger.last(log),
            list(walk_facts(ledger, log)),
            [row for kind in ledger.kinds(log) for row in walk_rows(ledger, log, kind)],
        )
        for log in walk_logs(ledger, "")
        if log != RESTORE
    }
    found["counters"] = {name: ledger.tally(name) for name in ledger.tallies()}
    found["bodies"] = sorted((fact.name, fact.size_bytes) for fact in stores.blobs.walk())
    return found


def found(relay: Relay) -> list[Any]:
    return [(hit.ref, hit.lines) for hit in relay.search("heron reeds").hits]


@pytest.mark.parametrize("kind", ["postgres", "redis", "objects"])
def test_everything_moves_to_another_engine_and_back(
    kind: str, servers: Servers, tmp_path: Path
) -> None:
    """Promises G3, G2."""
    names = fill(tmp_path / "from")
    blobs = servers.s3().url(new_prefix()) if kind == "objects" else ""
    there = str(tmp_path / "to") if blobs else f"{url_of(kind, servers)}?prefix={new_prefix()}"

    with opened(tmp_path / "from") as source, opened(there, blobs) as target:
        report = migrate(source, target, check=check_store)
        before = everything(source)
        assert everything(target) == before
    with opened(there, blobs) as source, opened(tmp_path / "back") as target:
        back = migrate(source, target, check=check_store)
        assert everything(target) == before

    assert report.is_open
    assert report.bodies == back.bodies == 1
    assert report.verified is not None
    assert report.verified.problems == []
    with Relay(there, blobs=blobs) as relay, Relay(tmp_path / "from") as old:
        assert relay.pull(names["large"]) == LARGE
        assert relay.thread(names["thread"]).state(7) == old.thread(names["thread"]).state(7)
        # A search waits only so long for its index.
        until(lambda: found(relay) == found(old) != [], "the search index")
        assert relay.publish("news", "more").seq == old.publish("news", "more").seq
        listed = relay.keys()
        assert names["key"] in [key.id for key in listed.keys]
        with pytest.raises(Gone):
            relay.pull(names["gone"])


def test_a_further_pass_takes_what_came_and_went_meanwhile(tmp_path: Path) -> None:
    """Promise G3."""
    names = fill(tmp_path / "from")
    with opened(tmp_path / "from") as source, opened(tmp_path / "to") as target:
        first = migrate(source, target, stays_locked=True)
        with Relay(tmp_path / "from") as relay:
            thread = relay.thread(names["thread"])
            thread.patch([{"op": "add", "path": "/note", "value": "later"}])
            relay.push(os.urandom(100_000), name="later")
            relay.publish("news", "later")
            relay.remove(names["small"])
            relay.revoke_key(names["key"])
        ledger = source.ledger
        ledger.trim("c/news", 3)
        ledger.drop("i/trimmed", expect=3)
        ledger.drop("i/all trimmed", expect=1)
        ledger.commit(Write("i/trimmed", (b"begun", b"again", b"since", b"then")))

        with pytest.raises(Unavailable, match="not finished"), Relay(tmp_path / "to") as relay:
            relay.push("between")
        second = migrate(source, target)

        kept = everything(source)
        assert everything(target) == kept
    assert (first.is_same, first.is_open) == (True, False)
    assert (second.is_same, second.is_open) == (True, True)
    assert second.bodies == 1


def test_a_migration_that_stops_after_any_write_goes_on(tmp_path: Path) -> None:
    """Promise G3."""
    fill(tmp_path / "from")
    with opened(tmp_path / "from") as source, opened("memory:") as whole:
        stops, is_done = 0, False
        while not is_done:
            stuttering = StutterLedger(whole.ledger, stops_after=1 + stops)
            cut = replace(whole, engine=replace(whole.engine, ledger=stuttering))
            try:
                migrate(source, cut)
                is_done = True
            except Stopped:
                stops += 1

        assert everything(whole) == everything(source)
    assert stops >= 5


def test_a_migration_that_was_killed_goes_on(servers: Servers, shell: Shell) -> None:
    """Promise G3."""
    source = shell.home / "store"
    names = fill(source)
    with Relay(source) as relay:
        relay.push_many([os.urandom(300) for _ in range(100)])
    target = f"{servers.postgres()}?prefix={new_prefix()}"
    words = [*RELAY, "migrate", str(source), target]
    with subprocess.Popen(words, stderr=subprocess.PIPE, env=shell.env) as cut_off:
        assert cut_off.stderr is not None
        assert cut_off.stderr.readline().startswith(b"pass 1: 0 of ")
        cut_off.kill()
    assert cut_off.returncode == -signal.SIGKILL

    with pytest.raises(Unavailable), Relay(target) as relay:
        relay.pull(names["large"])
    report = shell.json("migrate", str(source), target, "--verify")

    assert report["is_open"]
    assert report["verified"]["problem_count"] == 0
    with opened(source) as ours, opened(target) as theirs:
        assert everything(theirs) == everything(ours)


def test_a_migration_that_is_interrupted_says_how_it_goes_on(shell: Shell) -> None:
    """Promise G3."""
    source, target = shell.home / "store", shell.home / "to"
    with Relay(source) as relay:
        relay.push_many([os.urandom(100_000) for _ in range(300)])
    words = [*RELAY, "migrate", str(source), str(target)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, env=shell.env) as cut_off:
        assert cut_off.stderr is not None
        assert cut_off.stderr.readline().startswith(b"pass 1: 0 of ")
        cut_off.send_signal(signal.SIGINT)
        said = cut_off.stderr.read().decode()

    assert f"{target} stays locked: run the same command" in said
    assert shell.json("migrate", str(source), str(target))["is_open"]


def test_a_source_that_is_written_to_all_the_time_leaves_the_target_locked(tmp_path: Path) -> None:
    """Promise G3."""
    fill(tmp_path / "from")
    seen: list[MigrateProgress] = []
    with (
        Relay(tmp_path / "from") as relay,
        opened(tmp_path / "from") as source,
        opened(tmp_path / "to") as target,
        ThreadPoolExecutor(1) as pool,
    ):

        def show(progress: MigrateProgress) -> None:
            seen.append(progress)
            # In another thread: this one writes as the migration does.
            pool.submit(relay.publish, "news", "again").result()

        report = migrate(source, target, show)

    assert (report.is_same, report.is_open) == (False, False)
    assert {progress.pass_number for progress in seen} == {1, 2, 3, 4}
    last = [progress for progress in seen if progress.pass_number == 1][-1]
    assert last.logs == last.logs_total
    assert last.body_bytes == last.body_bytes_total == len(LARGE)
    assert last.seconds_left == 0


def test_a_store_that_is_in_use_is_no_target(tmp_path: Path) -> None:
    """Promise G3."""
    fill(tmp_path / "from")
    with Relay(tmp_path / "to") as relay:
        mine = relay.push("mine").ref

    with opened(tmp_path / "from") as source, opened(tmp_path / "to") as target:
        with pytest.raises(Conflict, match="not empty"):
            migrate(source, target)
        with pytest.raises(Conflict, match="not empty"):
            migrate(source, source)

    with Relay(tmp_path / "to") as relay:
        assert relay.pull(mine) == b"mine"


def test_what_one_store_began_no_other_one_is_copied_over(tmp_path: Path) -> None:
    """Promise G3: a FROM that was mistyped on the last pass."""
    fill(tmp_path / "one")
    fill(tmp_path / "other")
    with opened(tmp_path / "one") as source, opened(tmp_path / "to") as target:
        migrate(source, target, stays_locked=True)
        with opened(tmp_path / "other") as other, pytest.raises(Conflict) as refused:
            migrate(other, target)

        assert "from another store" in refused.value.message
        assert f"--store {tmp_path / 'to'} restore --abandon" in (refused.value.hint or "")
        assert migrate(source, target).is_open


def test_a_store_is_not_moved_into_itself(tmp_path: Path) -> None:
    with (
        opened(tmp_path / "one") as one,
        opened(tmp_path / "one") as same,
        pytest.raises(Invalid, match="the same store"),
    ):
        migrate(one, same)

    with Relay(tmp_path / "one") as relay:
        relay.push("open still")


def test_a_migration_can_be_given_up(shell: Shell) -> None:
    """Promise G3."""
    fill(shell.home / "store")
    shell.out("migrate", "store", "to", "--keep-locked")

    code, complaint = shell.fails("--store", "to", "restore", "nothing.tar")
    assert (code, "nothing.tar" in complaint) == (2, True)
    shell.out("--store", "to", "restore", "--abandon")

    assert shell.json("--store", "to", "artifact", "list") == {"artifacts": [], "next": ""}
    assert "passes" in shell.out("migrate", "store", "to", human=True)


def test_addresses_that_cannot_be_moved_from_or_to_are_refused(shell: Shell) -> None:
    code, complaint = shell.fails("migrate", "nowhere", "to")
    assert (code, "no store in nowhere" in complaint) == (3, True)
    assert not (shell.home / "nowhere").exists()

    code, complaint = shell.fails("migrate", "http://127.0.0.1:1", "to")
    assert (code, "is a server" in complaint) == (2, True)


def test_large_bodies_pass_through_a_little_at_a_time(tmp_path: Path) -> None:
    """Promise G3."""
    with Relay(tmp_path / "from") as relay:
        relay.push(bytes(30_000_000))

    with opened(tmp_path / "from") as source, opened(tmp_path / "to") as target:
        tracemalloc.start()
        migrate(source, target)
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert peak_bytes < 5_000_000


class FullBlobs(MemoryBlobs):
    """Takes no body, the first at once, others a while later; counts those that are brought."""

    brought = 0

    @contextmanager
    def draft(self) -> Generator[Any]:
        self.brought += 1
        if self.brought > 1:
            threading.Event().wait(0.3)
        raise Full("no room left", "free some")
        yield


def test_a_body_that_cannot_be_kept_ends_a_migration_before_the_others_come(tmp_path: Path) -> None:
    with Relay(tmp_path / "from") as relay:
        relay.push_many([os.urandom(40_000) for _ in range(30)])

    blobs = FullBlobs()
    with opened(tmp_path / "from") as source, opened("memory:") as target:
        full = replace(target, engine=replace(target.engine, blobs=blobs))
        with pytest.raises(Full):
            migrate(source, full)

    assert 1 <= blobs.brought < 30


def test_a_store_in_memory_is_no_target(shell: Shell) -> None:
    """Promise G3: what was copied would be gone with the command."""
    shell.out("push", stdin=b"kept")

    code, error = shell.fails("migrate", shell.env["RELAY_HOME"], "memory:")

    assert code == 2
    assert "a store in memory ends with this command" in error
