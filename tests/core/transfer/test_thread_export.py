"""Portable threads: what comes out of a zip is what went in, at every version, to the byte."""

from __future__ import annotations

import json
import re
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from contextrelay import Gone, Relay, TooLarge
from contextrelay.client.thread import Thread
from contextrelay.client.transport.local import Local
from contextrelay.core.stores import Stores
from contextrelay.store.engine import Engine, open_engine
from contextrelay.verbs import (
    ExportThread,
    ImportThread,
    List,
    ListThreads,
    NewThread,
    Pull,
    Push,
    Sweep,
    Verify,
)
from tests.core.clock import DAY_MS, HOUR_MS, Clock, local
from tests.store.stutter import Stopped, StutterLedger

Document = dict[str, Any]
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    with Relay(tmp_path / "one") as opened:
        yield opened


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Relay]:
    with Relay(tmp_path / "two") as opened:
        yield opened


def fact(key: str, value: object) -> Document:
    return {"op": "add", "path": "/facts/-", "value": {"id": key, "key": key, "value": value}}


def sent(thread: Thread, other: Relay, folder: Path) -> Thread:
    """Export a thread from one store and import it into another."""
    thread.export(folder / "t.zip")
    return other.import_thread(folder / "t.zip")


def without_ids(value: object) -> str:
    """A value as JSON, each id replaced by the order in which it came up."""
    seen: dict[str, str] = {}
    return ID.sub(lambda found: seen.setdefault(found[0], f"id{len(seen)}"), json.dumps(value))


def check_same(thread: Thread, copy: Thread) -> None:
    """Every version, every event but the last, every artifact: the same apart from ids."""
    versions = thread.show().version
    assert copy.show().version == versions
    for version in range(1, versions + 1):
        assert without_ids(copy.state(version)) == without_ids(thread.state(version)), version
    assert without_ids(list(copy.history())) == without_ids(list(thread.history()))
    original = [(each.event.type, each.event.by, each.event.at) for each in events_of(thread)]
    *copied, last = [(each.event.type, each.event.by, each.event.at) for each in events_of(copy)]
    assert copied == original
    assert last[0] == "thread.imported"
    assert copy.relay.verify().problems == []


def events_of(thread: Thread) -> list[Any]:
    events = thread.events(0, 1_000)
    while page := thread.events(events[-1].seq, 1_000):
        events += page
    return events


def in_order(thread: Thread) -> list[tuple[str | None, str, str, Document, bytes]]:
    """What there is to the artifacts that a state names, in the order in which it does."""
    relay = thread.relay
    refs = [each["ref"] for each in thread.state()["artifacts"]]
    every = [relay.peek(ref) for ref in refs]
    return [
        (each.name, each.type, each.media_type, each.metadata, relay.pull(each.ref))
        for each in every
    ]


# There and back


def test_three_hundred_versions_are_the_same_at_every_one(
    relay: Relay, other: Relay, tmp_path: Path
) -> None:
    """Promise T10. With snapshots on the way, which are not exported and made anew."""
    thread = relay.new_thread("long")
    chance = Random(1)
    for number in range(299):
        if number % 3 == 2:
            path = f"/facts/{chance.randrange(number - number // 3)}/value"
            thread.patch([{"op": "replace", "path": path, "value": "x" * chance.randrange(400)}])
        else:
            thread.patch([fact(f"f{number}", number)], by="coder")

    copy = sent(thread, other, tmp_path)

    assert relay.transport.stores.ledger.rows(f"t/{thread.id}", "snapshot", "", 1)
    assert copy.show().version == 300
    check_same(thread, copy)
    copy.patch([fact("more", 1)])
    assert len(copy.state()["facts"]) == len(thread.state()["facts"]) + 1


BODIES: dict[str, bytes | str] = {
    "empty": b"",
    "a byte": b"\0",
    "text": "# Notes\n" * 10,
    "unicode": "жизнь 🎉\n" * 100,
    "binary": Random(2).randbytes(20_000),
    "a row, just": bytes(32_768),
    "a blob, just": Random(3).randbytes(32_769),
    "large": Random(4).randbytes(3_000_000),
    "large and all the same": b"a" * 3_000_000,
    "a zip": b"PK\x05\x06" + bytes(18),
}


def test_bodies_of_every_kind_come_back_with_their_types(
    relay: Relay, other: Relay, tmp_path: Path
) -> None:
    """Promise T10."""
    thread = relay.new_thread()
    for name, body in BODIES.items():
        thread.put(body, name=name, metadata={"of": name, "deep": [{"a": None}, 2.5]})
    thread.put("ran", type="tool_output", capability="shell", created_by="agent-7")
    thread.put("<p>", media_type="text/html; charset=utf-8")

    copy = sent(thread, other, tmp_path)

    check_same(thread, copy)
    assert in_order(copy) == in_order(thread)
    made_by = other.peek(copy.state()["artifacts"][-2]["ref"]).provenance
    assert (made_by.created_by, made_by.capability) == ("agent-7", "shell")


