"""The Redis client: one connection pool for ledger and blobs, with error conversion and retries.

Rule: redis-py does not retry. All retries are done here, so a command that must not run twice is a
script that remembers its answer (store/redis/ledger.py).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

from redis import Redis, RedisCluster, SSLConnection
from redis import exceptions as foreign
from redis.backoff import NoBackoff
from redis.client import PubSub
from redis.connection import parse_url  # pyright: ignore[reportUnknownVariableType]
from redis.retry import Retry
from redis.sentinel import Sentinel

from contextrelay.errors import Invalid, Unavailable
from contextrelay.store.redis.address import Address, parse
from contextrelay.store.redis.error_mapping import (
    CONNECTIONS_MAX,
    HOPELESS,
    NotConfirmed,
    convert_error,
    has_no_file,
    unconfirmed,
)

LOOK_S_MAX = 1.0


class SlotRefresher:
    """A replacement for `initialize` of redis-py's node manager, in bounded time.

    redis-py asks node after node, each until its timeout, while all callers wait. With several
    unreachable nodes that takes longer than a caller may wait. So one thread refreshes the map,
    and callers wait for it no longer than LOOK_S_MAX; a later result serves the next attempt.
    """

    def __init__(self, manager: Any) -> None:
        self._initialize = manager.initialize
        self._lock = threading.Lock()
        self._looking: threading.Thread | None = None
        self._problem: BaseException | None = None
        manager.initialize = self.look

    def look(self, *args: Any, **options: Any) -> None:
        """Refresh the slot map, or wait for a refresh in progress.

        Raises:
            ConnectionError: the refresh takes too long, or no node answered.
        """
        with self._lock:
            if self._looking is None or not self._looking.is_alive():
                self._looking = threading.Thread(
                    target=self._run, args=(args, options), name="relay-lookout", daemon=True
                )
                self._looking.start()
            looking = self._looking
        looking.join(LOOK_S_MAX)
        if looking.is_alive():
            raise foreign.ConnectionError("the slot map is not known yet")
        if self._problem is not None:
            raise self._problem

    def _run(self, args: Any, options: Any) -> None:
        self._problem = None
        try:
            self._initialize(*args, **options)
        except (foreign.RedisError, foreign.RedisClusterException, OSError) as error:
            self._problem = error


Word = str | bytes | int
Command = tuple[Word, ...]
Answer = TypeVar("Answer")

FIRST_PAUSE_S = 0.05
PAUSE_S_MAX = 0.5
# Seconds for which idempotent commands are retried: at the first connection, and during a
# fail-over.
FIRST_S_MAX = 1.5
CONFIRM_S_MAX = 5.0
ANSWER_S_MAX = 10.0
CONNECT_S_MAX = 5.0
# Timeouts of one attempt and of a sentinel, and the time for which a server waits for its replicas.
# The server waits twice, because a file that is synced every second needs more than one second.
GUARDED_S_MAX = 2.5
GUARDED_CONNECT_S_MAX = 1.0
WAIT_MS = 1_200
# The number of idle seconds after which a connection is checked with a PING, so that a dead one is
# replaced before it is used.
IDLE_S_MAX = 15
SCANNED_KEYS = 1_000

# If a host drops all packets, only these timeouts detect it.
assert 2 * WAIT_MS / 1_000 < GUARDED_S_MAX
assert CONFIRM_S_MAX + GUARDED_CONNECT_S_MAX + GUARDED_S_MAX + LOOK_S_MAX < ANSWER_S_MAX


def connect(url: str) -> RedisClient:
    """Connect to a server, to the cluster that it belongs to, or to the master of some sentinels.

    Raises:
        Invalid: the address is invalid.
        Unavailable: the server is unreachable.
    """
    address = parse(url)
    is_guarded = address.is_replicated or bool(address.sentinels)
    options: dict[str, Any] = {
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "socket_timeout": GUARDED_S_MAX if is_guarded else ANSWER_S_MAX,
        "socket_connect_timeout": GUARDED_CONNECT_S_MAX if is_guarded else CONNECT_S_MAX,
        "health_check_interval": IDLE_S_MAX,
        "max_connections": CONNECTIONS_MAX,
    }
    single = by_sentinels(address, options) if address.sentinels else _at(address, options)
    server = RedisClient(single, address, clustered=False)
    try:
        if server.ask("INFO", "cluster").get("cluster_enabled"):
            single.close()
            server = RedisClient(_cluster(address, options), address, clustered=True)
        server.check_connection()
        server.learn_replicas()
    except (ValueError, TypeError):  # redis-py checks some options when it connects.
        server.close()
        message = "an option in the store's address has an invalid value"
        raise Invalid(
            message, "see docs/engines.md for the options", place=server.address
        ) from None
    except BaseException:
        server.close()
        raise
    return server


def _at(address: Address, options: dict[str, Any]) -> Redis:
    return cast(Any, Redis).from_url(address.url, **options)


def _cluster(address: Address, options: dict[str, Any]) -> RedisCluster:
    try:
        found = cast(Any, RedisCluster).from_url(address.url, **options)
        SlotRefresher(found.nodes_manager)
        return found
    except (foreign.RedisError, foreign.RedisClusterException) as error:
        raise convert_error(error, address.shown) from error


class _SharedDeadline(threading.local):
    """The deadline of this thread, shared by several commands; 0 if no command has failed yet."""

    is_shared = False
    at_s = 0.0


class RedisClient:
    """A client of a server or a cluster. Thread-safe."""

    def __init__(self, redis: Redis | RedisCluster, address: Address, *, clustered: bool) -> None:
        self.clustered = clustered
        self.address = address.shown
        self.is_guarded = address.is_replicated or bool(address.sentinels)
        """Whether a write is sent again until it is confirmed. Such writes need an id (GUARD)."""
        self._said = address
        self._replicas = 0
        self._was_up = False
        self._end = _SharedDeadline()
        self._redis = redis
        self._execute: Callable[..., Any] = cast(Any, redis).execute_command

    def ask(self, *words: Word) -> Any:
        """Send an idempotent command, again if there is no reply; return its answer."""
        return self._repeat(lambda: self._execute(*words))

    def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """Send idempotent commands in one pipeline; return their answers.

        Commands to different nodes have no order.
        """
        return self._repeat(lambda: self._pipe(commands)) if commands else []

    def settle(self, *words: Word) -> Any:
        """Send a command that writes, until the write is as durable as the address requires; return
        the answer.

        Raises:
            Unconfirmed: the write may have been done, but not all replicas confirm it.
        """
        if not self.is_guarded:
            return self._repeat(lambda: self._execute(*words), is_write=True)
        try:
            return self._repeat(lambda: self._send(words))
        except Unavailable as error:
            if isinstance(error.__cause__, HOPELESS):
                raise
            raise unconfirmed(self.address, self._replicas) from error

    def settle_all(self, commands: Sequence[Command]) -> None:
        """Send idempotent commands to any nodes, with the same durability as `settle`."""
        if not self.waits:
            self.ask_all(commands)
            return
        for command in commands:
            self.settle(*command)

    @contextmanager
    def failover_deadline(self) -> Generator[None]:
        """Limit the time of all commands of this thread in the block, from the first error."""
        if self._end.is_shared:
            yield
            return
        self._end.is_shared = True
        try:
            yield
        finally:
            self._end.is_shared, self._end.at_s = False, 0.0

    def keys(self, begin: str) -> Iterator[str]:
        """Yield all keys with a prefix, in arbitrary order; a key may occur twice.

        This scans all keys of the server.
        """
        pattern = re.sub(r"([\\*?\[\]])", r"\\\1", begin) + "*"
        found = cast(Any, self._redis).scan_iter(match=pattern, count=SCANNED_KEYS)
        while (key := self._guard(lambda: next(found, None))) is not None:
            yield key.decode()

    def subscribe(self, channel: str) -> PubSub:
        """Subscribe to a channel on any node: nodes forward messages to each other."""
        return self._guard(lambda: self._subscribed(channel))

    def server_ms(self) -> int:
        """Return the time of the server's clock in ms."""
        return int(self.ask("EVAL", CLOCK, 0))

    def check_connection(self) -> None:
        """Check that the server answers. Only then does the client wait during a later outage."""
        self.ask("EVAL", CLOCK, 0)
        self._was_up = True

    def learn_replicas(self) -> None:
        """Determine how many replicas have to confirm a write: the number in the address, or all
        replicas.

        Raises:
            Unavailable: there is no replica.
        """
        if not self._said.is_replicated:
            return
        self._replicas = self._said.replicas or self._guard(self._count_replicas)
        if not self._replicas:
            raise Unavailable(
                "the store's server has no replica, but durability=replicated requires one",
                "connect replicas to it, or use ?durability=fast",
                place=self.address,
            )

    @property
    def waits(self) -> bool:
        """Return True if writes wait for replicas."""
        return self._replicas > 0

    def close(self) -> None:
        self._redis.close()

    def _count_replicas(self) -> int:
        redis = cast(Any, self._redis)
        if self._said.sentinels:
            known = redis.connection_pool.sentinel_manager.sentinels
            return max(len(replicas_known(each, self._said.master)) for each in known)
        if not self.clustered:
            return int(redis.info("replication")["connected_slaves"])
        nodes = redis.cluster_nodes().values()
        masters = {node["node_id"]: 0 for node in nodes if node["slots"]}
        for node in nodes:
            if node["master_id"] in masters:
                masters[node["master_id"]] += 1
        return min(masters.values(), default=0)

    def _node_of(self, command: Command) -> Any:
        # Use the first key of a script, or else the key of the command.
        key = command[3] if command[0] == "EVAL" else command[1]
        return cast(Any, self._redis).get_node_from_key(key)

    def _send(self, command: Command) -> Any:
        """Send a command to its node like `_send_once`, even while its slot is being moved."""
        node = self._node_of(command) if self.clustered else None
        try:
            return self._send_once(command, node)
        except NotConfirmed:
            raise
        except foreign.AskError as error:
            at = cast(Any, error)
            other = cast(Any, self._redis).get_node(host=at.host, port=at.port)
            if other is None:
                self._refresh_slots()
                raise
            return self._send_once(command, other, asking=True)
        except (foreign.RedisError, foreign.RedisClusterException, OSError):
            self._refresh_slots()
            raise

    def _send_once(self, command: Command, node: Any, *, asking: bool = False) -> Any:
        """Send a command on one connection; return its answer once the replicas have its writes.

        A retry writes too, because WAIT covers only the writes of its own connection. WAITAOF is
        refused if the server keeps no append-only file, or does not know the command.
        """
        redis = cast(Any, self._redis)
        server = redis.get_redis_connection(node) if node else redis
        number = self._replicas
        waits: list[Command] = []
        if number:
            waits = [("WAITAOF", 1, number, WAIT_MS), ("WAIT", number, WAIT_MS)]
        with server.pipeline(transaction=False) as pipe:
            if asking:
                pipe.execute_command("ASKING")
            pipe.execute_command(*command)
            for each in waits:
                pipe.execute_command(*each)
            answers = pipe.execute(raise_on_error=False)[1 if asking else 0 :]
        answer, said = answers[0], answers[1:]
        for each in (answer, *said[1:]):
            if isinstance(each, Exception):
                raise each
        if said and isinstance(said[0], Exception):
            if not has_no_file(said[0]):
                raise said[0]
        elif said and (said[0][0] < 1 or said[0][1] < number):
            raise NotConfirmed("not written to an append-only file")
        if said and said[1] < number:
            raise NotConfirmed("not written to a replica")
        return answer

    def _refresh_slots(self) -> None:
        """Refresh the slot map after a fail-over."""
        if self.clustered:
            with suppress(foreign.RedisError, foreign.RedisClusterException, OSError):
                cast(Any, self._redis).nodes_manager.initialize()

    def _pipe(self, commands: Sequence[Command]) -> list[Any]:
        # The pipeline of a cluster does not accept `transaction=False`.
        options = {} if self.clustered else {"transaction": False}
        with cast(Any, self._redis).pipeline(**options) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            return pipe.execute()

    def _subscribed(self, channel: str) -> PubSub:
        redis = cast(Any, self._redis)
        if self.clustered:
            redis = redis.get_redis_connection(redis.get_random_primary_node())
        hearing = redis.pubsub()
        try:
            hearing.subscribe(channel)
        except BaseException:
            hearing.close()
            raise
        return hearing

    def _repeat(self, send: Callable[[], Answer], *, is_write: bool = False) -> Answer:
        began_s, pause_s = time.monotonic(), FIRST_PAUSE_S
        while True:
            try:
                return self._guard(send, is_write=is_write)
            except Unavailable as error:
                is_hopeless = isinstance(error.__cause__, HOPELESS)
                if is_hopeless or time.monotonic() + pause_s > self._deadline_s(began_s):
                    raise
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    def _deadline_s(self, began_s: float) -> float:
        """Return the deadline of retries.

        For commands that share a deadline, it counts from the first failure.
        """
        if not self._end.is_shared:
            return began_s + self._failover_wait_s()
        if not self._end.at_s:
            self._end.at_s = began_s + self._failover_wait_s()
        return self._end.at_s

    def _failover_wait_s(self) -> float:
        """Return for how many seconds a fail-over is hidden; 0 before the first connection."""
        is_passing = (self.is_guarded or self.clustered) and self._was_up
        return CONFIRM_S_MAX if is_passing else FIRST_S_MAX

    def _guard(self, send: Callable[[], Answer], *, is_write: bool = False) -> Answer:
        try:
            return send()
        except (foreign.RedisError, foreign.RedisClusterException, OSError) as error:
            raise convert_error(error, self.address, is_write=is_write) from error


