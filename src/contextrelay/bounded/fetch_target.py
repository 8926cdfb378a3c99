"""Fetch targets: the URLs that may be fetched, and the checked addresses to connect to.

A name is resolved once and all its addresses are checked. The connection goes to one of these
addresses and the name is not resolved again, so a changed DNS answer has no effect.
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
from contextrelay.documents.values import quote_value
from contextrelay.errors import Failed, Invalid, Refused, TooLarge
from contextrelay.limits import FETCH_BYTES_MAX, URL_CHARS_MAX

if TYPE_CHECKING:
    from ssl import SSLContext

FETCH_S_MAX = 30
FETCH_ADDRESSES_MAX = 8
FETCH_NAMES_AT_ONCE_MAX = 32

PORTS = {"http": 80, "https": 443}


class FetchPolicy(Struct, frozen=True):
    """What a fetch may connect to, and how it resolves names and checks certificates."""

    is_allowed: Callable[[str], bool]  # Returns True if an address may be connected to.
    bytes_max: int = FETCH_BYTES_MAX
    seconds_max: float = FETCH_S_MAX
    resolve: Callable[[str, int], list[str]] | None = None
    """Returns the addresses of a name and a port; None means the resolver of the system."""
    tls: SSLContext | None = None  # The trusted certificates; None means those of the system.


class FetchDeadline:
    """The remaining time of a fetch."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until_s = time.monotonic() + seconds

    def left_s(self) -> float:
        """Return the remaining seconds, which are more than 0.

        Raises:
            Failed: the time is up.
        """
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise self.over()
        return left_s

    def over(self) -> Failed:
        return Failed(f"the server took more than {self._seconds:g} seconds", "try again later")


def checked_url(url: str) -> SplitResult:
    """Return the parts of a URL that may be fetched.

    Raises:
        Invalid: the URL is not allowed.
    """
    hint = "use a URL like https://example.org/page"
    if len(url) > URL_CHARS_MAX:
        raise TooLarge("the URL is too long", f"the limit is {URL_CHARS_MAX} characters")
    if any(character <= " " or character == "\x7f" for character in url):
        raise Invalid(f"{quote_value(url)} contains a space or a control character", hint)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise Invalid(f"invalid URL {quote_value(url)}: {error}", hint) from error
    if parts.scheme not in PORTS:
        raise Invalid(f"{quote_value(url)} is neither http nor https", hint)
    if parts.username is not None or parts.password is not None:
        raise Invalid("the URL contains a user name or password", "remove them")
    if not host or port == 0:
        raise Invalid(f"missing host in {quote_value(url)}", hint)
    return parts


def host_of(parts: SplitResult) -> tuple[str, int]:
    """Return the host name in ASCII form, and the port."""
    host = parts.hostname or ""
    try:
        # A literal IPv6 address is not a name. The codec accepts neither IPv6 addresses nor labels
        # of more than 63 characters.
        name = host if ":" in host else host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise Invalid(f"invalid host name {quote_value(host)}", "check the URL") from error
    return name, parts.port or PORTS[parts.scheme]


def plain_url(parts: SplitResult) -> str:
    """Return a URL for an error message, without its query, which may contain secrets."""
    return quote_value(urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")))[1:-1]


def addresses_of(parts: SplitResult, policy: FetchPolicy, deadline: FetchDeadline) -> list[str]:
    """Return the addresses of a host, all of which are allowed.

    Raises:
        Refused: an address is not allowed; a name with allowed and other addresses is a trick. The
            error does not contain the address, so that it reveals nothing about the network.
    """
    host, port = host_of(parts)
    found = policy.resolve(host, port) if policy.resolve else _look_up(host, port, deadline)
    refused = [address for address in found if not policy.is_allowed(address)]
    written = quote_value(parts.hostname or "")[1:-1]
    if refused:
        is_never = any(reach_of(address) == "never" for address in refused)
        hint = "to allow private networks: relay config set fetch_private true"
        hint = "no setting allows it: fetch from another host" if is_never else hint
        raise Refused(f"fetching from {written} is not allowed", hint)
    if not found:
        raise Failed(f"{written} has no address", "check the URL")
    return found[:FETCH_ADDRESSES_MAX]


_names_at_once = threading.BoundedSemaphore(FETCH_NAMES_AT_ONCE_MAX)


def _look_up(host: str, port: int, deadline: FetchDeadline) -> list[str]:
    """Resolve a name with the system resolver.

    The resolver has no timeout, so it runs in a thread that is abandoned when the time is up.
    """
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
        wrong = f"cannot resolve {quote_value(host)[1:-1]}: {answers[0]}"
        raise Failed(wrong, "check the URL") from answers[0]
    return answers[0]
