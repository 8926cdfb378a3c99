"""Errors: the ways in which a verb can fail, each with its code, HTTP status and exit code.

    RelayError
    ├── Invalid          the request is invalid
    │   ├── TooLarge     ... because it exceeds a limit
    │   ├── BudgetTooSmall   ... because the required content of a window exceeds its budget
    │   └── Refused      ... because its result is not allowed
    │       └── Forbidden    ... or not for this caller: the key is missing or lacks permission
    ├── NotFound         the object does not exist, or the caller may not know that it exists
    ├── Gone             the object existed; a tombstone says when and why it was removed
    ├── Sealed           the content is sealed, and no key that decrypts it was given
    ├── Conflict         the state has changed since the caller read it
    ├── Limited          a rate or count limit is reached
    ├── Unavailable      the engine is unreachable; the same call may succeed later
    ├── Unconfirmed      the write may have been done, but not as durably as requested
    ├── Failed           a capability or another server returned no usable answer
    ├── Full             the disk or the key's quota is full, or the store is read-only; reads work
    └── Broken           the store is damaged, unreadable or from a newer version

Rule: the message says what is wrong, with the value; the hint says what to do. The code is sent to
clients, which raise the same class; `place`, a file on this machine, is not sent.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class RelayError(Exception):
    """The base class of every error that Context Relay raises on purpose."""

    code = "error"
    status = 500
    exit_code = 1
    may_be_done = False
    """Whether the write that failed may have been applied. Not sent to clients."""

    def __init__(
        self,
        message: str,
        hint: str = "",
        details: Mapping[str, object] | None = None,
        status: int | None = None,
        place: object = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, object] = dict(details or {})
        self.place = str(place)
        """The file of the store that the error is about. No message contains it."""
        if status is not None:
            self.status = status

    @property
    def local_message(self) -> str:
        """Return the message for users of this machine, with the file that the error is about."""
        return f"{self.place}: {self.message}" if self.place else self.message

    def __str__(self) -> str:
        return f"{self.local_message} ({self.hint})" if self.hint else self.local_message

    def __reduce__(self) -> tuple[type[RelayError], tuple[object, ...]]:
        return type(self), (self.message, self.hint, self.details, self.status, self.place)


class Invalid(RelayError):
    """The request is invalid, so sending it again cannot help."""

    code, status, exit_code = "invalid", 400, 2


class TooLarge(Invalid):
    """The request exceeds a limit; the hint names the limit."""

    code, status = "too_large", 413


class BudgetTooSmall(Invalid):
    """The required content of a window exceeds its budget."""

    code = "budget_too_small"


class Refused(Invalid):
    """The request is valid, but its result would violate a rule; nothing was changed."""

    code, status = "refused", 422


class Forbidden(Refused):
    """The caller may not send this request: the key is missing or wrong (401), or lacks permission
    (403).
    """

    code, status, exit_code = "forbidden", 403, 4


class NotFound(RelayError):
    """The requested object does not exist, or the caller may not know that it exists."""

    code, status, exit_code = "not_found", 404, 3


class Gone(RelayError):
    """The requested object expired or was removed; `details` holds `gone_at`, `reason` and
    `metadata`.
    """

    code, status, exit_code = "gone", 410, 4


class Sealed(RelayError, ValueError):
    """Sealed content could not be decrypted; no part of it is returned.

    The key is missing, malformed or wrong, or the content was changed. The class is also a
    ValueError, for clients of seed 000.
    """

    code, status, exit_code = "sealed", 423, 4


class Conflict(RelayError):
    """The state has changed since the caller read it."""

    code, status, exit_code = "conflict", 409, 5


class Limited(RelayError):
    """A rate or count limit is reached; nothing was done."""

    code, status = "limited", 429


class Unavailable(RelayError):
    """The engine is unreachable now; the same call may succeed later."""

    code, status = "unavailable", 503


class Unconfirmed(RelayError):
    """The write may have been done, but not all required replicas confirmed it in time."""

    code, status = "unconfirmed", 503
    may_be_done = True


class Failed(RelayError):
    """A capability, or a server that it uses, returned no usable result.

    The capability ran once, and does not run again unless the caller sends the request again.
    """

    code, status = "failed", 502


class Full(RelayError):
    """There is no room to write, or the store is read-only.

    Reads work in both cases, and if there is no room, removals work too. Over HTTP the status is
    402 if the quota of a key is used up.
    """

    code, status = "full", 507


class Broken(RelayError):
    """The store is damaged, unreadable or written by a newer version."""

    code, status = "broken", 500
