"""A store that can be read and not written: on a real read-only mount, through every door.

Root may write whatever the permissions of a file say, so a mount it is. Nothing that was
acknowledged is passed over, also where it is still in the `-wal` of the ledger.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from random import Random

import httpx2
import pytest

from contextrelay import Full, Relay, Settings
from contextrelay.core import search
from contextrelay.model.artifact import Artifact
from tests.cli.shell import Shell
from tests.crash.test_schema import V1_TEXT, V1_TEXT_REF, v1_store
from tests.parts import has_command, needs
from tests.server.serving import serving

LARGE = Random(3).randbytes(100_000)


class Mounted:
    """A folder that is written at `there`, and seen read-only at `here`."""

    def __init__(self, folder: Path) -> None:
        self.there, self.here = folder / "there", folder / "here"
        for each in (self.there, self.here):
            each.mkdir()

    def mount(self) -> Path:
        here = str(self.here)
        bound = subprocess.run(["mount", "--bind", str(self.there), here], capture_output=True)
        needs("mount", bound.returncode == 0)
        subprocess.run(["mount", "-o", "remount,ro,bind", here], check=True)
        return self.here

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.here)], check=False, capture_output=True)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search brings its index up, however busy the machine is."""
    monkeypatch.setattr(search, "SEARCH_CATCH_UP_S", 60)


@pytest.fixture
def disk(tmp_path: Path) -> Generator[Mounted]:
    needs("mount", has_command("mount"))
    mounted = Mounted(tmp_path)
    yield mounted
    mounted.unmount()


def fill(relay: Relay) -> dict[str, Artifact]:
    thread = relay.new_thread("work")
    thread.patch([{"op": "add", "path": "/facts/-", "value": {"id": "f", "key": "k", "value": 1}}])
    relay.publish("news", {"a": 1})
    return {
        "small": relay.push(b"# Plan\n\nApples and pears.\n", name="plan.md", ttl_s=3_600),
        "large": relay.push(LARGE, name="large", ttl_s=None),
        "log": thread.put("\n".join(f"line {number}" for number in range(5_000)), name="a.log"),
    }


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_reads(relay: Relay, made: dict[str, Artifact]) -> None:
    """Everything that reads works, and again the second time."""
    for _ in range(2):
        assert relay.pull(made["large"].ref) == LARGE
        assert b"".join(relay.stream(made["large"].ref)) == LARGE
        assert relay.peek(made["small"].ref).name == "plan.md"
        assert relay.peek(made["log"].ref, is_full=True).tokens
        assert len(relay.list().artifacts) == 3
        assert [hit.ref for hit in relay.search("pears").hits] == [made["small"].ref]
        assert relay.grep("line 4711", made["log"].ref).matches
        assert relay.slice(made["log"].ref, lines="10:12").text
        assert relay.outline(made["log"].ref)
        assert relay.digest(made["log"].ref)
        assert relay.verify().problem_count == 0
        assert len(relay.threads().threads) == 1
        thread = relay.thread("work")
        assert thread.state()["facts"][0]["id"] == "f"
        assert thread.header()
        assert list(thread.history())
        assert relay.signals("news", 0).signals
        assert relay.savings()


def check_refuses(relay: Relay) -> None:
    for act in (
        lambda: relay.push(b"no"),
        lambda: relay.push(LARGE + b"no"),
        lambda: relay.new_thread("no"),
        lambda: relay.publish("news", 1),
    ):
        with pytest.raises(Full, match="cannot be written") as refused:
            act()
        assert refused.value.hint


# How the files may have been left


def closed(folder: Path) -> dict[str, Artifact]:
    """By a process that has ended as it should: there is no -wal."""
    with Relay(folder) as relay:
        made = fill(relay)
    assert not (folder / "relay.db-wal").exists()
    return made


def killed(folder: Path) -> dict[str, Artifact]:
    """By a process that was killed: all is in the -wal, and there is a -shm."""
    aside = folder.with_name("aside")
    with Relay(aside) as relay:
        made = fill(relay)
        shutil.copytree(aside, folder, dirs_exist_ok=True)
    shutil.rmtree(aside)
    assert (folder / "relay.db-wal").stat().st_size > 10_000
    return made


def copied(folder: Path) -> dict[str, Artifact]:
    """By a copy that left the -shm behind."""
    made = killed(folder)
    (folder / "relay.db-shm").unlink()
    return made


def searched(folder: Path) -> dict[str, Artifact]:
    """With a search index that is behind."""
    with Relay(folder) as relay:
        relay.push(b"first")
        relay.search("first")
        for artifact in relay.list().artifacts:
            relay.remove(artifact.ref)
        return fill(relay)


