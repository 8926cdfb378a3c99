"""Records that were damaged outside of the store: each is reported, and all others stay usable."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any, cast

import httpx2
import pytest
from msgspec.json import decode, encode

from contextrelay import Broken, Relay, RelayError
from contextrelay.client.thread import Thread
from contextrelay.core.answer import answer
from contextrelay.state import event_chain
from contextrelay.state.schema import fact
from contextrelay.verbs import Backup, ExportThread, ReadEvents, ReadHeader, TryPatch
from tests.cli.shell import Shell
from tests.rigs import length, rig, some
from tests.server.serving import serving

STORES = length(thin=60, long=200, full=2_000)
SERVED = length(thin=12, long=60, full=600)
FLIPS = 3
VALUE = {"id": "f9", "key": "plan", "value": "go"}


def filled(folder: Path) -> list[str]:
    """Make a store with some of everything; its refs and threads."""
    with Relay(folder) as relay:
        thread = relay.new_thread("release notes")
        for number in range(4):
            thread.patch([fact("k", "v" * 50, id=f"f{number}")])
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


@rig
def test_random_bytes_in_a_store_end_no_request_with_a_fault_of_ours(
    base: tuple[Path, list[str]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the log nor the client sees a traceback, and the lists are answered."""
    folder, refs = base
    chance = Random(27)
    for _ in range(SERVED):
        damaged = shutil.copytree(folder, tmp_path / "damaged")
        with closing(sqlite3.connect(damaged / "relay.db")) as database:
            for _ in range(FLIPS):
                table = chance.choice(("fact", "row"))
                rows = database.execute(f"SELECT rowid, body FROM {table}").fetchall()
                rowid, body = chance.choice(rows)
                spoiled = bytearray(body or b"\0")
                spoiled[chance.randrange(len(spoiled))] = chance.randrange(256)
                database.execute(f"UPDATE {table} SET body = ? WHERE rowid = ?", (spoiled, rowid))
            database.commit()
        with serving(damaged) as served, httpx2.Client(base_url=served.url) as web:
            for path in LISTS:
                assert web.get(path).status_code == 200, path
            for path in paths_of(*refs):
                with suppress(httpx2.RemoteProtocolError):  # Cut off in a damaged body.
                    assert "internal error" not in web.get(path).text, path
        shutil.rmtree(damaged)
    assert not [record.message for record in caplog.records if record.exc_info]


LISTS = ("/v1/threads", "/v1/artifacts", "/v1/channels", "/ui/", "/ui/threads", "/ui/runs")


def paths_of(text: str, large: str, *threads: str) -> Iterator[str]:
    for ref in (text, large):
        yield from (f"/ui/a/{ref}", f"/pull/{ref}", f"/peek/{ref}")
        yield from (f"/v1/artifacts/{ref}{end}" for end in ("", "/content", "/outline"))
    for thread in threads:
        yield from (f"/ui/t/{thread}", f"/threads/{thread}", f"/threads/{thread}/state")
        parts = ("state", "header", "events", "artifacts", "trace", "package", "export")
        yield from (f"/v1/threads/{thread}/{part}" for part in parts)
    yield from ("/v1/search?query=hello", "/v1/grep?pattern=hello", "/v1/keys", "/v1/handoffs")


def write_event(store: Path, thread: str, seq: int, body: bytes) -> None:
    """Write an event past the product."""
    with closing(sqlite3.connect(store / "relay.db")) as database:
        where = "UPDATE fact SET body = ? WHERE log = ? AND seq = ?"
        database.execute(where, (body, f"t/{thread}", seq))
        database.commit()


def changed(value: Any) -> Iterator[Any]:
    """A JSON value with one value in it of another type, or missing; each in turn."""
    if isinstance(value, dict):
        object: dict[str, Any] = cast("dict[str, Any]", value)
        for name, inner in object.items():
            yield {key: each for key, each in object.items() if key != name}
            yield from ({**object, name: each} for each in changed(inner))
    elif isinstance(value, list):
        items: list[Any] = cast("list[Any]", value)
        for index, inner in enumerate(items):
            yield from ([*items[:index], each, *items[index + 1 :]] for each in changed(inner))
    others: tuple[Any, ...] = (None, 7, "x", ["x"], {"x": "x"})
    yield from (each for each in others if not isinstance(each, type(cast("object", value))))


def test_no_value_of_another_type_in_an_event_ends_a_verb_with_an_error_that_is_not_ours(
    base: tuple[Path, list[str]], tmp_path: Path
) -> None:
    """The JSON is whole, and its state is not one."""
    store, (_, _, thread, _) = shutil.copytree(base[0], tmp_path / "store"), base[1]
    with Relay(store) as relay:
        stores, handle = relay.transport.stores, relay.thread(thread)
        facts = stores.ledger.read(f"t/{thread}", 0, 100)
        for fact in facts:
            event = fact.body[event_chain.HASH_BYTES :]
            for each in some(changed(decode(event)), 40):
                changed_body = fact.body[: event_chain.HASH_BYTES] + encode(each)
                write_event(store, thread, fact.seq, changed_body)
                stores.live_states.drop(thread)
                for ask in asked_of_thread(relay, handle):
                    with suppress(RelayError):
                        ask()
                assert relay.verify().problem_count
            write_event(store, thread, fact.seq, fact.body)
        stores.live_states.drop(thread)
        assert not relay.verify().problem_count


