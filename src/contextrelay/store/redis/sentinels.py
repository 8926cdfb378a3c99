"""Sentinels: a client that connects only to the master named by the sentinels."""

from __future__ import annotations

from typing import Any, cast

from redis import Redis, SSLConnection
from redis import exceptions as foreign
from redis.connection import parse_url  # pyright: ignore[reportUnknownVariableType]
from redis.sentinel import Sentinel

from contextrelay.store.redis.address import Address

SENTINEL_S_MAX = 0.5


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
