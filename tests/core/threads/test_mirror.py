"""The mirror: files that people can open, rebuilt at any time; an edit is adopted when asked."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from contextrelay import Conflict, Invalid, NotFound, Relay, RelayError
from contextrelay.client.thread import Thread
from contextrelay.identity import user_name

Document = dict[str, Any]
LARGE = Random(8).randbytes(100_000)


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    with Relay(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def thread(relay: Relay) -> Thread:
    """A thread with a fact and three artifacts, mirrored."""
    made = relay.new_thread("read me")
    made.put(LARGE, name="large.bin")
    made.put("# Notes", name="notes.md")
    made.put(b"", name="empty.txt")
    made.patch([fact("a", 1)])
    made.mirror()
    return made


def fact(key: str, value: object) -> Document:
    return {"op": "add", "path": "/facts/-", "value": {"id": key, "key": key, "value": value}}


def folder_of(thread: Thread) -> Path:
    home = thread.relay.transport.stores.engine.home
    assert home is not None
    return home / "threads" / thread.id


def files_in(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def edit(thread: Thread, change: Callable[[Document], object]) -> bytes:
    """Edit state.json as a person would; what it says then."""
    path = folder_of(thread) / "state.json"
    state = json.loads(path.read_text())
    change(state)
    path.write_text(json.dumps(state, indent=4))
    return path.read_bytes()


# Writing


def test_a_mirror_has_the_state_the_events_and_the_artifacts(thread: Thread) -> None:
    """Promise T9."""
    mirrored = thread.mirror()

    folder = folder_of(thread)
    refs = [each["ref"] for each in thread.state()["artifacts"]]
    names = {
        f"artifacts/{ref}{end}" for ref, end in zip(refs, (".bin", ".md", ".txt"), strict=True)
    }
    files = files_in(folder)
    assert (mirrored.thread_id, mirrored.folder, mirrored.files) == (thread.id, str(folder), 5)
    assert files.keys() == {"state.json", "events.log", *names}
    assert json.loads(files["state.json"]) == thread.state()
    assert files["state.json"].count(b"\n") > 20
    hashes = [json.loads(line)["hash"] for line in files["events.log"].splitlines()]
    assert hashes == [each.event.hash for each in thread.events()]
    assert files[f"artifacts/{refs[0]}.bin"] == LARGE
    assert files[f"artifacts/{refs[1]}.md"] == b"# Notes"
    assert files[f"artifacts/{refs[2]}.txt"] == b""


def test_a_mirror_is_its_owners_alone(thread: Thread) -> None:
    """Promise T9. It holds what the store holds."""
    folder = folder_of(thread)

    for path in (folder.parent, folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_mirror_is_rebuilt_whatever_became_of_its_files(thread: Thread) -> None:
    """Promise T9: deleted, emptied, overwritten with as many bytes, or all of it gone."""
    folder = folder_of(thread)
    before = files_in(folder)
    for name, content in before.items():
        for damage in (None, b"", bytes(len(content)), content + b"x"):
            (folder / name).unlink()
            if damage is not None:
                (folder / name).write_bytes(damage)

            thread.mirror()

            after = files_in(folder)
            assert {each: after[each] for each in before} == before, (name, damage)
    shutil.rmtree(folder.parent)
    thread.mirror()
    assert files_in(folder) == before


def test_a_mirror_follows_the_thread(relay: Relay, thread: Thread) -> None:
    """Promise T9. What was removed from the store goes, what came is there."""
    first = thread.artifacts()[-1]
    relay.remove(first.ref)
    second = thread.put("more", name="more.txt")

    thread.mirror()

    names = {path.name for path in (folder_of(thread) / "artifacts").iterdir()}
    assert f"{first.ref}.bin" not in names
    assert f"{second.ref}.txt" in names
    assert json.loads((folder_of(thread) / "state.json").read_bytes()) == thread.state()


def test_files_that_are_not_ours_are_left_alone(thread: Thread) -> None:
    """Promise T9. A person may keep notes next to what they read."""
    folder = folder_of(thread)
    (folder / "mine.txt").write_text("mine")
    (folder / "artifacts" / "mine.txt").write_text("mine")
    (folder / "artifacts" / "mine").mkdir()

    thread.mirror()

    assert (folder / "mine.txt").read_text() == "mine"
    assert (folder / "artifacts" / "mine.txt").read_text() == "mine"
    assert (folder / "artifacts" / "mine").is_dir()


def test_what_a_killed_writer_left_is_tidied_up_in_time(thread: Thread) -> None:
    """Promise T9. Files are whole or absent: one cut short never bears the name of a file."""
    folder = folder_of(thread)
    drafts = [folder / ".state.json.0011aabb.part", folder / "artifacts" / ".x.bin.0011aabb.part"]
    fresh = folder / ".events.log.2233ccdd.part"
    for draft in (*drafts, fresh):
        draft.write_bytes(b"half")
    for draft in drafts:
        os.utime(draft, (0, 0))

    thread.mirror()

    assert not any(draft.exists() for draft in drafts)
    assert fresh.exists()  # It may be that of one who is writing just now.


def test_a_mirror_that_fails_leaves_every_file_whole(
    relay: Relay, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise T9. It stops after any number of renames, as if it were killed there."""
    thread.patch([fact("b", 2)])
    folder = folder_of(thread)
    whole = {json.dumps(thread.state(version)) for version in (5, 6)}
    really = Path.replace

    for renames in range(3):
        left = iter(range(renames))

        def stop(path: Path, target: Path, left: Iterator[int] = left) -> Path:
            if next(left, None) is None:
                raise KeyboardInterrupt
            return really(path, target)

        monkeypatch.setattr(Path, "replace", stop)
        shutil.rmtree(folder / "artifacts")
        with pytest.raises(KeyboardInterrupt):
            thread.mirror()
        monkeypatch.undo()

        assert json.dumps(json.loads((folder / "state.json").read_bytes())) in whole
        for line in (folder / "events.log").read_bytes().splitlines():
            json.loads(line)
        assert list(folder.rglob("*.part")) == []