WRONG_TYPES = (
    "row SET body = CAST(body AS TEXT) WHERE log LIKE 'i/a/%'",
    "row SET body = 5 WHERE log LIKE 'i/a/%'",
    "row SET body = CAST(x'c328' AS TEXT) WHERE log LIKE 'b/%' AND kind = 'at'",
    "row SET body = 5 WHERE log LIKE 't/%'",
    "row SET due_ms = 'soon' WHERE log LIKE 'a/%' AND due_ms IS NOT NULL",
    "row SET key = CAST(key || x'ff' AS TEXT) WHERE log LIKE 'i/a/%'",
    "row SET kind = CAST(kind || x'ff' AS TEXT) WHERE log LIKE 'a/%'",
    "row SET log = CAST(log || x'ff' AS TEXT) WHERE log LIKE 'a/%'",
    "row SET log = CAST(log || x'ff' AS TEXT) WHERE log LIKE 'b/%'",
    "row SET log = CAST(log || x'ff' AS TEXT) WHERE log LIKE 't/%'",
    "row SET log = CAST(log AS BLOB) WHERE log LIKE 't/%'",
    "fact SET body = CAST(body AS TEXT)",
    "fact SET body = 5",
    "fact SET seq = 'x' || seq WHERE log LIKE 't/%'",
    "fact SET log = CAST(log || x'ff' AS TEXT) WHERE log LIKE 't/%'",
)


@pytest.mark.parametrize("change", WRONG_TYPES)
def test_verify_reports_values_of_another_type_and_invalid_names_and_nothing_else_crashes(
    base: tuple[Path, list[str]], tmp_path: Path, change: str
) -> None:
    """One changed bit in a record of SQLite makes text or a number of a body."""
    store, (text, *_, thread, _) = changed_by(base, tmp_path, change), base[1]

    with Relay(store) as relay:
        problems = relay.verify().problems
        for ask in (*asked(relay, base[1]), lambda: write_backup(relay)):
            with suppress(RelayError):
                ask()
    with serving(store) as served, httpx2.Client(base_url=served.url) as web:
        lists = {path: web.get(path).status_code for path in LISTS}
        answers: list[str] = []
        for path in (f"/v1/threads/{thread}", *paths_of(text, text, thread)):
            with suppress(httpx2.RemoteProtocolError):  # Cut off in a damaged body.
                answers.append(web.get(path).text)

    assert any("damaged" in problem.what for problem in problems)
    assert not [problem for problem in problems if "cannot continue" in problem.what]
    assert set(lists.values()) == {200}, lists
    assert not [answer for answer in answers if str(tmp_path) in answer]
    assert not [answer for answer in answers if "internal error" in answer]


def write_backup(relay: Relay) -> None:
    answer(relay.transport.stores, Backup()).whole()


def changed_by(base: tuple[Path, list[str]], folder: Path, change: str) -> Path:
    """A copy of the store after a change past the product."""
    store = shutil.copytree(base[0], folder / "store")
    with closing(sqlite3.connect(store / "relay.db")) as database:
        assert database.execute(f"UPDATE {change}").rowcount
        database.commit()
    return store


def asked_of_thread(relay: Relay, handle: Thread) -> Iterator[Callable[[], object]]:
    """All that is asked of a damaged thread; it changes nothing."""
    ask = relay.transport.ask
    yield relay.threads
    yield relay.savings
    yield relay.sweep
    yield handle.show
    yield handle.state
    yield handle.header
    yield handle.pack
    yield handle.trace
    yield handle.stats
    yield lambda: answer(relay.transport.stores, ExportThread(handle.id)).whole()
    yield handle.artifacts
    yield lambda: handle.diff(1, 2)
    yield lambda: list(handle.history())
    yield lambda: ask(ReadHeader(handle.id, version=3))
    yield lambda: ask(ReadEvents(handle.id))
    yield lambda: ask(TryPatch(handle.id, [{"op": "add", "path": "/facts/0", "value": VALUE}]))


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


def test_an_answer_that_a_damaged_body_ends_is_cut_off_without_a_traceback(
    base: tuple[Path, list[str]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, (_, _, thread, _) = shutil.copytree(base[0], tmp_path / "store"), base[1]
    with closing(sqlite3.connect(store / "relay.db")) as database:
        found = "SELECT rowid, body FROM row WHERE instr(body, 'hello world')"
        for rowid, body in database.execute(found).fetchall():
            spoiled = body.replace(b"hello world", b"hello wurld")
            database.execute("UPDATE row SET body = ? WHERE rowid = ?", (spoiled, rowid))
        database.commit()

    with (
        serving(store) as served,
        httpx2.Client(base_url=served.url) as web,
        pytest.raises(httpx2.RemoteProtocolError),
    ):
        web.get(f"/v1/threads/{thread}/export")

    assert any("cut off" in record.message for record in caplog.records)
    assert not [record.message for record in caplog.records if record.exc_info]


def test_doctor_names_a_damaged_signal(base: tuple[Path, list[str]], tmp_path: Path) -> None:
    store = shutil.copytree(base[0], tmp_path / "store")
    with closing(sqlite3.connect(store / "relay.db")) as database:
        database.execute("UPDATE fact SET body = x'ff00' WHERE log = 'c/news'")
        database.commit()

    doctor = Shell(tmp_path).run("--store", str(store), "doctor")

    assert doctor.returncode == 2
    assert b"news" in doctor.stdout


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
