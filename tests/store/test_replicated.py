"""Redis with replicas: what `durability=replicated` acknowledges outlives its master."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from itertools import islice
from pathlib import Path
from time import sleep

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from contextrelay import Relay, Unconfirmed
from contextrelay.errors import Invalid, Unavailable
from contextrelay.store.ledger import Fact, Row, Write
from contextrelay.store.redis import client as redis_client
from contextrelay.store.redis.address import parse, without_password
from contextrelay.store.redis.ledger import RedisLedger
from tests.rigs import rig
from tests.store.engines import Servers, new_prefix
from tests.store.lossy import LossyProxy
from tests.store.replicas import NAME, Node, Watched
from tests.store.waiting import WAIT_S_MAX, free_port, until


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    """A master and its replica."""
    master, replica = Node(tmp_path / "master"), Node(tmp_path / "replica")
    try:
        master.start()
        replica.start(of=master)
        until(lambda: is_linked(replica), "the replica")
        yield master, replica
    finally:
        master.kill()
        replica.kill()


def is_linked(replica: Node) -> bool:
    return replica.ask("INFO", "replication").get("master_link_status") == "up"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up soon what is never confirmed."""
    monkeypatch.setattr(redis_client, "CONFIRM_S_MAX", 1.0)
    monkeypatch.setattr(redis_client, "WAIT_MS", 300)


def url_of(node: Node, durability: str = "replicated") -> str:
    return f"redis://127.0.0.1:{node.port}/0?durability={durability}"


# One master


@pytest.mark.usefixtures("impatient")
def test_a_write_that_no_replica_has_is_not_confirmed_and_is_done_once(
    pair: tuple[Node, Node],
) -> None:
    """Promise G2."""
    master, replica = pair
    ledger = RedisLedger(url_of(master))
    assert ledger.commit(Write("a", (b"1",))) == [1]

    replica.kill()
    with pytest.raises(Unconfirmed) as not_sure:
        ledger.commit(Write("a", (b"2",), (Row("k", "x", b"1"),)))
    with pytest.raises(Unconfirmed):
        ledger.confirm("a")

    assert (not_sure.value.status, not_sure.value.exit_code) == (503, 1)
    assert "1 replica" in str(not_sure.value)
    assert ledger.read("a", 0, 9) == [Fact(1, b"1"), Fact(2, b"2")]
    replica.start(of=master)
    until(lambda: is_linked(replica), "the replica")
    assert ledger.commit(Write("a", (b"3",))) == [3]
    ledger.close()


@pytest.mark.usefixtures("impatient")
def test_plain_writes_of_a_master_that_is_cut_off_are_lost_and_replicated_ones_are_not(
    pair: tuple[Node, Node],
) -> None:
    """Promise G2: what `fast` does not promise."""
    master, replica = pair
    sure, plain = RedisLedger(url_of(master)), RedisLedger(url_of(master, "fast"))
    sure.commit(Write("a", (b"replicated",)))

    replica.ask("REPLICAOF", "NO", "ONE")  # Another master was chosen; this one does not know.
    assert plain.commit(Write("a", (b"acknowledged",))) == [2]
    with pytest.raises(Unconfirmed):
        sure.commit(Write("a", (b"not acknowledged",)))
    master.kill()

    left = RedisLedger(url_of(replica, "fast"))
    assert left.read("a", 0, 9) == [Fact(1, b"replicated")]
    for ledger in (sure, plain, left):
        ledger.close()


@pytest.mark.usefixtures("impatient")
def test_where_a_file_is_kept_the_replicas_have_to_have_it_on_disk(
    pair: tuple[Node, Node],
) -> None:
    """Promise G2."""
    master, replica = pair
    master.ask("CONFIG", "SET", "appendfsync", "always")
    master.ask("CONFIG", "SET", "appendonly", "yes")
    ledger = RedisLedger(url_of(master))

    with pytest.raises(Unconfirmed):
        ledger.commit(Write("a", (b"1",)))

    replica.ask("CONFIG", "SET", "appendfsync", "always")
    replica.ask("CONFIG", "SET", "appendonly", "yes")
    until(lambda: not replica.ask("INFO", "persistence")["aof_rewrite_in_progress"], "its file")
    until(lambda: is_confirmed(ledger), "a write on both disks")
    ledger.close()


