"""The Redis client: one pool of connections for ledger and blobs, with our errors and our retries.

Rule: redis-py repeats nothing by itself. `ask` is repeated here, so it is only for what may be done
twice; `once` is sent at most once, and an Unavailable from it leaves open whether it was done.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from redis import Redis, RedisCluster
from redis import exceptions as foreign
from redis.backoff import NoBackoff
from redis.client import PubSub
from redis.retry import Retry

from contextrelay.errors import Broken, Full, Invalid, RelayError, Unavailable
from contextrelay.limits import BUSY_MS_MAX

Word = str | bytes | int
Command = tuple[Word, ...]
Answer = TypeVar("Answer")

REPEATS_MAX = 5
FIRST_PAUSE_S = 0.05
ANSWER_S_MAX = 10.0
CONNECT_S_MAX = 5.0
# An idle connection is tried with a PING after this long: a dead one is then replaced before a
# command that must not be repeated is sent on it.
IDLE_S_MAX = 15
SERVER_WORDS_CHARS_MAX = 200
CONNECTIONS_MAX = 256
SCANNED_KEYS = 1_000


def connect(url: str) -> Client:
    """Connect to a server, or to the cluster that it belongs to.

    Raises:
        Invalid: the address makes no sense.
        Unavailable: nobody answers there.
    """
    scheme, colon, rest = url.partition(":")
    address = {"valkey": "redis", "valkeys": "rediss"}.get(scheme, scheme) + colon + rest
    options: dict[str, Any] = {
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "socket_timeout": ANSWER_S_MAX,
        "socket_connect_timeout": CONNECT_S_MAX,
        "health_check_interval": IDLE_S_MAX,
        "max_connections": CONNECTIONS_MAX,
    }
    try:
        single: Redis = cast(Any, Redis).from_url(address, **options)
    except ValueError as error:
        raise Invalid(f"{without_password(url)} is no Redis address: {error}") from error
    server = Client(single, without_password(url), clustered=False)
    if not server.ask("INFO", "cluster").get("cluster_enabled"):
        server.learn_clock()
        return server
    single.close()
    try:
        cluster: RedisCluster = cast(Any, RedisCluster).from_url(address, **options)
    except (foreign.RedisError, foreign.RedisClusterException) as error:
        raise _ours(error, without_password(url), sent_once=False) from error
    server = Client(cluster, without_password(url), clustered=True)
    server.learn_clock()
    return server


def without_password(url: str) -> str:
    """An address that may be shown: no user, no password, no options."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        port = parts.port or 6379
    except ValueError:
        port = 0
    where = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{where}:{port}{parts.path}"


