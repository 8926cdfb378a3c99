"""What holds for PostgreSQL alone: numbers, connections that end, PgBouncer, schema, trouble."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest

from contextrelay.errors import Broken, Invalid, TooLarge, Unavailable
from contextrelay.store.engine import open_engine
from contextrelay.store.ledger import Fact, Row, Stale, Write
from contextrelay.store.postgres import ledger as postgres_ledger
from contextrelay.store.postgres.blobs import PostgresBlobs
from contextrelay.store.postgres.client import without_password
from contextrelay.store.postgres.ledger import PostgresLedger
from contextrelay.store.postgres.schema_steps import SCHEMA_VERSION, bring_up_to_date, migrations
from tests.store.engines import Servers
from tests.store.lossy import LossyProxy
from tests.store.postgres.bouncer import bouncer_before
from tests.store.postgres.server import STRANGER, PostgresServer
from tests.store.waiting import WAIT_S_MAX, free_port

OPEN = Callable[[], PostgresLedger]


@pytest.fixture
def url(servers: Servers, prefix: str) -> str:
    return f"{servers.postgres()}?prefix={prefix}"


@pytest.fixture
def another(url: str) -> Iterator[OPEN]:
    """Open the test's ledger, each time by connections of its own."""
    with ExitStack() as opened:

        def open_one() -> PostgresLedger:
            ledger = PostgresLedger(url)
            opened.callback(ledger.close)
            return ledger

        yield open_one


@pytest.fixture
def ledger(another: OPEN) -> PostgresLedger:
    return another()


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may stop, and which by itself would not wait for its disk."""
    server = PostgresServer(synchronous_commit="off")
    server.start()
    yield server
    server.end()


# Numbers


def test_nobody_sees_a_number_before_those_under_it(another: OPEN) -> None:
    """Promise G2."""
    writing, reading = [another(), another(), another()], another()
    stop = threading.Event()
    gaps: list[list[int]] = []

    def look() -> None:
        seen = 0
        while not stop.is_set():
            numbers = [fact.seq for fact in reading.read("a", seen, 1_000)]
            if numbers != list(range(seen + 1, seen + 1 + len(numbers))):
                gaps.append(numbers)
            seen += len(numbers)

    def write(number: int) -> None:
        # Logs in another order each time: none waits for another that waits for it.
        names = ["a", "b", "c"] if number % 2 else ["c", "b", "a"]
        writing[number % 3].commit(*(Write(name, (b"%d" % number,)) for name in names))

    with ThreadPoolExecutor(7) as pool:
        looking = pool.submit(look)
        list(pool.map(write, range(120)))
        stop.set()
        looking.result(WAIT_S_MAX)

    assert gaps == []
    assert [reading.last(name) for name in "abc"] == [120] * 3
    assert len({fact.body for fact in reading.read("a", 0, 1_000)}) == 120


def test_commits_that_come_together_each_get_their_own_answer(ledger: PostgresLedger) -> None:
    ledger.commit(Write("a", (b"0",)))

    def write(number: int) -> list[int] | str:
        expect = 0 if number % 2 else None
        try:
            return ledger.commit(
                Write(f"own/{number}", (b"1",)), Write("a", expect=expect), Write("b", (b"1",))
            )
        except Stale as stale:
            return f"{stale.log} is at {stale.head}"

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(write, range(64)))

    assert answers[1::2] == ["a is at 1"] * 32
    assert sorted(answer[2] for answer in answers[::2] if not isinstance(answer, str)) == [
        *range(1, 33)
    ]
    assert len(ledger.logs("own/", "", 100)) == 32


def test_a_log_that_is_dropped_while_others_write_to_it_begins_again(another: OPEN) -> None:
    one, other = another(), another()

    def write(_: int) -> None:
        one.commit(Write("a", (b"1",)))

    def drop(_: int) -> None:
        try:
            other.drop("a", other.last("a"))
        except Stale:
            return

    with ThreadPoolExecutor(4) as pool:
        for _ in range(15):
            list(pool.map(write, range(2)))
            waiting = [pool.submit(write, 0), pool.submit(drop, 0), pool.submit(write, 0)]
            for each in waiting:
                each.result(WAIT_S_MAX)

    numbers = [fact.seq for fact in one.read("a", 0, 1_000)]
    assert numbers == list(range(1, one.last("a") + 1))


WRITER = """
import sys
from contextrelay.store.ledger import Stale, Write
from contextrelay.store.postgres.ledger import PostgresLedger
ledger = PostgresLedger(sys.argv[1])
done = 0
while done < 25:
    try:
        ledger.commit(Write("a", (sys.argv[2].encode(),), expect=ledger.last("a")))
        done += 1
    except Stale:
        pass