def is_confirmed(ledger: RedisLedger) -> bool:
    try:
        ledger.confirm("a")
    except Unconfirmed:
        return False
    return True


def test_a_replicated_store_needs_a_replica(servers: Servers) -> None:
    """Promise G2."""
    with pytest.raises(Unavailable, match="no replica") as alone:
        RedisLedger(f"{servers.single()}?durability=replicated")

    assert "durability=fast" in alone.value.hint


def test_a_write_whose_reply_was_lost_is_sent_again_and_done_once(
    pair: tuple[Node, Node],
) -> None:
    """Promises G2, S4."""
    with LossyProxy(pair[0].port) as proxy:
        ledger = RedisLedger(f"redis://127.0.0.1:{proxy.port}/0?durability=replicated")
        ledger.commit(Write("a", (b"id-1",)))

        proxy.lose(b"id-2")
        assert ledger.commit(Write("a", (b"id-2",), expect=1)) == [2]
        proxy.lose(b"HINCRBY")
        ledger.commit(Write("n", adds=(("x", 1),)))
        assert ledger.tally("n") == {"x": 1}

        assert ledger.read("a", 0, 9) == [Fact(1, b"id-1"), Fact(2, b"id-2")]
        ledger.close()


@pytest.mark.usefixtures("impatient")
def test_a_repeated_request_is_not_answered_with_what_is_not_confirmed(
    pair: tuple[Node, Node],
) -> None:
    """Promise G2: the key of a request makes nothing more certain than it is."""
    master, replica = pair
    with Relay(url_of(master)) as relay:
        thread = relay.new_thread()
        replica.kill()
        for _ in range(2):
            with pytest.raises(Unconfirmed):
                thread.once("k1").add_event("custom.event")
        replica.start(of=master)
        until(lambda: is_linked(replica), "the replica")

        thread.once("k1").add_event("custom.event")

        kinds = [each.event.type for each in thread.events()]
        assert kinds.count("custom.event") == 1


def test_a_state_that_followed_what_a_fail_over_took_back_is_read_again(
    pair: tuple[Node, Node], tmp_path: Path
) -> None:
    """Promises G2, T4: what nobody was promised may go, and damages nothing."""
    master, other = pair
    third = Node(tmp_path / "third")
    try:
        third.start(of=other)
        until(lambda: is_linked(third), "a replica of the replica")
        with LossyProxy(master.port) as proxy:
            url = f"redis://127.0.0.1:{proxy.port}/0?durability=replicated"
            with Relay(url) as relay, Relay(url_of(other, "fast")) as after:
                mine = relay.new_thread()
                other.ask("REPLICAOF", "NO", "ONE")
                with Relay(url_of(master, "fast")) as before:
                    before.thread(mine.id).patch([{"op": "add", "path": "/lost", "value": 1}])
                assert mine.state()["lost"] == 1

                proxy.lead_to(other.port)
                after.thread(mine.id).patch([{"op": "add", "path": "/kept", "value": 1}])
                made = mine.patch([{"op": "add", "path": "/mine", "value": 1}])

                state = mine.state()
                assert (made.version, state["version"]) == (3, 3)
                assert (state["kept"], state["mine"], "lost" in state) == (1, 1, False)
                assert after.thread(mine.id).state() == state
                assert relay.verify().problems == []
    finally:
        third.kill()