class Client:
    """A server or a cluster, and what is known of its clock. Safe to use from many threads."""

    def __init__(self, redis: Redis | RedisCluster, address: str, *, clustered: bool) -> None:
        self.clustered = clustered
        self.address = address
        self._redis = redis
        self._execute: Callable[..., Any] = cast(Any, redis).execute_command
        self._ahead_ms = 0

    def ask(self, *words: Word) -> Any:
        """Send a command that may be done twice, and send it again while nobody answers."""
        return self._repeat(lambda: self._execute(*words))

    def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands that may be done twice, in one go; between nodes they have no order."""
        return self._repeat(lambda: self._pipe(commands, atomic=False)) if commands else []

    def once(self, *words: Word) -> Any:
        """Send a command at most once."""
        return self._guard(lambda: self._execute(*words), sent_once=True)

    def once_all(self, commands: Sequence[Command]) -> list[Any]:
        """Do all commands as one, at most once. Only for a single server: slots forbid it."""
        assert not self.clustered
        return self._guard(lambda: self._pipe(commands, atomic=True), sent_once=True)

    def keys(self, begin: str) -> Iterator[str]:
        """All keys that begin so, in no order; one may come twice. It looks at every key."""
        pattern = re.sub(r"([\\*?\[\]])", r"\\\1", begin) + "*"
        found = cast(Any, self._redis).scan_iter(match=pattern, count=SCANNED_KEYS)
        while (key := self._guard(lambda: next(found, None), sent_once=False)) is not None:
            yield key.decode()

    def subscribe(self, channel: str) -> PubSub:
        """Subscribe on any node: nodes pass on to each other what is published."""
        return self._guard(lambda: self._subscribed(channel), sent_once=True)

    def now_ms(self) -> int:
        """The server's clock, as well as we know it."""
        return time.monotonic_ns() // 1_000_000 + self._ahead_ms

    def heed_clock(self, server_ms: int) -> None:
        """Take a server's word for the time."""
        self._ahead_ms = server_ms - time.monotonic_ns() // 1_000_000

    def learn_clock(self) -> None:
        self.heed_clock(int(self.ask("EVAL", CLOCK, 0)))

    def close(self) -> None:
        self._redis.close()

    def _pipe(self, commands: Sequence[Command], *, atomic: bool) -> list[Any]:
        # A cluster's pipeline must not be given `transaction=False`.
        options = {} if self.clustered else {"transaction": atomic}
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

    def _repeat(self, send: Callable[[], Answer]) -> Answer:
        deadline = time.monotonic() + BUSY_MS_MAX / 1_000
        for attempt in range(REPEATS_MAX):
            try:
                return self._guard(send, sent_once=False)
            except Unavailable as error:
                if isinstance(error.__cause__, _HOPELESS) or time.monotonic() > deadline:
                    raise
            time.sleep(FIRST_PAUSE_S * 2**attempt)
        return self._guard(send, sent_once=False)

    def _guard(self, send: Callable[[], Answer], *, sent_once: bool) -> Answer:
        try:
            return send()
        except (foreign.RedisError, foreign.RedisClusterException, OSError) as error:
            raise _ours(error, self.address, sent_once=sent_once) from error


# The server's clock in milliseconds. A script, because a cluster client asks all nodes for TIME.
CLOCK = """
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
"""

_HOPELESS = (
    foreign.AuthenticationError,
    foreign.AuthorizationError,
    foreign.NoPermissionError,
    foreign.MaxConnectionsError,
)
_NOT_NOW = (
    foreign.ConnectionError,
    foreign.TimeoutError,
    foreign.ReadOnlyError,
    foreign.ClusterError,
    foreign.TryAgainError,
    foreign.RedisClusterException,
    OSError,
)
# Answers that redis-py has no class for: the server cannot write to its disk, has too few replicas,
# or is busy with somebody's script.
_NOT_NOW_WORDS = ("MISCONF", "NOREPLICAS", "BUSY", "UNKILLABLE", "LOADING", "MASTERDOWN")


def _ours(error: Exception, address: str, *, sent_once: bool) -> RelayError:
    # A pipeline's error quotes the command, with names and bodies in it: only the end is the
    # server's own words.
    words = str(error).rpartition("caused error: ")[2][:SERVER_WORDS_CHARS_MAX]
    done = "; it may or may not have been done" if sent_once else ""
    if isinstance(error, foreign.OutOfMemoryError) or "OOM command not allowed" in words:
        return Full(
            "the store's server has no memory left", "raise its maxmemory, or delete", place=address
        )
    if isinstance(error, _HOPELESS):
        hint = "check user and password in its address, and its access list"
        if isinstance(error, foreign.MaxConnectionsError):
            hint = f"fewer threads; at most {CONNECTIONS_MAX} connections to it at a time"
        return Unavailable(f"the store's server refuses us: {words}", hint, place=address)
    if isinstance(error, foreign.ConnectionError | foreign.TimeoutError | OSError):
        # These words name the server and its port.
        hint = "check that a server listens at its address, then try again"
        message = f"the store's server does not answer{done}"
        return Unavailable(message, hint, place=f"{address}: {words}")
    if isinstance(error, _NOT_NOW) or words.startswith(_NOT_NOW_WORDS):
        message = f"the store's server cannot answer now: {words}"
        return Unavailable(message, "try again in a moment", place=address)
    message = f"the store's server refused a command: {words}"
    return Broken(message, "look for another use of these keys", place=address)
