"""Fetches: download a URL, or post to it, and connect only to allowed addresses.

A name is resolved once and all its addresses are checked. The connection goes to one of these
addresses and the name is not resolved again, so a changed DNS answer has no effect; each redirect
is checked like the first URL. docs/decisions/0021 says why this does not use an HTTP library.

Rule: everything that the server sends is limited: total time, bytes received, bytes unpacked,
redirects, header lines.
"""

from __future__ import annotations

import io
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, urljoin, urlsplit, urlunsplit

from msgspec import Struct

from contextrelay.access import reach_of
from contextrelay.content.artifact_type import is_media_type
from contextrelay.documents.values import quote_value
from contextrelay.errors import Failed, Invalid, Refused, RelayError, TooLarge
from contextrelay.limits import CHUNK_BYTES, FETCH_BYTES_MAX, URL_CHARS_MAX

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

FETCH_REDIRECTS_MAX = 5

_REDIRECTS = (301, 302, 303, 307, 308)
_AGENT = "contextrelay"
_GZIP = 16 + zlib.MAX_WBITS


class Fetched(Struct, frozen=True):
    """The response to a fetch, and the URL after all redirects."""

    url: str
    status: int
    media_type: str | None
    body: bytes


def fetch(url: str, policy: FetchPolicy) -> Fetched:
    """Download a URL, following redirects.

    Raises:
        Invalid: the URL is invalid, or the server refuses it.
        Refused: the URL leads to an address that is not allowed.
        TooLarge: the content is too large.
        Failed: the server is unreachable, too slow, or returned a server error.
    """
    deadline = FetchDeadline(policy.seconds_max)
    for _ in range(FETCH_REDIRECTS_MAX + 1):
        parts = checked_url(url)
        answer = _ask(parts, policy, deadline)
        if isinstance(answer, Fetched):
            return answer
        url = urljoin(url, answer)
        if parts.scheme == "https" and url.lower().startswith("http:"):
            wrong = f"{plain_url(parts)} redirects from https to http"
            raise Refused(wrong, "fetch that URL directly")
    limit = f"the limit is {FETCH_REDIRECTS_MAX} redirects"
    raise Refused(f"too many redirects: {quote_value(url)}", limit)


def post(url: str, body: bytes, headers: dict[str, str], policy: FetchPolicy) -> None:
    """Post a body to a URL. Only the status of the response is used.

    Raises:
        Refused: the server redirects, which is not followed; or as `fetch` does.
        Invalid, TooLarge, Failed: as `fetch` does.
    """
    parts = checked_url(url)
    answer = _ask(parts, policy, FetchDeadline(policy.seconds_max), (body, headers))
    if isinstance(answer, str):
        raise Refused(f"{plain_url(parts)} redirects elsewhere", "use that URL directly")


# Requests


class _Connection:
    """A connection for http.client whose reads share one deadline."""

    def __init__(self, sock: socket.socket, deadline: FetchDeadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self._sock, self._deadline))

    def sendall(self, content: bytes) -> None:
        self._sock.settimeout(self._deadline.left_s())
        self._sock.sendall(content)

    def close(self) -> None:
        """Do nothing: http.client calls this before the body is read. `_ask` closes it."""


class _Incoming(io.RawIOBase):
    """A stream of the bytes that arrive on a connection."""

    def __init__(self, sock: socket.socket, deadline: FetchDeadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._deadline.left_s())
        return self._sock.recv_into(buffer)


def _ask(
    parts: SplitResult,
    policy: FetchPolicy,
    deadline: FetchDeadline,
    sent: tuple[bytes, dict[str, str]] | None = None,
) -> Fetched | str:
    """Send one request; return the response, or the URL of a redirect."""
    from http.client import HTTPConnection, HTTPException

    host, port = host_of(parts)
    addresses = addresses_of(parts, policy, deadline)
    try:
        with _connected(addresses, port, deadline) as sock:
            if parts.scheme == "https":
                import ssl

                context = policy.tls or ssl.create_default_context()
                sock.settimeout(deadline.left_s())
                sock = context.wrap_socket(sock, server_hostname=host)
            with sock:
                connection = HTTPConnection(host, port)
                connection.auto_open = 0
                connection.sock = _Connection(sock, deadline)
                return _answer(_asked(connection, parts, host, sent), parts, policy)
    except TimeoutError as error:
        raise deadline.over() from error
    except (OSError, HTTPException, UnicodeError, zlib.error) as error:
        said = quote_value(str(error) or type(error).__name__)[1:-1]
        wrong = f"{plain_url(parts)} cannot be fetched: {said}"
        raise Failed(wrong, "check the URL, or try again") from error


