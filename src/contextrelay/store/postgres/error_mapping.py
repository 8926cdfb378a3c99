"""PostgreSQL errors converted to Context Relay errors, with the next step.

Rule: no message names host, user or database, because it may be sent to other machines. The
server's own text goes into `place`, which is not sent.
"""

from __future__ import annotations

import psycopg
from psycopg import errors as foreign

from contextrelay.errors import Broken, Full, Invalid, RelayError, TooLarge, Unavailable
from contextrelay.store.server_address import ENCODE

WORDS_CHARS_MAX = 300

# Errors after which the transaction was rolled back, so that it may be sent again.
_UNDONE = (foreign.SerializationFailure, foreign.DeadlockDetected)
# Errors of a server that is starting or stopping.
_NOT_NOW = (
    foreign.AdminShutdown,
    foreign.CrashShutdown,
    foreign.CannotConnectNow,
    foreign.TooManyConnections,
)
_REFUSED_WORDS = ("authentication", "pg_hba.conf", "password", "role ", "permission denied")


def is_undone(error: BaseException | None) -> bool:
    """Return True if the statement was not executed, but may succeed if it is sent again."""
    if isinstance(error, _UNDONE):
        return True
    return isinstance(error, psycopg.OperationalError) and _is_connecting(error)


def is_passing(error: BaseException | None) -> bool:
    """Return True if the same request may succeed a moment later."""
    if isinstance(error, _UNDONE + _NOT_NOW):
        return True
    return (
        isinstance(error, psycopg.OperationalError)
        and error.sqlstate is None
        and not (_is_connecting(error) and _is_refused(error))
    )


def _is_connecting(error: psycopg.OperationalError) -> bool:
    return error.pgconn is not None


def _is_refused(error: BaseException) -> bool:
    return any(word in str(error) for word in _REFUSED_WORDS)


def translate(
    error: psycopg.Error, address: str, *, is_connecting: bool = False, sent_once: bool = False
) -> RelayError:
    """Convert an error of psycopg, with the store's address and the next step."""
    words = " ".join((error.diag.message_primary or str(error)).split())[:WORDS_CHARS_MAX]
    place = f"{address}: {words}"
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        # The error quotes the invalid part of the address, which may contain a password, so no part
        # of it is shown.
        return Invalid("invalid store address", f"see docs/engines.md; {ENCODE}")
    if is_connecting:
        return _cannot_connect(words, place)
    match error:
        case foreign.DiskFull():
            return Full(
                "the store's server is full",
                "free some space on its disk; reads still work",
                place=place,
            )
        case foreign.ReadOnlySqlTransaction():
            return Unavailable(
                "the store's server is read-only: it is a standby, or was configured so",
                "use the address of the primary, or add ?target_session_attrs=read-write",
                place=place,
            )
        case foreign.InsufficientPrivilege():
            return Unavailable(
                "the store's server denied access: missing permission",
                "GRANT CREATE ON DATABASE (to create the store), or USAGE ON SCHEMA and ALL ON ALL "
                "TABLES IN SCHEMA (to use it)",
                place=place,
            )
        case (
            foreign.CharacterNotInRepertoire()
            | foreign.UntranslatableCharacter()
            | psycopg.DataError()
        ):
            return Invalid(
                "a name contains a character that PostgreSQL cannot store",
                "use a name without a NUL",
            )
        case foreign.ProgramLimitExceeded():
            return TooLarge("a name is too long for the store's server", "use a shorter one")
        case _ if isinstance(error, (*_UNDONE, foreign.LockNotAvailable)):
            return Unavailable("the store is busy with other writers", "try again", place=place)
        case psycopg.OperationalError() | foreign.QueryCanceled():
            done = "; the write may or may not have been done" if sent_once else ""
            return Unavailable(
                f"the store's server is unreachable{done}",
                "check that it is running, then try again",
                place=place,
            )
        case _:
            return Broken(
                f"the store's server refused a statement: {type(error).__name__}",
                "for details: relay doctor --store ADDRESS",
                place=place,
            )


def _cannot_connect(words: str, place: str) -> RelayError:
    if "does not support SSL" in words:
        return Unavailable(
            "the store's server does not support TLS, but the address requires it",
            "set ssl = on in its postgresql.conf, or remove sslmode",
            place=place,
        )
    if "certificate" in words:
        return Unavailable(
            "TLS handshake with the store's server failed: a certificate is missing or untrusted",
            "check ?sslrootcert=FILE, and ?sslcert= and ?sslkey= for a client certificate",
            place=place,
        )
    if "resolve host" in words:
        return Unavailable(
            "unknown host in the store's address", "check the host name", place=place
        )
    if "does not exist" in words and "database" in words:
        return Unavailable(
            "the database does not exist on the store's server",
            "create it: createdb NAME",
            place=place,
        )
    if any(word in words for word in _REFUSED_WORDS):
        return Unavailable(
            "the store's server denied access",
            "check user and password in the address, and its pg_hba.conf",
            place=place,
        )
    return Unavailable(
        "the store's server is unreachable",
        "check that a server listens at its address, then try again",
        place=place,
    )
