"""Errors of Redis, as our own with the next step."""

from __future__ import annotations

from socket import gaierror

from redis import exceptions as foreign
from redis.sentinel import MasterNotFoundError

from contextrelay.errors import Broken, Full, RelayError, Unavailable, Unconfirmed

SERVER_WORDS_CHARS_MAX = 200
CONNECTIONS_MAX = 256

HOPELESS = (
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
    foreign.AskError,
    foreign.RedisClusterException,
    OSError,
)
# Answers that redis-py has no class for: the server cannot write to its disk, has too few replicas,
# or is busy with somebody's script.
_NOT_NOW_WORDS = ("MISCONF", "NOREPLICAS", "BUSY", "UNKILLABLE", "LOADING", "MASTERDOWN")


class Unsure(foreign.RedisError):
    """A write was done, and not by all that have to confirm it."""


def has_no_file(error: Exception) -> bool:
    """Whether the server keeps no append-only file, or knows nothing of WAITAOF."""
    words = str(error)
    return "appendonly is disabled" in words or "unknown command" in words


def ours(error: Exception, address: str, *, is_write: bool = False) -> RelayError:
    """Return a foreign error as one of ours."""
    # A pipeline's error quotes the command, with names and bodies in it: only the end is the
    # server's own words. One of sentinels ends with how redis-py spells its connections.
    words = str(error).rpartition("caused error: ")[2].partition(" : <")[0]
    words = words[:SERVER_WORDS_CHARS_MAX]
    done = "; the write may or may not have been done" if is_write else ""
    if isinstance(error, foreign.OutOfMemoryError) or "OOM command not allowed" in words:
        return Full(
            "the store's server has no memory left", "raise its maxmemory, or delete", place=address
        )
    # In a script it is an error like any other, with these words.
    if isinstance(error, HOPELESS) or "ACL failure in script" in words:
        hint = "check user and password in its address, and its access list"
        if isinstance(error, foreign.MaxConnectionsError):
            hint = f"fewer threads; at most {CONNECTIONS_MAX} connections to it at a time"
        return Unavailable(f"the store's server refuses us: {words}", hint, place=address)
    if isinstance(error, MasterNotFoundError):
        return _no_master(str(error), address)
    if isinstance(error, foreign.ReadOnlyError) or "READONLY" in words:
        return Unavailable(
            "the store's server takes no writes: it is a replica",
            "give the address of its master, or of its sentinels; during a fail-over, try again",
            place=address,
        )
    if isinstance(error, foreign.ConnectionError) and ("SSL" in words or "certificate" in words):
        return Unavailable(
            "the store's server speaks no TLS with us",
            "rediss:// needs a server with TLS at that port, and ?ssl_ca_certs=FILE where its "
            "certificate is from nobody known",
            place=f"{address}: {words}",
        )
    if isinstance(error, foreign.ConnectionError | foreign.TimeoutError | OSError):
        # These words name the server and its port.
        hint = "check that a server listens at its address, then try again"
        message = f"the store's server does not answer{done}"
        if isinstance(error.__context__, gaierror):
            message, hint = "nobody knows the host in the store's address", "check its name"
        elif isinstance(error, foreign.TimeoutError) and address.startswith(("rediss", "valkeys")):
            hint = "check that a server with TLS listens at its address, then try again"
        return Unavailable(message, hint, place=f"{address}: {words}")
    if isinstance(error, (*_NOT_NOW, Unsure)) or words.startswith(_NOT_NOW_WORDS):
        message = f"the store's server cannot answer now: {words}"
        return Unavailable(message, "try again in a moment", place=address)
    message = f"the store's server refused a command: {words}"
    return Broken(message, "look for another use of these keys", place=address)


def _no_master(words: str, address: str) -> Unavailable:
    """Say why sentinels name no master; which of them failed, and how, stands after their repr."""
    if "AuthenticationError" in words or "NoPermissionError" in words:
        message = "the sentinels refuse us"
        hint = "check ?sentinel_password= in its address: the one before @ is that of the servers"
    elif " : <" in words:
        message = "no master was found: sentinels do not answer, or know none of that name"
        hint = "check that they listen there, and the name after / in its address; then try again"
    else:
        message = "the sentinels know no master of that name, or it is down"
        hint = "check the name after / in its address: SENTINEL MASTERS lists those they know"
    return Unavailable(message, hint, place=address)


def unconfirmed(address: str, replicas: int) -> Unconfirmed:
    who = f"{replicas} replica" + ("s" if replicas > 1 else "")
    return Unconfirmed(
        f"the write may have been done, but was not confirmed by {who}"
        if replicas
        else "the write may have been done, but the store's server did not confirm it",
        "look whether it is there, or ask again with the same key; check the replicas",
        place=address,
    )
