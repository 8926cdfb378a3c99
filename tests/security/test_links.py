"""Links: one in the store is not followed, one at a target is replaced, not written through."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from contextrelay import Broken, Relay, RelayError
from contextrelay.core.artifacts.bodies import location_of
from contextrelay.store.blobs.files import FileBlobs
from contextrelay.store.durable_files import write_whole

LARGE = Random(6).randbytes(100_000)


def blob_of(relay: Relay, ref: str) -> Path:
    stores = relay.transport.stores
    at = location_of(stores.ledger, relay.peek(ref).sha256)
    assert at is not None
    assert at.blob is not None
    assert isinstance(stores.blobs, FileBlobs)
    return Path(stores.blobs.path(at.blob))


def test_a_link_in_place_of_a_blob_is_not_followed(tmp_path: Path) -> None:
    """Promise Z4. Not even if what it leads to is the right content."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(LARGE)
    with Relay(tmp_path / "store") as relay:
        ref = relay.push(LARGE).ref
        path = blob_of(relay, ref)
        path.unlink()
        path.symlink_to(elsewhere)

        with pytest.raises(Broken, match="cannot be read"):
            relay.pull(ref)
        assert relay.verify().problem_count == 1

        relay.remove(ref)
        assert not path.is_symlink()
    assert elsewhere.read_bytes() == LARGE


@pytest.mark.parametrize("name", [f"{'0' * 64}-0011223344556677", "0123456789abcdef.draft"])
def test_a_sweep_does_not_reach_through_a_link(tmp_path: Path, name: str) -> None:
    """Promise Z4. It deletes files of the store, never what a link in it leads to."""
    mine = tmp_path / "mine"
    mine.mkdir()
    for file in (mine / "diary", mine / name):
        file.write_text("mine")
        os.utime(file, (0, 0))
    with Relay(tmp_path / "store") as relay:
        relay.push(LARGE)
        blobs = tmp_path / "store" / "blobs"
        (blobs / name).symlink_to(mine / "diary")
        (blobs / "00").symlink_to(mine)

        relay.sweep()

    assert {path.name: path.read_text() for path in mine.iterdir()} == {
        "diary": "mine",
        name: "mine",
    }


def test_a_link_in_place_of_the_blobs_is_the_owners_choice(tmp_path: Path) -> None:
    """Large bodies on another disk: the folder itself may be a link that its owner made."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "blobs").symlink_to(elsewhere)
    with Relay(tmp_path / "store") as relay:
        assert relay.pull(relay.push(LARGE).ref) == LARGE
        assert relay.verify().problems == []


def test_a_link_at_the_target_of_a_backup_is_replaced(tmp_path: Path) -> None:
    """Promise Z4. Who can put a link there must not choose what we overwrite."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    target = tmp_path / "backup.tar"
    target.symlink_to(victim)
    with Relay("memory:") as relay:
        relay.push(b"x")

        relay.backup(target)

    assert victim.read_text() == "mine"
    assert not target.is_symlink()
    assert target.stat().st_size > 1_000


def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path: Path) -> None:
    """Promise Z4. Also with a dangling link in its place, and a failure half way."""
    target = tmp_path / "file"
    target.symlink_to(tmp_path / "nowhere")

    assert write_whole(target, [b"one", b"two"]) == 6

    assert target.read_bytes() == b"onetwo"
    assert not (tmp_path / "nowhere").exists()

    def failing() -> list[bytes]:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        write_whole(target, (chunk for _ in range(1) for chunk in failing()))
    assert target.read_bytes() == b"onetwo"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_written_file_is_its_owners_alone(tmp_path: Path) -> None:
    """A backup holds everything that was ever pushed: it is nobody else's to read."""
    with Relay(tmp_path / "store") as relay:
        relay.push(LARGE)
        relay.backup(tmp_path / "backup.tar")

    assert (tmp_path / "backup.tar").stat().st_mode & 0o077 == 0


def test_a_store_is_its_owners_alone_even_in_a_folder_that_was_there(tmp_path: Path) -> None:
    """The folder may be a project's own and open to all; what is pushed into it is not."""
    folder = tmp_path / "project"
    folder.mkdir(mode=0o755)
    with Relay(folder) as relay:
        relay.push(b"a secret that is small")
        relay.push(LARGE)
        relay.sweep()
        open_to_others = [
            path.relative_to(folder).as_posix()
            for path in folder.iterdir()
            if path.stat().st_mode & 0o077
        ]

    assert open_to_others == []


@pytest.mark.parametrize("path", ["absent/backup.tar", "a\0b", "", "folder"])
def test_a_target_that_cannot_be_written_is_a_clear_error(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    with Relay("memory:") as relay, pytest.raises(RelayError) as refused:
        relay.backup(tmp_path / path)

    assert refused.value.hint
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("name", ["turn.gate", "turn.work", "blobs/hold.lock"])
def test_a_link_in_place_of_a_lock_makes_no_file_elsewhere(tmp_path: Path, name: str) -> None:
    """Promise Z4."""
    with Relay(tmp_path / "store") as relay:
        relay.push(LARGE)
    path = tmp_path / "store" / name
    path.unlink(missing_ok=True)
    path.symlink_to(tmp_path / "made")

    def use() -> None:
        with Relay(tmp_path / "store") as relay:
            relay.backup(tmp_path / "backup")

    with pytest.raises(RelayError, match=name):
        use()

    assert not (tmp_path / "made").exists()


def test_a_pipe_in_place_of_a_blob_is_not_waited_for(tmp_path: Path) -> None:
    with Relay(tmp_path / "store") as relay:
        ref = relay.push(LARGE).ref
        path = blob_of(relay, ref)
        path.unlink()
        os.mkfifo(path)

        with pytest.raises(Broken):
            relay.pull(ref)


def test_a_pipe_in_place_of_a_readable_copy_is_replaced(tmp_path: Path) -> None:
    with Relay(tmp_path / "store") as relay:
        thread = relay.new_thread("travels")
        thread.put(LARGE, name="large.bin")
        folder = Path(thread.mirror().folder)
        (copy,) = (folder / "artifacts").iterdir()
        copy.unlink()
        os.mkfifo(copy)

        thread.mirror()

        assert copy.read_bytes() == LARGE


def test_the_script_of_the_skill_writes_through_no_link(tmp_path: Path) -> None:
    """Promise Z4."""
    script = Path(__file__).parents[2] / "skills/context-relay/scripts/init_context.py"
    mine, folder = tmp_path / "mine", tmp_path / "clone"
    mine.write_text("mine")
    folder.mkdir()
    for name in ("PROJECT.md", "state.json", "todos.json", "decisions.md"):
        (folder / f".{name}.part").symlink_to(mine)
        (folder / name).symlink_to(mine)

    for words in ([], ["--force"]):
        subprocess.run([sys.executable, str(script), str(folder), *words], check=True)

    assert mine.read_text() == "mine"
    assert not (folder / "state.json").is_symlink()