@pytest.mark.parametrize("waits", [False, True])
def test_a_signal_that_a_fail_over_took_back_is_not_heard_and_its_number_is_heard_once(
    pair: tuple[Node, Node], tmp_path: Path, waits: bool
) -> None:
    """Promises G2, S4."""
    master, other = pair
    third = Node(tmp_path / "third")
    try:
        third.start(of=other)
        until(lambda: is_linked(third), "a replica of the replica")
        with LossyProxy(master.port) as proxy, ThreadPoolExecutor(1) as pool:
            url = f"redis://127.0.0.1:{proxy.port}/0?durability=replicated"
            with Relay(url) as relay, Relay(url_of(other, "fast")) as later:
                relay.publish("news", "kept")
                other.ask("REPLICAOF", "NO", "ONE")
                reading = pool.submit(heard_after, relay, 1) if waits else None
                sleep(0.5)
                with Relay(url_of(master, "fast")) as before:
                    before.publish("news", "lost")
                reading = reading or pool.submit(heard_after, relay, 0)
                # It reads what there is, and asks whether that stays.
                until(lambda: is_asked(master), "the question")
                proxy.lead_to(other.port)
                until(lambda: is_asked(other), "the same question of the next one")
                sleep(1)  # It reads again, and finds less.
                later.publish("news", "in its place")

                assert reading.result(WAIT_S_MAX) == [(1, "kept"), (2, "in its place")][waits:]
    finally:
        third.kill()


def heard_after(relay: Relay, after: int) -> list[tuple[int, str | None]]:
    """The signals after a number, up to the second."""
    signals = relay.subscribe("news", after=after, timeout_s=WAIT_S_MAX)
    return [(each.seq, each.message) for each in islice(signals, 2 - after)]


@pytest.mark.usefixtures("impatient")
def test_a_subscription_waits_for_the_replicas_that_confirm_its_signals(
    pair: tuple[Node, Node],
) -> None:
    """Promises G2, S4."""
    master, replica = pair
    with Relay(url_of(master)) as relay, Relay(url_of(master, "fast")) as plain:
        replica.kill()
        plain.publish("news", "said while it was away")
        with pytest.raises(Unconfirmed):
            list(relay.subscribe("news", after=0, timeout_s=0.5))

        signals = relay.subscribe("news", after=0, timeout_s=WAIT_S_MAX)
        with ThreadPoolExecutor(1) as pool:
            heard = pool.submit(next, signals)
            sleep(3)
            replica.start(of=master)

            assert heard.result(2 * WAIT_S_MAX).message == "said while it was away"


def is_asked(master: Node) -> bool:
    return int(master.ask("EXISTS", "{relay}:confirm")) == 1


# Addresses


def test_an_address_names_sentinels_and_their_master() -> None:
    """Promise G2."""
    address = parse("rediss+sentinel://me:p%40ss@h1,h2:7,[::1]:8/main/3?replicas=1&ssl_ca_certs=/c")

    assert address.sentinels == (("h1", 26379), ("h2", 7), ("::1", 8))
    assert (address.master, address.replicas) == ("main", 1)
    assert address.url == "rediss://me:p%40ss@localhost/3?ssl_ca_certs=%2Fc"
    assert without_password("redis+sentinel://me:p@h1,h2:7/main?x=1") == (
        "redis+sentinel://h1,h2:7/main"
    )


@pytest.mark.parametrize(
    "url",
    [
        "redis://h/0?durability=some",
        "redis://h/0?durability=replicated&replicas=0",
        "redis+sentinel://h1,h2",
        "redis+sentinel://h1,/main",
        "redis+sentinel://h1:port/main",
        "redis+sentinel://h1/main?socket_timeout=long",
    ],
)
def test_an_address_that_makes_no_sense_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        redis_client.connect(url)


def test_a_replica_is_named_as_such(pair: tuple[Node, Node]) -> None:
    ledger = RedisLedger(url_of(pair[1], "fast"))

    with pytest.raises(Unavailable) as refused:
        ledger.commit(Write("a", (b"1",)))

    ledger.close()
    assert "it is a replica" in refused.value.message
    assert "master" in refused.value.hint


# Sentinels


def test_sentinels_that_know_no_such_master_are_said(servers: Servers) -> None:
    """Promise G2."""
    url = servers.sentinel().replace("relaymaster", "another")

    with pytest.raises(Unavailable) as unknown:
        RedisLedger(url)

    assert "another" in str(unknown.value)
    assert "no master of that name" in unknown.value.message
    assert "name after /" in unknown.value.hint