def _connected(addresses: list[str], port: int, deadline: FetchDeadline) -> socket.socket:
    """Connect to the first address that accepts the connection. Names are never used here."""
    trouble: OSError | None = None
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(deadline.left_s())
            sock.connect((address, port))
        except OSError as error:
            sock.close()
            trouble = error
        except RelayError:
            sock.close()
            raise
        else:
            return sock
    assert trouble is not None
    raise trouble


def _asked(
    connection: HTTPConnection,
    parts: SplitResult,
    host: str,
    sent: tuple[bytes, dict[str, str]] | None,
) -> HTTPResponse:
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = "?" + quote(parts.query, safe="/?%:@!$&'()*+,;=~-._[]") if parts.query else ""
    named = f"[{host}]" if ":" in host else host
    port = parts.port
    method = "GET" if sent is None else "POST"
    connection.putrequest(method, path + query, skip_host=True, skip_accept_encoding=True)
    is_usual = port is None or port == PORTS[parts.scheme]
    connection.putheader("Host", named if is_usual else f"{named}:{port}")
    connection.putheader("User-Agent", _AGENT)
    connection.putheader("Accept", "*/*")
    connection.putheader("Accept-Encoding", "gzip")
    connection.putheader("Connection", "close")
    if sent is None:
        connection.endheaders()
    else:
        body, headers = sent
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
    return connection.getresponse()


# The response


def _answer(response: HTTPResponse, parts: SplitResult, policy: FetchPolicy) -> Fetched | str:
    status = response.status
    location = response.getheader("Location")
    if status in _REDIRECTS and location:
        return location
    if not 200 <= status < 300:
        said = f"{plain_url(parts)} answered {status} {quote_value(response.reason)[1:-1]}".rstrip()
        if status >= 500 or status == 429:
            raise Failed(said, "try again later")
        raise Invalid(said, "check the URL")
    body = b"".join(_bounded(_unpacked(response, policy.bytes_max), policy.bytes_max))
    if response.length:
        wrong = f"the response of {plain_url(parts)} ended {response.length} bytes early"
        raise Failed(wrong, "try again")
    named = (response.getheader("Content-Type") or "").strip()
    media_type = named if is_media_type(named) else named.partition(";")[0].strip()
    is_known = is_media_type(media_type) and media_type != "application/octet-stream"
    return Fetched(urlunsplit(parts), status, media_type if is_known else None, body)


def _unpacked(response: HTTPResponse, bytes_max: int) -> Iterator[bytes]:
    """Yield the chunks of the body of a response, unpacked in pieces of limited size.

    Raises:
        Invalid: the body has an encoding that was not requested.
        Failed: the body ends early.
    """
    coding = (response.getheader("Content-Encoding") or "identity").strip().lower()
    if coding not in ("identity", "gzip", "x-gzip"):
        wrong = f"unsupported content encoding {quote_value(coding)}"
        raise Invalid(wrong, "fetch another URL of the same content")
    chunks = _bounded(iter(lambda: response.read(CHUNK_BYTES), b""), bytes_max)
    if coding == "identity":
        yield from chunks
        return
    unpacker = zlib.decompressobj(_GZIP)
    is_begun = False
    for chunk in chunks:
        rest = chunk
        while rest:
            is_begun = True
            yield unpacker.decompress(rest, CHUNK_BYTES)
            rest = unpacker.unconsumed_tail
            if unpacker.eof:
                rest, is_begun = unpacker.unused_data, False
                unpacker = zlib.decompressobj(_GZIP)
        # All packed input may be consumed before all of the output was read.
        while is_begun and (more := unpacker.decompress(b"", CHUNK_BYTES)):
            yield more
    if is_begun:
        raise Failed("the compressed body ended early", "try again")


def _bounded(chunks: Iterator[bytes], bytes_max: int) -> Iterator[bytes]:
    size_bytes = 0
    for chunk in chunks:
        size_bytes += len(chunk)
        if size_bytes > bytes_max:
            limit = f"the limit is {bytes_max} bytes"
            raise TooLarge("the content of that URL is too large", limit)
        yield chunk


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
