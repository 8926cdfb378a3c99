"""Errors: the few ways in which a verb can fail, each with its code, HTTP status and exit code.

    RelayError
    ├── Invalid          the request is wrong in itself
    │   ├── TooLarge     ... because it passes a limit
    │   ├── BudgetTooSmall   ... because what must go into a window is larger than its budget
    │   └── Refused      ... because what it would lead to is not allowed
    │       └── Forbidden    ... or not to this caller: no key, or one that may not
    ├── NotFound         no such thing, as far as the caller may know
    ├── Gone             it was there; a tombstone says when and why it went
    ├── Sealed           it is sealed, and no key was given that opens it
    ├── Conflict         the state moved on since the caller read it
    ├── Limited          too often: what was asked is counted, and the count is used up
    ├── Unavailable      the engine does not answer now; the same call may succeed later
    ├── Unconfirmed      it may have been done, but not as durably as was asked for
    ├── Failed           somebody else's answer was not usable: a capability's, or a server's
    ├── Full             no room left, not for this key, or a read-only disk; reads still work
    └── Broken           the store is damaged, unreadable or from a newer version

Rule: the message says what is wrong with which thing, the hint says what to do now. The code
crosses the wire and the class comes back; `place`, a file of this machine, does not.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class RelayError(Exception):
    """The root of every error that Context Relay raises on purpose."""

    code = "error"
    status = 500
    exit_code = 1

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
        """The file that it is about, where it is one of the store: no message names it."""
        if status is not None:
            self.status = status

    @property
    def local_message(self) -> str:
        """The message for people on this machine: with the file that it is about."""
        return f"{self.place}: {self.message}" if self.place else self.message

    def __str__(self) -> str:
        return f"{self.local_message} ({self.hint})" if self.hint else self.local_message

    def __reduce__(self) -> tuple[type[RelayError], tuple[object, ...]]:
        return type(self), (self.message, self.hint, self.details, self.status, self.place)


class Invalid(RelayError):
    """The request is wrong in itself: sending it again cannot help."""

    code, status, exit_code = "invalid", 400, 2


class TooLarge(Invalid):
    """The request passes a limit; the hint names the limit."""

    code, status = "too_large", 413


class BudgetTooSmall(Invalid):
    """What must go into a window is larger than its budget."""

    code = "budget_too_small"


class Refused(Invalid):
    """The request is well formed, but its result would break a rule; nothing was changed."""

    code, status = "refused", 422


class Forbidden(Refused):
    """The caller may not do this: its key is missing or wrong (401), or not for this (403)."""

    code, status, exit_code = "forbidden", 403, 4


class NotFound(RelayError):
    """There is no such thing."""

    code, status, exit_code = "not_found", 404, 3


class Gone(RelayError):
    """It expired or was removed; `details` holds `gone_at`, `reason` and `metadata`."""

    code, status, exit_code = "gone", 410, 4


class Sealed(RelayError, ValueError):
    """What is sealed was not opened: the key is missing, malformed or not the one, or what it was
    to open is not what was sealed. Nothing of it is given out. (A ValueError for seed 000.)
    """

    code, status, exit_code = "sealed", 423, 4


class Conflict(RelayError):
    """The state moved on since the caller read it."""

    code, status, exit_code = "conflict", 409, 5


class Limited(RelayError):
    """A count that has a limit is used up; nothing was done."""

    code, status = "limited", 429


class Unavailable(RelayError):
    """The engine does not answer now; the same call may succeed later."""

    code, status = "unavailable", 503


class Unconfirmed(RelayError):
    """The write may have been done, but not all replicas that have to confirm it did so in time."""

    code, status = "unconfirmed", 503


class Failed(RelayError):
    """A capability, or a server that it asks, brought nothing that can be used.

    It was run once, and is not run again unless the caller asks again.
    """

    code, status = "failed", 502


class Full(RelayError):
    """There is no room left to write, and removals still work; or the store is read-only.

    Reads work either way. Over HTTP its status is 402 where the quota of a key is used up.
    """

    code, status = "full", 507


class Broken(RelayError):
    """The store is damaged, unreadable or written by a newer version."""

    code, status = "broken", 500
