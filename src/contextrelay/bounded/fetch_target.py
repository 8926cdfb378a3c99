"""Fetch targets: which URLs may be fetched, and the judged addresses that a connection goes to.

A name is resolved once and every address it has is judged; the connection goes to one of those, not
to the name again, so an answer that changes in between changes nothing.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit, urlunsplit

from msgspec import Struct

from contextrelay.access import reach_of
from contextrelay.documents.values import shown
from contextrelay.errors import Failed, Invalid, Refused, TooLarge
from contextrelay.limits import FETCH_BYTES_MAX, URL_CHARS_MAX

if TYPE_CHECKING:
    from ssl import SSLContext

FETCH_S_MAX = 30
FETCH_ADDRESSES_MAX = 8
FETCH_NAMES_AT_ONCE_MAX = 32


PORTS = {"http": 80, "https": 443}


class Ways(Struct, frozen=True):
    """How far a fetch may go, and by what means."""

    is_allowed: Callable[[str], bool]
    """Whether an address may be connected to."""
    bytes_max: int = FETCH_BYTES_MAX
    seconds_max: float = FETCH_S_MAX
    resolve: Callable[[str, int], list[str]] | None = None
    """From a name and a port to addresses; None asks the system."""
    tls: SSLContext | None = None
    """Which certificates count; None for those that the system trusts."""


class FetchDeadline:
    """The time that is left for all of it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until_s = time.monotonic() + seconds

    def left_s(self) -> float:
        """Seconds that are left, more than none.

        Raises:
            Failed: none are.
        """
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise self.over()
        return left_s

    def over(self) -> Failed:
        return Failed(f"the server took more than {self._seconds:g} seconds", "try again later")


def checked_url(url: str) -> SplitResult:
    """A URL that may be asked for, in parts.

    Raises:
        Invalid: it is not.
    """
    hint = "write it like https://example.org/page"
    if len(url) > URL_CHARS_MAX:
        raise TooLarge("the URL is too long", f"the limit is {URL_CHARS_MAX} characters")
    if any(character <= " " or character == "\x7f" for character in url):
        raise Invalid(f"{shown(url)} holds a space or a control character", hint)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise Invalid(f"{shown(url)} is no URL: {error}", hint) from error
    if parts.scheme not in PORTS:
        raise Invalid(f"{shown(url)} is neither http nor https", hint)
    if parts.username is not None or parts.password is not None:
        raise Invalid("the URL holds a user name or a password", "leave them out")
    if not host or port == 0:
        raise Invalid(f"{shown(url)} names no host", hint)
    return parts


def host_of(parts: SplitResult) -> tuple[str, int]:
    """The host as it is looked up and certified, and the port."""
    host = parts.hostname or ""
    try:
        # A literal IPv6 address is no name; the codec knows neither it nor anything over 63.
        name = host if ":" in host else host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise Invalid(f"{shown(host)} is no host name", "check the URL") from error
    return name, parts.port or PORTS[parts.scheme]


def plain_url(parts: SplitResult) -> str:
    """A URL as an error shows it: without what may be secret in its query."""
    return shown(urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")))[1:-1]


def addresses_of(parts: SplitResult, ways: Ways, deadline: FetchDeadline) -> list[str]:
    """The addresses of a host, each of which may be reached.

    Raises:
        Refused: one of them may not: a name of both kinds is a trick. It does not name the address:
            what a name leads to in here is nobody else's business.
    """
    host, port = host_of(parts)
    found = (ways.resolve or _looking_up(deadline))(host, port)
    refused = [address for address in found if not ways.is_allowed(address)]
    written = shown(parts.hostname or "")[1:-1]
    if refused:
        is_never = any(reach_of(address) == "never" for address in refused)
        raise Refused(
            f"{written} may not be fetched from",
            "no setting allows it: fetch from another host"
            if is_never
            else "for private networks of your own: relay config set fetch_private true",
        )
    if not found:
        raise Failed(f"{written} has no address", "check the URL")
    return found[:FETCH_ADDRESSES_MAX]


_names_at_once = threading.BoundedSemaphore(FETCH_NAMES_AT_ONCE_MAX)


def _looking_up(deadline: FetchDeadline) -> Callable[[str, int], list[str]]:
    """Ask the system, which knows no time limit: in a thread that is left behind if it must be."""

    def look_up(host: str, port: int) -> list[str]:
        answers: list[list[str] | OSError | UnicodeError] = []
        if not _names_at_once.acquire(timeout=deadline.left_s()):
            raise deadline.over()

        def ask() -> None:
            try:
                every = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                answers.append(list(dict.fromkeys(str(each[4][0]) for each in every)))
            except (OSError, UnicodeError) as error:
                answers.append(error)
            finally:
                _names_at_once.release()

        asking = threading.Thread(target=ask, name="relay-look-up", daemon=True)
        asking.start()
        asking.join(deadline.left_s())
        if not answers:
            raise deadline.over()
        if isinstance(answers[0], OSError | UnicodeError):
            raise Failed(
                f"{shown(host)[1:-1]} cannot be found: {answers[0]}", "check the URL"
            ) from answers[0]
        return answers[0]

    return look_up