LEFT: dict[str, Callable[[Path], dict[str, Artifact]]] = {
    "closed": closed,
    "killed": killed,
    "copied": copied,
    "searched": searched,
}


@pytest.mark.parametrize("left", LEFT)
def test_everything_is_read_and_nothing_is_written(disk: Mounted, left: str) -> None:
    made = LEFT[left](disk.there)
    before = files_in(disk.there)
    with Relay(disk.mount()) as relay:
        check_reads(relay, made)
        check_refuses(relay)
        thread = relay.thread("work")
        thread.export(disk.there.with_name("t.zip"))
        relay.backup(disk.there.with_name("backup.tar"))

    assert files_in(disk.there) == before
    with Relay(disk.there.with_name("restored")) as relay:
        relay.restore(disk.there.with_name("backup.tar"))
        check_reads(relay, made)


def test_leases_that_cannot_be_renewed_are_read_all_the_same(disk: Mounted) -> None:
    with Relay(disk.there) as relay:
        ref = relay.push(b"leased", ttl_s=3_600).ref
    (disk.there / "config.json").write_text('{"extend_on_read": true}')
    ledger = sqlite3.connect(disk.there / "relay.db")
    row = json.loads(ledger.execute("SELECT body FROM row WHERE kind = 'artifact'").fetchone()[0])
    row["ttl_s"] = 86_400
    ledger.execute("UPDATE row SET body = ? WHERE kind = 'artifact'", (json.dumps(row).encode(),))
    ledger.commit()
    ledger.close()

    with Relay(disk.mount()) as relay:
        assert relay.transport.stores.settings == Settings(extend_on_read=True)
        assert relay.pull(ref) == b"leased"


def test_what_another_writes_meanwhile_is_seen(disk: Mounted) -> None:
    """The mount is read-only, what is under it is not: with and without a -wal at first."""
    closed(disk.there)
    with Relay(disk.mount()) as reader:
        assert len(reader.list().artifacts) == 3
        for count in (4, 5):
            with Relay(disk.there) as writer:
                ref = writer.push(b"%d" % count).ref
                assert reader.pull(ref) == b"%d" % count
                assert len(reader.list().artifacts) == count
                writer.push(b"%d again" % count)
                writer.remove(ref)
            assert len(reader.list().artifacts) == count
        assert reader.verify().problem_count == 0


def test_a_store_of_an_earlier_schema_is_read(disk: Mounted) -> None:
    v1_store(disk.there)

    with Relay(disk.mount()) as relay:
        assert relay.pull(V1_TEXT_REF) == V1_TEXT
        check_refuses(relay)


def test_a_child_process_reads_and_leaves_the_copy_to_its_parent(disk: Mounted) -> None:
    made = copied(disk.there)
    with Relay(disk.mount()) as relay:
        child = os.fork()
        if child == 0:
            is_read = relay.pull(made["large"].ref) == LARGE
            relay.close()
            os._exit(0 if is_read else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert relay.pull(made["large"].ref) == LARGE


# The doors


def test_the_command_line_reads_and_says_once_what_it_cannot_do(disk: Mounted) -> None:
    made = closed(disk.there)
    shell = Shell(disk.there.parent)
    store = ("--store", str(disk.mount()))

    for words in (
        ("pull", made["small"].ref),
        ("peek", made["small"].ref),
        ("artifact", "list"),
        ("search", "pears"),
        ("grep", "line 4711", made["log"].ref),
        ("get", made["log"].ref, "--lines", "10:12"),
        ("verify",),
        ("thread", "list"),
        ("state", "show", "-t", "work"),
        ("events", "-t", "work"),
        ("stats", "-t", "work"),
    ):
        done = shell.run(*store, *words, real=True)
        assert done.returncode == 0, (words, done.stderr)
        assert done.stdout or b"catching up" in done.stderr
        assert done.stderr.count(b"is read-only") == 1

    (shell.home / "file").write_text("no")
    done = shell.run(*store, "push", "file", real=True)
    assert done.returncode == 1
    assert b"cannot be written" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_server_reads_and_answers_507_with_the_reason(disk: Mounted) -> None:
    made = closed(disk.there)
    with serving(disk.mount()) as served:
        assert httpx2.get(f"{served.url}/readyz").status_code == 200
        assert httpx2.get(f"{served.url}/pull/{made['large'].ref}?raw=1").content == LARGE
        answers = [
            httpx2.post(f"{served.url}/push", json={"data": "no"}),
            httpx2.post(f"{served.url}/threads", json={"name": "no"}),
        ]
        with Relay(served.url) as relay:
            check_reads(relay, made)
            check_refuses(relay)
    for answer in answers:
        assert answer.status_code == 507
        assert "cannot be written" in answer.text