# Returns the server's clock in ms. This is a script, because a cluster client sends TIME to all
# nodes.
CLOCK = """
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
"""


SENTINEL_S_MAX = 0.5


# Sentinels


def by_sentinels(address: Address, options: dict[str, Any]) -> Redis:
    """Return a client of the master named by the sentinels.

    The client asks them for each connection.
    """
    said: dict[str, Any] = {**cast(Any, parse_url)(address.url), **options}
    said["redis_connect_func"] = _refuse_replica
    said["ssl"] = said.pop("connection_class", None) is SSLConnection
    for name in ("host", "port"):
        said.pop(name, None)
    own = {name: said[name] for name in said if name.startswith("ssl")}
    timeouts = {"socket_timeout": SENTINEL_S_MAX, "socket_connect_timeout": SENTINEL_S_MAX}
    asked = {**own, **timeouts, "password": address.sentinel_password}
    known = Sentinel(list(address.sentinels), sentinel_kwargs=asked)
    return cast(Any, known).master_for(address.master, **said)


def _refuse_replica(connection: Any) -> None:
    """Start a connection, and close it if the server is a replica.

    A sentinel that is out of date names the former master. Restarted as a replica, that server
    refuses writes but answers reads with the data it has so far.

    Raises:
        ConnectionError: the server is not a master.
    """
    connection.on_connect()
    connection.send_command("ROLE")
    if connection.read_response()[0] != b"master":
        connection.disconnect()
        raise foreign.ConnectionError("the sentinels name a server that is not a master")


def replicas_known(sentinel: Any, master: str) -> list[Any]:
    """Return the replicas of a master that one sentinel knows; [] if it is unreachable."""
    try:
        return sentinel.sentinel_slaves(master)
    except (foreign.RedisError, OSError):
        return []