def test_sentinels_that_refuse_us_or_do_not_answer_are_said(tmp_path: Path) -> None:
    sentinel, nobody = Node(tmp_path / "sentinel"), Node(tmp_path / "nobody")
    try:
        sentinel.be_sentinel(nobody)
        sentinel.ask("ACL", "SETUSER", "default", ">right")

        with pytest.raises(Unavailable) as refused:
            redis_client.connect(
                f"redis+sentinel://127.0.0.1:{sentinel.port}/{NAME}?sentinel_password=wrong"
            )
        with pytest.raises(Unavailable) as away:
            redis_client.connect(f"redis+sentinel://127.0.0.1:{nobody.port}/{NAME}")
    finally:
        sentinel.kill()

    assert "sentinel_password" in refused.value.hint
    assert "sentinels are unreachable" in away.value.message
    assert "<" not in f"{refused.value}{away.value}"


def test_a_replica_that_a_sentinel_takes_for_the_master_is_not_read(
    pair: tuple[Node, Node], tmp_path: Path
) -> None:
    """Promise G2: it may have nothing yet."""
    sentinel = Node(tmp_path / "sentinel")
    try:
        sentinel.be_sentinel(pair[1])

        with pytest.raises(Unavailable) as wrong:
            RedisLedger(f"redis+sentinel://127.0.0.1:{sentinel.port}/{NAME}")

        assert "not a master" in wrong.value.local_message
    finally:
        sentinel.kill()


@rig
def test_a_store_behind_sentinels_and_a_password_outlives_its_master() -> None:
    """Promises G2, S4."""
    watched = Watched(replicas=1, password="let-me-in")
    try:
        with Relay(f"{watched.url}?durability=replicated") as relay:
            thread = relay.new_thread("kept")
            body = b"x" * 100_000
            ref = thread.put(body).ref
            with ThreadPoolExecutor(1) as pool:
                signals = relay.subscribe("news", after=0, timeout_s=WAIT_S_MAX)
                heard = pool.submit(lambda: list(islice(signals, 2)))
                relay.publish("news", "before")
                watched.fail_over()
                relay.publish("news", "after")
                said = heard.result(2 * WAIT_S_MAX)

            assert [(each.seq, each.message) for each in said] == [(1, "before"), (2, "after")]
            assert relay.pull(ref) == body
            assert thread.patch([{"op": "add", "path": "/x", "value": 1}]).version == 3
    finally:
        watched.stop()


# TLS


def test_a_store_is_reached_over_tls_with_a_checked_certificate(
    servers: Servers, tmp_path: Path
) -> None:
    """Promise G2."""
    certificate = make_certificate(tmp_path)
    master = servers.start()
    open_to_all = redis_client.connect(f"redis://127.0.0.1:{master.port}")
    open_to_all.ask("CONFIG", "SET", "requirepass", "pass")
    open_to_all.close()
    with TlsProxy(master.port, tmp_path) as proxy:
        address = f"rediss://:pass@127.0.0.1:{proxy.port}/0?prefix={new_prefix()}"

        with Relay(f"{address}&ssl_ca_certs={certificate}") as relay:
            assert relay.pull(relay.push("over TLS").ref) == b"over TLS"
        with pytest.raises(Unavailable, match=r"(?i)certificate") as unknown:
            Relay(address)

    assert "ssl_ca_certs" in unknown.value.hint


def make_certificate(folder: Path) -> Path:
    """A key and a certificate for loopback, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (folder / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return folder / "certificate.pem"


class TlsProxy:
    """A way to a server by TLS: the server that PyPI has is built without."""

    def __init__(self, target_port: int, folder: Path) -> None:
        self.port = free_port()
        self._target_port = target_port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> TlsProxy:
        self._thread.start()
        assert self._started.wait(WAIT_S_MAX)
        return self

    def __exit__(self, *ended: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._context)
        self._started.set()
        await self._stopped.wait()
        server.close()

    async def _serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        far, forth = await asyncio.open_connection("127.0.0.1", self._target_port)
        try:
            await asyncio.gather(_pass(near, forth), _pass(far, back))
        finally:
            for writer in (forth, back):
                writer.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(65_536):
            writer.write(chunk)
    writer.close()