ledger.close()
"""


def test_processes_that_open_a_new_store_at_once_write_each_number_once(
    url: str, another: OPEN
) -> None:
    """Promise T4, across servers."""
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, url, str(number)]) for number in range(4)
    ]

    assert [writer.wait(60) for writer in writers] == [0] * 4
    bodies = [fact.body for fact in another().read("a", 0, 1_000)]
    assert sorted(bodies) == sorted(b"%d" % number for number in range(4) for _ in range(25))


def test_a_forked_child_goes_on_with_connections_of_its_own(ledger: PostgresLedger) -> None:
    ledger.commit(Write("a", (b"parent",)))

    child = os.fork()
    if not child:
        try:
            ledger.commit(Write("a", (b"child",)))
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

    assert ledger.commit(Write("a", (b"parent again",))) == [3]


# Connections that end


def test_a_server_that_came_back_is_used_again(own_server: PostgresServer, prefix: str) -> None:
    ledger = PostgresLedger(f"{own_server.url}?prefix={prefix}")
    heard: queue.Queue[str | None] = queue.Queue()
    ledger.listen(heard.put)
    ledger.commit(Write("a", (b"1",)))
    assert heard.get(timeout=WAIT_S_MAX) == "a"

    own_server.kill()
    own_server.start()

    # The idle connection is dead: it is replaced before a write is sent on it.
    assert ledger.commit(Write("a", (b"2",))) == [2]
    assert heard.get(timeout=WAIT_S_MAX) in (None, "a")
    ledger.close()


def test_a_call_waits_for_a_server_that_comes_back_soon(
    own_server: PostgresServer, prefix: str
) -> None:
    ledger = PostgresLedger(f"{own_server.url}?prefix={prefix}")
    own_server.kill()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(ledger.commit, Write("a", (b"1",)))
        own_server.start()

        assert writing.result(WAIT_S_MAX) == [1]
    ledger.close()


def test_a_connection_that_only_listens_finds_out_that_its_server_is_gone(
    ledger: PostgresLedger,
) -> None:
    """Promise G2: a machine that lost its power says no good-bye."""
    with ledger.client.connect() as listening:
        options = socket.socket(fileno=os.dup(listening.fileno()))
        found = [
            options.getsockopt(level, name)
            for level, name in (
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
                (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
                (socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
            )
        ]
        options.close()

    assert found == [1, 5, 1, 5]


def test_a_commit_whose_reply_was_lost_is_done_once(servers: Servers, prefix: str) -> None:
    server = servers.postgres()
    port = server.rpartition(":")[2].partition("/")[0]
    with LossyProxy(int(port)) as proxy:
        ledger = PostgresLedger(f"{server.replace(port, str(proxy.port))}?prefix={prefix}")
        lost = proxy.lose(b"once only")

        assert ledger.commit(Write("a", (b"once only",))) == [1]

        assert not lost.is_set()
        assert ledger.read("a", 0, 9) == [Fact(1, b"once only")]
        ledger.close()


def test_amounts_whose_reply_was_lost_are_added_once(servers: Servers, prefix: str) -> None:
    server = servers.postgres()
    port = server.rpartition(":")[2].partition("/")[0]
    with LossyProxy(int(port)) as proxy:
        ledger = PostgresLedger(f"{server.replace(port, str(proxy.port))}?prefix={prefix}")

        lost = proxy.lose(b"a name")
        ledger.commit(Write("a name", adds=(("x", 7),)))
        assert not lost.is_set()

        assert ledger.tally("a name") == {"x": 7}
        ledger.close()


def test_a_commit_succeeds_if_old_ids_cannot_be_deleted(
    another: OPEN, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cleaning up after a commit does not report the applied commit as failed."""
    monkeypatch.setattr(postgres_ledger, "FORGET_EVERY_S", -1)
    ledger = another()
    ledger.client.ask(REFUSE_DELETES)

    assert ledger.commit(Write("a", (b"1",))) == [1]

    with pytest.raises(Broken):
        ledger.client.ask("DELETE FROM {store}.applied")


