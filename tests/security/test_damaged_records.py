"""Records that were damaged outside of the store: each is reported, and all others stay usable."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import httpx2
import pytest

from contextrelay import Broken, Relay, RelayError
from tests.cli.shell import Shell
from tests.rigs import length, rig
from tests.server.serving import serving

STORES = length(thin=60, long=200, full=2_000)
FLIPS = 3


def filled(folder: Path) -> list[str]:
    """Make a store with some of everything; its refs and threads."""
    with Relay(folder) as relay:
        thread = relay.new_thread("release notes")
        for number in range(4):
            fact = {"id": f"f{number}", "key": "k", "value": "v" * 50}
            thread.patch([{"op": "add", "path": "/facts/-", "value": fact}])
        other = relay.new_thread("other")
        text = relay.push(b"hello world\n" * 100, name="notes.txt", thread=thread.id)
        large = relay.push(b"x" * 90_000, name="large.bin", channel="news")
        removed = relay.push(b"{}", name="removed.json", ttl_s=10_000)
        relay.publish("news", "hello")
        relay.once("a key").push(b"pushed with a key")
        relay.pull(text.ref)
        relay.outline(text.ref)
        relay.new_key(name="agent")
        relay.remove(removed.ref)
        return [text.ref, large.ref, thread.id, other.id]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("damaged") / "store"
    refs = filled(folder)
    with closing(sqlite3.connect(folder / "relay.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder, refs


def asked(relay: Relay, refs: list[str]) -> Iterator[Callable[[], object]]:
    """All that is asked of a damaged store."""
    text, large, thread, _ = refs
    yield relay.threads
    yield lambda: relay.threads(text="release")
    yield lambda: relay.find_threads("release notes")
    yield relay.list
    yield relay.channels
    yield lambda: relay.signals("news", after=0)
    yield relay.keys
    yield relay.survey
    yield relay.savings
    yield relay.handoffs
    yield lambda: relay.search("hello")
    yield lambda: relay.thread(thread).state()
    yield lambda: list(relay.thread(thread).history())
    yield lambda: (relay.peek(text), relay.peek(large))
    yield lambda: (relay.pull(text), relay.pull(large))
    yield lambda: (relay.outline(text), relay.grep("hello", text))
    yield lambda: relay.push(b"a new body")
    yield lambda: relay.once("a key").push(b"pushed with a key")
    yield lambda: relay.push(b"another body", thread=thread)
    yield relay.sweep


@rig
def test_random_bytes_in_a_store_end_no_verb_with_an_error_that_is_not_ours(
    base: tuple[Path, list[str]], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    folder, refs = base
    chance = Random(6)
    refused = 0
    for _ in range(STORES):
        damaged = shutil.copytree(folder, tmp_path / "damaged")
        content = bytearray((damaged / "relay.db").read_bytes())
        for _ in range(FLIPS):
            content[chance.randrange(len(content))] = chance.randrange(256)
        (damaged / "relay.db").write_bytes(content)
        with suppress(RelayError), Relay(damaged) as relay:
            relay.verify()
            for ask in asked(relay, refs):
                try:
                    ask()
                except RelayError:
                    refused += 1
        shutil.rmtree(damaged)
    record_property("stores", STORES)
    record_property("refused", refused)


def damaged_events(base: tuple[Path, list[str]], folder: Path) -> tuple[Path, list[str]]:
    """A copy of the store in whose first thread an event is not UTF-8."""
    whole, refs = base
    store = shutil.copytree(whole, folder / "store")
    with closing(sqlite3.connect(store / "relay.db")) as database:
        where = "WHERE log = ? AND seq = 3"
        (body,) = database.execute(f"SELECT body FROM fact {where}", (f"t/{refs[2]}",)).fetchone()
        middle = len(body) // 2
        spoiled = body[:middle] + b"\xc3\x28" + body[middle + 2 :]
        database.execute(f"UPDATE fact SET body = ? {where}", (spoiled, f"t/{refs[2]}"))
        database.commit()
    return store, refs


def test_a_thread_with_a_damaged_event_is_listed_with_its_problem(
    base: tuple[Path, list[str]], tmp_path: Path
) -> None:
    store, (_, _, thread, other) = damaged_events(base, tmp_path)

    with Relay(store) as relay:
        views = {view.thread_id: view for view in relay.threads().threads}
        problems = relay.verify().problems
        with pytest.raises(Broken):
            relay.thread(thread).state()
        healthy = relay.thread(other).state()

    assert views[thread].name == "release notes"
    assert "cannot be read" in (views[thread].problem or "")
    assert views[other].problem is None
    assert healthy["version"] == 1
    assert {problem.ref for problem in problems} == {thread}


def test_a_server_lists_and_shows_what_is_not_damaged(
    base: tuple[Path, list[str]], tmp_path: Path
) -> None:
    store, (text, _, thread, other) = damaged_events(base, tmp_path)

    with serving(store) as served, httpx2.Client(base_url=served.url) as web:
        listed = web.get("/v1/threads")
        page = web.get("/ui/threads")
        paths = ("/ui/", f"/ui/t/{other}", f"/v1/threads/{other}", f"/pull/{text}")
        others = [web.get(path).status_code for path in paths]
        refused = web.get(f"/v1/threads/{thread}")

    assert listed.status_code == page.status_code == 200
    assert {each["thread_id"] for each in listed.json()["threads"]} == {thread, other}
    assert "damaged" in page.text
    assert others == [200] * len(others)
    assert refused.status_code == 500
    assert "relay verify" in refused.json()["hint"]


def test_the_command_line_reports_damage_and_goes_on(
    base: tuple[Path, list[str]], tmp_path: Path
) -> None:
    store, (_, _, thread, _) = damaged_events(base, tmp_path)
    shell = Shell(tmp_path)
    at = ("--store", str(store))

    listing = shell.run(*at, "thread", "list", human=True)
    verified = shell.run(*at, "verify")
    doctor = shell.run(*at, "doctor")

    assert listing.returncode == 0
    assert all(name in listing.stdout for name in (b"release notes", b"other", b"damaged"))
    assert verified.returncode != 0
    assert doctor.returncode == 2
    for done in (verified, doctor):
        assert thread.encode() in done.stdout + done.stderr
        assert b"Traceback" not in done.stderr
