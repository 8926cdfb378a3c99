"""What PostgreSQL complains of, as our errors with the next step.

Rule: no message names host, user or database: it may travel further than this machine. What the
server says of itself goes into `place`, which does not.
"""

from __future__ import annotations

import psycopg
from psycopg import errors as foreign

from contextrelay.errors import Broken, Full, Invalid, RelayError, TooLarge, Unavailable
from contextrelay.store.server_address import ENCODE

WORDS_CHARS_MAX = 300

# The transaction was undone, whatever it was: it may be sent again.
_UNDONE = (foreign.SerializationFailure, foreign.DeadlockDetected)
# The server is coming or going.
_NOT_NOW = (
    foreign.AdminShutdown,
    foreign.CrashShutdown,
    foreign.CannotConnectNow,
    foreign.TooManyConnections,
)
_REFUSED_WORDS = ("authentication", "pg_hba.conf", "password", "role ", "permission denied")


def is_undone(error: BaseException | None) -> bool:
    """Whether what was sent was not done, and may be done if it is sent again."""
    if isinstance(error, _UNDONE):
        return True
    return isinstance(error, psycopg.OperationalError) and _is_connecting(error)


def is_passing(error: BaseException | None) -> bool:
    """Whether the same may be answered a moment later."""
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
    """Say what is wrong, at which address, and what to do."""
    words = " ".join((error.diag.message_primary or str(error)).split())[:WORDS_CHARS_MAX]
    place = f"{address}: {words}"
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        # It quotes what it could not read of the address: nothing of that is shown.
        return Invalid("the store's address makes no sense", f"see docs/engines.md; {ENCODE}")
    if is_connecting:
        return _cannot_connect(words, place)
    match error:
        case foreign.DiskFull():
            return Full(
                "the store's server has no room left",
                "free some on its disk; reads still work",
                place=place,
            )
        case foreign.ReadOnlySqlTransaction():
            return Unavailable(
                "the store's server takes no writes: it is a standby, or was set to read-only",
                "give the address of the primary, or add ?target_session_attrs=read-write",
                place=place,
            )
        case foreign.InsufficientPrivilege():
            return Unavailable(
                "the store's server refuses us: the user may not do this",
                "GRANT CREATE ON DATABASE (to make the store), or USAGE ON SCHEMA and ALL ON ALL "
                "TABLES IN SCHEMA (to use it)",
                place=place,
            )
        case (
            foreign.CharacterNotInRepertoire()
            | foreign.UntranslatableCharacter()
            | psycopg.DataError()
        ):
            return Invalid("a name holds what PostgreSQL cannot store", "use one without a NUL")
        case foreign.ProgramLimitExceeded():
            return TooLarge("a name is too long for the store's server", "use a shorter one")
        case _ if isinstance(error, (*_UNDONE, foreign.LockNotAvailable)):
            return Unavailable("the store is busy with other writers", "try again", place=place)
        case psycopg.OperationalError() | foreign.QueryCanceled():
            done = "; it may or may not have been done" if sent_once else ""
            return Unavailable(
                f"the store's server does not answer{done}",
                "check that it is up, then try again",
                place=place,
            )
        case _:
            return Broken(
                f"the store's server refused a statement: {type(error).__name__}",
                "see what with: relay doctor --store ADDRESS",
                place=place,
            )


def _cannot_connect(words: str, place: str) -> RelayError:
    if "does not support SSL" in words:
        return Unavailable(
            "the store's server offers no TLS, and the address asks for it",
            "set ssl = on in its postgresql.conf, or leave out sslmode",
            place=place,
        )
    if "certificate" in words:
        return Unavailable(
            "no TLS with the store's server: a certificate is missing, or is from nobody known",
            "check ?sslrootcert=FILE, and ?sslcert= and ?sslkey= where it asks for ours",
            place=place,
        )
    if "resolve host" in words:
        return Unavailable(
            "nobody knows the host in the store's address", "check its name", place=place
        )
    if "does not exist" in words and "database" in words:
        return Unavailable(
            "the store's server has no such database", "make it: createdb NAME", place=place
        )
    if any(word in words for word in _REFUSED_WORDS):
        return Unavailable(
            "the store's server refuses us",
            "check user and password in its address, and its pg_hba.conf",
            place=place,
        )
    return Unavailable(
        "the store's server does not answer",
        "check that a server listens at its address, then try again",
        place=place,
    )