REFUSE_DELETES = """
CREATE FUNCTION {store}.refuse() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN RAISE 'refused'; END $$;
CREATE TRIGGER refuse BEFORE DELETE ON {store}.applied EXECUTE FUNCTION {store}.refuse();
"""


def test_a_read_whose_reply_was_lost_is_sent_again(servers: Servers, prefix: str) -> None:
    server = servers.postgres()
    port = server.rpartition(":")[2].partition("/")[0]
    with LossyProxy(int(port)) as proxy:
        ledger = PostgresLedger(f"{server.replace(port, str(proxy.port))}?prefix={prefix}")
        ledger.commit(Write("a name", (b"1",)))
        proxy.lose(b"a name")

        assert ledger.last("a name") == 1
        ledger.close()


def test_a_hold_that_was_lost_says_so(ledger: PostgresLedger) -> None:
    blobs = PostgresBlobs(ledger.client)

    def hold() -> None:
        with blobs.hold():
            ledger.client.ask(
                "SELECT pg_terminate_backend(pid) FROM pg_locks "
                "WHERE locktype = 'advisory' AND mode = 'ShareLock'"
            )

    with pytest.raises(Unavailable):
        hold()


# PgBouncer


def test_a_store_works_behind_pgbouncer_in_transaction_mode(servers: Servers, prefix: str) -> None:
    """Promise G2."""
    with bouncer_before(servers.postgres()) as behind:
        ledger = PostgresLedger(f"{behind}?prefix={prefix}")
        other = PostgresLedger(f"{servers.postgres()}?prefix={prefix}")
        heard: queue.Queue[str | None] = queue.Queue()
        ledger.listen(heard.put)

        def write(number: int) -> None:
            ledger.commit(Write("a", (b"%d" % number,), (Row("k", f"{number}", b"x"),)))
            ledger.read("a", 0, 9)
            ledger.commit(Write("n", adds=(("x", 1),)))

        with ThreadPoolExecutor(12) as pool:
            list(pool.map(write, range(60)))
        with ledger.snapshot() as view:
            assert view.last("a") == 60

        assert ledger.last("a") == 60
        assert ledger.tally("n") == {"x": 60}
        # LISTEN says nothing there, so it is asked: some log has news.
        while not heard.empty():
            heard.get()
        other.commit(Write("b", (b"1",)))
        assert heard.get(timeout=WAIT_S_MAX) is None
        other.close()
        ledger.close()


# Schema


def test_a_store_of_a_newer_version_is_refused_and_not_touched(
    ledger: PostgresLedger, url: str
) -> None:
    ledger.client.ask("INSERT INTO {store}.step VALUES (99, 0)")

    with pytest.raises(Broken, match="schema 99"):
        PostgresLedger(url)


def test_an_older_store_is_brought_up_to_date(ledger: PostgresLedger) -> None:
    ledger.commit(Write("a", (b"1",)))
    steps = [*migrations(), "ALTER TABLE tally ADD COLUMN extra int"]

    bring_up_to_date(ledger.client, steps)
    bring_up_to_date(ledger.client, steps)

    assert ledger.client.ask("SELECT count(*) FROM {store}.step") == [(SCHEMA_VERSION + 1,)]
    assert ledger.client.ask("SELECT extra FROM {store}.tally") == []
    assert ledger.last("a") == 1


def test_every_step_is_counted() -> None:
    assert len(migrations()) == SCHEMA_VERSION


def test_what_is_acknowledged_is_on_disk_whatever_the_server_is_set_to(
    own_server: PostgresServer, prefix: str
) -> None:
    ledger = PostgresLedger(f"{own_server.url}?prefix={prefix}")
    for number in range(20):
        ledger.commit(Write("a", (b"%d" % number,)))

    own_server.kill()
    own_server.start()

    assert ledger.last("a") == 20
    ledger.close()


# Trouble


def test_settings_that_may_lose_what_was_acknowledged_are_a_problem() -> None:
    server = PostgresServer(fsync="off")
    server.start()
    ledger = PostgresLedger(server.url)

    problems = ledger.check()

    ledger.close()
    server.end()
    assert len(problems) == 1
    assert "fsync = on" in problems[0]


