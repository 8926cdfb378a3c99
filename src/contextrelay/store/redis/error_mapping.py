"""Redis errors converted to Context Relay errors, with the next step."""

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
# Replies that have no class in redis-py: the server cannot write to its disk, has too few replicas,
# or is busy with a script.
_NOT_NOW_WORDS = ("MISCONF", "NOREPLICAS", "BUSY", "UNKILLABLE", "LOADING", "MASTERDOWN")


class NotConfirmed(foreign.RedisError):
    """Raised if a write was done, but not confirmed by all required replicas."""


def has_no_file(error: Exception) -> bool:
    """Return True if the server keeps no append-only file, or does not know WAITAOF."""
    words = str(error)
    return "appendonly is disabled" in words or "unknown command" in words


def convert_error(error: Exception, address: str, *, is_write: bool = False) -> RelayError:
    """Convert an error of redis-py to a Context Relay error with the next step."""
    # The error of a pipeline quotes the command, with names and bodies in it, so keep only the end,
    # which is the server's own text. An error of sentinels ends with redis-py's repr of its
    # connections.
    words = str(error).rpartition("caused error: ")[2].partition(" : <")[0]
    words = words[:SERVER_WORDS_CHARS_MAX]
    done = "; the write may or may not have been done" if is_write else ""
    if isinstance(error, foreign.OutOfMemoryError) or "OOM command not allowed" in words:
        return Full(
            "the store's server is out of memory",
            "raise its maxmemory, or delete content",
            place=address,
        )
    # In a script, a missing permission is a generic error with this text.
    if isinstance(error, HOPELESS) or "ACL failure in script" in words:
        hint = "check user and password in its address, and its access list"
        if isinstance(error, foreign.MaxConnectionsError):
            hint = f"use fewer threads; at most {CONNECTIONS_MAX} connections to it at a time"
        return Unavailable(f"the store's server denied access: {words}", hint, place=address)
    if isinstance(error, MasterNotFoundError):
        return _no_master(str(error), address)
    if isinstance(error, foreign.ReadOnlyError) or "READONLY" in words:
        return Unavailable(
            "the store's server is read-only: it is a replica",
            "use the address of its master, or of its sentinels; during a fail-over, try again",
            place=address,
        )
    if isinstance(error, foreign.ConnectionError) and ("SSL" in words or "certificate" in words):
        return Unavailable(
            "TLS handshake with the store's server failed",
            "rediss:// needs a server with TLS at that port, and ?ssl_ca_certs=FILE if its "
            "certificate is not from a known authority",
            place=f"{address}: {words}",
        )
    if isinstance(error, foreign.ConnectionError | foreign.TimeoutError | OSError):
        # The text of this error contains the server and its port.
        hint = "check that a server listens at its address, then try again"
        message = f"the store's server is unreachable{done}"
        if isinstance(error.__context__, gaierror):
            message, hint = "unknown host in the store's address", "check the host name"
        elif isinstance(error, foreign.TimeoutError) and address.startswith(("rediss", "valkeys")):
            hint = "check that a server with TLS listens at its address, then try again"
        return Unavailable(message, hint, place=f"{address}: {words}")
    if isinstance(error, (*_NOT_NOW, NotConfirmed)) or words.startswith(_NOT_NOW_WORDS):
        message = f"the store's server cannot answer now: {words}"
        return Unavailable(message, "try again in a moment", place=address)
    message = f"the store's server refused a command: {words}"
    return Broken(message, "check whether something else uses these keys", place=address)


def _no_master(words: str, address: str) -> Unavailable:
    """Return the error for sentinels that name no master.

    In the text, their errors come after their repr.
    """
    if "AuthenticationError" in words or "NoPermissionError" in words:
        message = "the sentinels denied access"
        hint = "check ?sentinel_password= in the address: the password before @ is for the servers"
    elif " : <" in words:
        message = "no master was found: the sentinels are unreachable, or do not know that name"
        hint = "check that they are running, and the name after / in the address; then try again"
    else:
        message = "the sentinels know no master of that name, or it is down"
        hint = "check the name after / in the address: SENTINEL MASTERS lists the known ones"
    return Unavailable(message, hint, place=address)


def unconfirmed(address: str, replicas: int) -> Unconfirmed:
    who = f"{replicas} replica" + ("s" if replicas > 1 else "")
    return Unconfirmed(
        f"the write may have been done, but was not confirmed by {who}"
        if replicas
        else "the write may have been done, but the store's server did not confirm it",
        "check whether it is stored, or try again with the same key; check the replicas",
        place=address,
    )