# Links


@pytest.mark.parametrize("name", ["", "artifacts"])
def test_a_folder_that_is_a_link_is_not_written_through(
    thread: Thread, tmp_path: Path, name: str
) -> None:
    """Promise Z4. Nothing is written there, and nothing deleted."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "diary.txt").write_text("mine")
    (mine / f"{thread.id}.txt").write_text("named like one of ours")
    linked = folder_of(thread) / name
    shutil.rmtree(linked)
    linked.symlink_to(mine)

    with pytest.raises(RelayError, match="link") as refused:
        thread.mirror()
    with pytest.raises(RelayError):
        thread.adopt()

    assert refused.value.hint
    assert {path.name for path in mine.iterdir()} == {"diary.txt", f"{thread.id}.txt"}


def test_a_file_that_is_a_link_is_replaced_and_not_written_through(
    thread: Thread, tmp_path: Path
) -> None:
    """Promise Z4."""
    folder = folder_of(thread)
    before = files_in(folder)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in before:
        (folder / name).unlink()
        (folder / name).symlink_to(victim)

    thread.mirror()

    assert victim.read_text() == "mine"
    assert not any(path.is_symlink() for path in folder.rglob("*"))
    assert files_in(folder) == before


def test_a_state_that_is_a_link_is_not_adopted(thread: Thread, tmp_path: Path) -> None:
    """Promise Z4. Not even if what it leads to would do."""
    edit(thread, lambda state: state.update(session_summary="from elsewhere"))
    path = folder_of(thread) / "state.json"
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")

    with pytest.raises(NotFound):
        thread.adopt()

    assert "session_summary" not in thread.state()


def test_a_pipe_in_place_of_the_state_is_not_waited_for(thread: Thread) -> None:
    """Promise Z3."""
    path = folder_of(thread) / "state.json"
    path.unlink()
    os.mkfifo(path)

    with pytest.raises(Invalid, match="regular file"):
        thread.adopt()
    thread.mirror()

    assert json.loads(path.read_bytes()) == thread.state()


# Adopting

EDITS: dict[str, Callable[[Document], object]] = {
    "a fact more": lambda state: state["facts"].append({"id": "b", "key": "b", "value": [1]}),
    "a fact less": lambda state: state["facts"].pop(),
    "a fact changed": lambda state: state["facts"][0].update(value="other"),
    "a summary": lambda state: state.update(session_summary="we are nearly there"),
    "a field that we do not know": lambda state: state.update(mood={"today": "fine", "was": None}),
    "an artifact taken out": lambda state: state["artifacts"].pop(0),
    "many things at once": lambda state: state.update(
        facts=[], plan=[{"id": "1", "step": "do it", "status": "pending"}], x=1
    ),
    "ünïcode": lambda state: state.update(session_summary="жизнь 🎉 \u2028"),
}


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
def test_an_edit_is_adopted_as_one_patch_by_you(
    thread: Thread, change: Callable[[Document], object]
) -> None:
    """Promise T9."""
    wanted = thread.state()
    change(wanted)
    before = thread.show()
    edit(thread, change)

    patched = thread.adopt()

    state = thread.state()
    for name in ("version", "updated_at", "metrics"):
        wanted.pop(name)
        state.pop(name)
    assert state == wanted
    assert patched.version == before.version + 1
    (event,) = thread.events(after=before.events)
    assert (event.event.type, event.event.by) == ("state.patch.applied", user_name())
    assert event.event.detail["adopted"] == "state.json"


def test_an_edit_of_an_older_version_is_a_conflict_and_both_are_kept(thread: Thread) -> None:
    """Promise T9."""
    edited = edit(thread, lambda state: state.update(session_summary="mine"))
    thread.patch([fact("b", 2)])
    state = thread.state()

    with pytest.raises(Conflict, match=r"v5.*v6") as conflict:
        thread.adopt()

    assert conflict.value.hint
    assert thread.state() == state
    assert (folder_of(thread) / "state.json").read_bytes() == edited


def test_an_edit_that_was_not_adopted_is_put_aside_by_the_next_mirror(thread: Thread) -> None:
    """Promise T9. Never overwritten: stale ones, broken ones, one after the other."""
    folder = folder_of(thread)
    stale = edit(thread, lambda state: state.update(session_summary="mine"))
    thread.patch([fact("b", 2)])
    thread.mirror()
    (folder / "state.json").write_bytes(b'{"version": ')
    thread.mirror()
    thread.mirror()

    aside = {path.read_bytes() for path in folder.glob("state.*.edited.json")}
    assert aside == {stale, b'{"version": '}
    assert json.loads((folder / "state.json").read_bytes()) == thread.state()


BROKEN: dict[str, tuple[str, str]] = {
    "a comma too many": ('{\n  "facts": [1,]\n}', "line 2, column 15"),
    "no end": ('{"facts": [', "line 1, column 12"),
    "a comment": ("{\n  // mine\n}", "line 2, column 3"),
    "nothing": ("", "line 1, column 1"),
    "single quotes": ("{'facts': 1}", "line 1, column 2"),
}


@pytest.mark.parametrize(("text", "place"), BROKEN.values(), ids=BROKEN)
def test_broken_json_is_named_by_its_place_and_not_overwritten(
    thread: Thread, text: str, place: str
) -> None:
    """Promise T9."""
    path = folder_of(thread) / "state.json"
    path.write_text(text)

    with pytest.raises(Invalid) as refused:
        thread.adopt()

    assert place in refused.value.message
    assert str(path) in refused.value.message
    assert path.read_text() == text


REFUSED: dict[str, Callable[[Document], object]] = {
    "a fact without an id": lambda state: state["facts"].append({"key": "b"}),
    "facts that are none": lambda state: state.update(facts="none"),
    "no facts at all": lambda state: state.pop("facts"),
    "an artifact that is not there": lambda state: state["artifacts"].append(
        {"ref": "00000000-0000-4000-8000-000000000000", "type": "text"}
    ),
    "another thread": lambda state: state.update(thread_id="x"),
    "a list": lambda state: state.clear(),
    "a summary that is no text": lambda state: state.update(session_summary=7),
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_an_edit_that_breaks_the_schema_is_refused_and_the_file_stays(
    thread: Thread, change: Callable[[Document], object]
) -> None:
    """Promises T2, T9."""
    before = thread.state()
    edited = edit(thread, change)

    with pytest.raises(Invalid) as refused:
        thread.adopt()

    assert refused.value.hint
    assert thread.state() == before
    assert (folder_of(thread) / "state.json").read_bytes() == edited


def test_what_two_readers_could_read_differently_is_refused(thread: Thread) -> None:
    """Promise Z3: members twice, numbers that are none, half characters, nesting without end."""
    path = folder_of(thread) / "state.json"
    rest = path.read_text().lstrip("{ \n")
    for more in ('"x": 1, "x": 2', '"x": NaN', '"x": "\\ud800"', f'"x": {"[" * 70}{"]" * 70}'):
        path.write_text(f"{{{more}, {rest}")

        with pytest.raises(Invalid):
            thread.adopt()

    assert "x" not in thread.state()


def test_a_removed_thread_takes_its_mirror_with_it(relay: Relay, thread: Thread) -> None:
    other = relay.new_thread("another")
    other.mirror()

    thread.remove()

    assert not folder_of(thread).exists()
    assert folder_of(other).is_dir()


def test_what_people_put_into_a_mirror_stays_when_its_thread_is_removed(thread: Thread) -> None:
    """What a person wrote is not lost."""
    folder = folder_of(thread)
    (folder / "mine.txt").write_text("mine")
    state = folder / "state.json"
    state.write_text(state.read_text().replace('"value": 1', '"value": 2'))

    thread.remove()

    (edited,) = folder.glob("state.*.edited.json")
    assert '"value": 2' in edited.read_text()
    assert sorted(files_in(folder)) == sorted(["mine.txt", edited.name])


def test_a_mirror_that_is_a_link_is_left_alone_when_its_thread_is_removed(
    thread: Thread, tmp_path: Path
) -> None:
    """Promise Z4."""
    precious = tmp_path / "precious"
    folder_of(thread).rename(precious)
    folder_of(thread).symlink_to(precious)

    thread.remove()

    assert (precious / "state.json").exists()