def test_nobody_there_is_unavailable_and_the_address_is_named_without_password() -> None:
    port = free_port()

    with pytest.raises(Unavailable) as away:
        PostgresLedger(f"postgresql://me:secret@127.0.0.1:{port}/relay?application_name=x")

    assert f"127.0.0.1:{port}" in str(away.value)
    assert f"{port}" not in away.value.message + away.value.hint
    assert "secret" not in str(away.value)


def test_a_missing_database_and_missing_rights_say_what_to_do(
    servers: Servers, prefix: str
) -> None:
    server = servers.postgres()
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {prefix} LOGIN PASSWORD 'right'".encode())
    place = server.partition("@")[2]

    with pytest.raises(Unavailable) as missing:
        PostgresLedger(server.replace("/postgres", "/nowhere"))
    with pytest.raises(Unavailable) as forbidden:
        PostgresLedger(f"postgresql://{prefix}:right@{place}?prefix={prefix}")

    assert "createdb" in missing.value.hint
    assert "GRANT" in forbidden.value.hint
    assert "right" not in str(forbidden.value)


def test_a_server_without_tls_and_a_missing_certificate_are_said(servers: Servers) -> None:
    with pytest.raises(Unavailable) as plain:
        PostgresLedger(f"{servers.postgres()}?sslmode=require")
    with pytest.raises(Unavailable) as unknown:
        PostgresLedger(f"{servers.postgres()}?sslmode=verify-full&sslrootcert=/nowhere.pem")

    with pytest.raises(Unavailable, match="unknown host"):
        PostgresLedger("postgresql://nobody.invalid/relay")

    assert "not support TLS" in plain.value.message
    assert "sslmode" in plain.value.hint
    assert unknown.value.hint != "check that a server listens at its address, then try again"


def test_a_wrong_password_is_refused(servers: Servers) -> None:
    with pytest.raises(Unavailable) as refused:
        PostgresLedger(servers.postgres().replace("relay@", f"{STRANGER}:wrong@"))

    assert "password" in refused.value.hint
    assert "wrong" not in str(refused.value)


def test_names_that_cannot_be_stored_are_invalid(ledger: PostgresLedger, url: str) -> None:
    with pytest.raises(Invalid):
        ledger.commit(Write("a\0b", (b"1",)))
    with pytest.raises(Invalid):
        ledger.last("a\0b")
    with pytest.raises(TooLarge):
        ledger.commit(Write("a", rows=(Row("k", os.urandom(4_000).hex(), b"1"),)))
    with pytest.raises(Invalid):
        PostgresLedger(url.replace("prefix=", "prefix=No-"))
    with pytest.raises(Invalid):
        PostgresLedger("postgresql://host/db?no_such_option=1")
    assert ledger.logs("", "", 9) == []


def test_an_error_of_one_is_not_that_of_those_who_came_with_it(ledger: PostgresLedger) -> None:
    def write(number: int) -> bool:
        name = "a\0b" if number == 7 else "a"
        try:
            return ledger.commit(Write(name, (b"%d" % number,))) != []
        except Invalid:
            return False

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(write, range(32)))

    assert [number for number, is_done in enumerate(done) if not is_done] == [7]
    assert ledger.last("a") == 31


def test_a_table_that_went_away_is_broken(ledger: PostgresLedger) -> None:
    ledger.client.ask("DROP TABLE {store}.item CASCADE")

    with pytest.raises(Broken):
        ledger.get("a", "k", "x")


def test_a_standby_is_named_as_such(ledger: PostgresLedger, url: str) -> None:
    reading = PostgresLedger(f"{url}&options=-cdefault_transaction_read_only%3Don")

    with pytest.raises(Unavailable, match="read-only"):
        reading.commit(Write("a", (b"1",)))
    reading.close()


def test_an_address_is_shown_without_password() -> None:
    shown = without_password("postgresql://me:se/c@h1:1,h2:2/db?password=p")

    assert shown == "postgresql://h1:1,h2:2/db"


def test_an_engine_shows_which_of_several_stores_it_is(url: str) -> None:
    engine = open_engine(url.replace("postgresql:", "postgres:"))

    assert engine.address.endswith("/postgres?" + url.partition("?")[2])
    assert "@" not in engine.address
    engine.close()