def test_a_thread_that_names_what_is_gone_comes_along(
    relay: Relay, other: Relay, tmp_path: Path
) -> None:
    """Promise T10. Removed, and expired but not swept yet; forked; and all of that twice."""
    thread = relay.new_thread()
    removed = thread.put("to be removed")
    short = thread.put("to expire", ttl_s=1)
    kept = thread.put("to be kept", source_refs=(removed.ref,))
    relay.remove(removed.ref)
    later = relay.transport.stores.now_ms() + 2_000
    stores = relay.transport.stores
    relay.transport = Local(Stores(stores.engine, stores.settings, now_ms=lambda: later))
    fork = Thread(relay, thread.id).fork()
    fork.patch([fact("a", 1)])

    for each in (Thread(relay, thread.id), fork):
        copy = sent(each, other, tmp_path)
        second = sent(copy, relay, tmp_path)

        assert [each["ref"] for each in copy.state()["artifacts"]][:2] == [removed.ref, short.ref]
        check_same(each, copy)
        assert [relay.pull(found.ref) for found in second.artifacts()] == [b"to be kept"]
        with pytest.raises(Gone):
            relay.pull(second.state()["artifacts"][0]["ref"])
    assert relay.pull(kept.ref) == b"to be kept"


def test_compacted_and_restored_histories_come_along(
    relay: Relay, other: Relay, tmp_path: Path
) -> None:
    """Promise T10. What relay did by itself is in the patches, and is followed, not done again."""
    thread = relay.new_thread()
    for number in range(60):
        value = {"at": "2026-01-01T00:00:00Z", "description": f"step {number // 2}"}
        thread.patch([{"op": "add", "path": "/last_actions/-", "value": value}])
    thread.restore(20)
    thread.compact()
    thread.add_event("message.received", {"text": "hello"}, by="user")

    check_same(thread, sent(thread, other, tmp_path))


# Who has it then


# While others write


def test_an_export_during_writes_is_of_one_version(
    relay: Relay, other: Relay, tmp_path: Path
) -> None:
    """Promise T10. The version in the manifest is the one that its events lead to."""
    thread = relay.new_thread()
    is_over = threading.Event()

    def write() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            thread.put(b"%d" % number)
            thread.patch([fact(f"f{number}", number)])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            file = tmp_path / f"{number}.zip"
            view = thread.export(file)
            with zipfile.ZipFile(file) as archive:
                manifest = json.loads(archive.read("manifest.json"))
                state = json.loads(archive.read("state.json"))
            copy = other.import_thread(file)

            assert manifest["version"] == view.version == state["version"]
            assert without_ids(copy.state()) == without_ids(state)
    finally:
        is_over.set()
        writer.join()
    assert other.verify().problems == []


def test_an_export_is_not_disturbed_by_a_removal(relay: Relay, tmp_path: Path) -> None:
    """Promise T10. What it found when it began it brings to its end."""
    thread = relay.new_thread()
    for number in range(20):
        thread.put(Random(number).randbytes(100_000))
    chunks = relay.transport.ask(ExportThread(thread.id)).chunks()
    begun = next(chunks)

    for artifact in thread.artifacts():
        relay.remove(artifact.ref)
    relay.sweep()
    (tmp_path / "t.zip").write_bytes(begun + b"".join(chunks))

    copy = relay.import_thread(tmp_path / "t.zip")
    assert [len(relay.pull(each.ref)) for each in copy.artifacts()] == [100_000] * 20


def test_a_thread_removed_under_way_is_reported_and_leaves_no_file(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise T10."""
    thread = relay.new_thread()
    thread.remove()

    with pytest.raises(Gone):
        thread.export(tmp_path / "t.zip")

    assert not (tmp_path / "t.zip").exists()


# Limits


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("ARCHIVE_ENTRIES_MAX", 7),
        ("ARCHIVE_HISTORY_BYTES_MAX", 500),
        ("ARCHIVE_BYTES_MAX", 5_000),
        ("LINE_BYTES_MAX", 300),
        ("MANIFEST_BYTES_MAX", 200),
    ],
)
def test_a_thread_that_could_not_be_imported_is_not_exported(
    relay: Relay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    """Promise Z3. The limit is in the hint, and so is what to do."""
    thread = relay.new_thread()
    thread.put("one")
    thread.put("two")
    monkeypatch.setattr(f"contextrelay.core.transfer.{limit}", value)

    with pytest.raises(TooLarge) as refused:
        thread.export(tmp_path / "t.zip")

    assert str(value) in refused.value.hint
    assert "relay backup" in refused.value.hint
    assert list(tmp_path.glob("*t.zip*")) == []


# Crashes


def test_any_prefix_of_an_import_does_no_harm(tmp_path: Path) -> None:
    """Promise T10: a thread or none; what a crash leaves over goes by itself."""
    with Relay("memory:") as relay:
        thread = relay.new_thread("travels")
        first = thread.put(b"first" * 20_000)
        thread.put("second", source_refs=(first.ref,))
        thread.export(tmp_path / "t.zip")
    content = (tmp_path / "t.zip").read_bytes()
    for stops_after in range(100):
        engine, clock = open_engine("memory:"), Clock()
        local(clock, engine).ask(Push(ttl_s=None), b"kept before")
        stuttering = Engine("stutter", StutterLedger(engine.ledger, stops_after), engine.blobs)
        try:
            Local(Stores(stuttering, now_ms=clock)).ask(ImportThread(), content)
        except Stopped:
            _check_nothing_is_left(local(clock, engine), clock)
        else:
            assert stops_after
            return
    pytest.fail("the import never ends")


def _check_nothing_is_left(core: Local, clock: Clock) -> None:
    assert core.ask(ListThreads()).threads == []
    for artifact in core.ask(List()).artifacts:
        assert core.ask(Pull(artifact.ref)).whole()
    clock.pass_ms(2 * HOUR_MS)
    core.ask(Sweep())
    clock.pass_ms(DAY_MS)
    core.ask(Sweep())
    (kept,) = core.ask(List()).artifacts
    assert core.ask(Pull(kept.ref)).whole() == b"kept before"
    assert core.ask(Verify()).problems == []
    assert core.ask(NewThread("next")).version == 1
