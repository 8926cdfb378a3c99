"""Fetching: `http.fetch`, which gets what a URL leads to, and goes nowhere it must not.

A name is resolved once, every address it has is judged, and the connection goes to an address that
was judged, not to the name again: an answer that changes in between changes nothing. Each redirect
is judged as the first URL was.

Rule: everything that comes from the other side has a bound: time in all, bytes on the way, bytes
unpacked, redirects, header lines.
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

from contextrelay.core.capabilities.registry import Call, Result
from contextrelay.errors import Failed, Invalid, Refused, RelayError, TooLarge
from contextrelay.limits import (
    CHUNK_BYTES,
    FETCH_ADDRESSES_MAX,
    FETCH_BYTES_MAX,
    FETCH_NAMES_AT_ONCE_MAX,
    FETCH_REDIRECTS_MAX,
    FETCH_S_MAX,
    URL_CHARS_MAX,
)
from contextrelay.logic.access.public_addresses import reach_of
from contextrelay.logic.content.artifact_type import is_media_type
from contextrelay.logic.document.bounds import check_name
from contextrelay.logic.document.values import shown
from contextrelay.model.capability import Capability

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse
    from ssl import SSLContext

FETCH = Capability(
    name="http.fetch",
    description="Get what an http or https URL leads to: at most 10 MB, within 30 seconds.",
    args_schema={
        "type": "object",
        "properties": {
            "url": {
                "type": "string",
                "minLength": 1,
                "maxLength": URL_CHARS_MAX,
                "description": "an http or https URL",
            }
        },
        "required": ["url"],
        "additionalProperties": False,
    },
    cacheable=True,
    cache_ttl_s=600,
    version="1",
)

_PORTS = {"http": 80, "https": 443}
_REDIRECTS = (301, 302, 303, 307, 308)
_AGENT = "contextrelay"


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


class Fetched(Struct, frozen=True):
    """What came back, and from where."""

    url: str
    status: int
    media_type: str | None
    body: bytes


def run(call: Call) -> Result:
    """Answer one fetch."""
    settings = call.stores.settings
    wanted = ("public", "private") if settings.fetch_private else ("public",)
    ways = Ways(
        lambda address: reach_of(address) in wanted,
        bytes_max=min(FETCH_BYTES_MAX, settings.body_bytes_max),
    )
    fetched = fetch(str(call.args["url"]), ways)
    return Result(
        fetched.body,
        fetched.media_type,
        _name_in(fetched.url),
        {"url": fetched.url, "status": fetched.status},
    )


def fetch(url: str, ways: Ways) -> Fetched:
    """Get what a URL leads to, redirects followed.

    Raises:
        Invalid: it is no URL of ours, or the server says that it is wrong; Refused where it leads
            to an address that may not be reached; TooLarge where there is too much.
        Failed: the server cannot be reached, is too slow, or says that it cannot answer.
    """
    deadline = _Deadline(ways.seconds_max)
    for _ in range(FETCH_REDIRECTS_MAX + 1):
        parts = _checked(url)
        answer = _ask(parts, ways, deadline)
        if isinstance(answer, Fetched):
            return answer
        url = urljoin(url, answer)
        if parts.scheme == "https" and url.lower().startswith("http:"):
            raise Refused(f"{_told(parts)} leads from https to http", "fetch that URL itself")
    raise Refused(
        f"{shown(url)} is one redirect too many", f"the limit is {FETCH_REDIRECTS_MAX} redirects"
    )


class _Deadline:
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


# Where to


def _checked(url: str) -> SplitResult:
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
    if parts.scheme not in _PORTS:
        raise Invalid(f"{shown(url)} is neither http nor https", hint)
    if parts.username is not None or parts.password is not None:
        raise Invalid("the URL holds a user name or a password", "leave them out")
    if not host or port == 0:
        raise Invalid(f"{shown(url)} names no host", hint)
    return parts


def _host_of(parts: SplitResult) -> tuple[str, int]:
    """The host as it is looked up and certified, and the port."""
    host = parts.hostname or ""
    try:
        # A literal IPv6 address is no name; the codec knows neither it nor anything over 63.
        name = host if ":" in host else host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise Invalid(f"{shown(host)} is no host name", "check the URL") from error
    return name, parts.port or _PORTS[parts.scheme]


def _told(parts: SplitResult) -> str:
    """A URL as an error may tell it: without what may be secret in its query."""
    return shown(urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")))[1:-1]


def _addresses(parts: SplitResult, ways: Ways, deadline: _Deadline) -> list[str]:
    """The addresses of a host, each of which may be reached.

    Raises:
        Refused: one of them may not: a name of both kinds is a trick. It does not tell the address:
            what a name leads to in here is nobody else's business.
    """
    host, port = _host_of(parts)
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


def _looking_up(deadline: _Deadline) -> Callable[[str, int], list[str]]:
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


# Asking


class _Line:
    """A connection as http.client uses one, on which every read has only the time that is left."""

    def __init__(self, sock: socket.socket, deadline: _Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reads(self._sock, self._deadline))

    def sendall(self, content: bytes) -> None:
        self._sock.settimeout(self._deadline.left_s())
        self._sock.sendall(content)

    def close(self) -> None:
        """Leave it open: http.client lets go before the body is read; who connected closes."""


class _Reads(io.RawIOBase):
    """What comes in on a connection."""

    def __init__(self, sock: socket.socket, deadline: _Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._deadline.left_s())
        return self._sock.recv_into(buffer)


def _ask(parts: SplitResult, ways: Ways, deadline: _Deadline) -> Fetched | str:
    """Ask for one URL: what came back, or where it leads to."""
    from http.client import HTTPConnection, HTTPException

    host, port = _host_of(parts)
    addresses = _addresses(parts, ways, deadline)
    try:
        with _connected(addresses, port, deadline) as bare:
            sock = _secured(bare, host, ways, deadline) if parts.scheme == "https" else bare
            with sock:
                connection = HTTPConnection(host, port)
                connection.auto_open = 0
                connection.sock = _Line(sock, deadline)
                return _answer(_asked(connection, parts, host), parts, ways)
    except TimeoutError as error:
        raise deadline.over() from error
    except (OSError, HTTPException, UnicodeError, zlib.error) as error:
        said = str(error) or type(error).__name__
        raise Failed(
            f"{_told(parts)} cannot be fetched: {shown(said)[1:-1]}", "check the URL, or try again"
        ) from error


def _connected(addresses: list[str], port: int, deadline: _Deadline) -> socket.socket:
    """A connection to the first of the addresses that takes one; never to a name."""
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


def _secured(sock: socket.socket, host: str, ways: Ways, deadline: _Deadline) -> socket.socket:
    import ssl

    context = ways.tls or ssl.create_default_context()
    sock.settimeout(deadline.left_s())
    return context.wrap_socket(sock, server_hostname=host)


def _asked(connection: HTTPConnection, parts: SplitResult, host: str) -> HTTPResponse:
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = "?" + quote(parts.query, safe="/?%:@!$&'()*+,;=~-._[]") if parts.query else ""
    named = f"[{host}]" if ":" in host else host
    port = parts.port
    connection.putrequest("GET", path + query, skip_host=True, skip_accept_encoding=True)
    is_usual = port is None or port == _PORTS[parts.scheme]
    connection.putheader("Host", named if is_usual else f"{named}:{port}")
    connection.putheader("User-Agent", _AGENT)
    connection.putheader("Accept", "*/*")
    connection.putheader("Accept-Encoding", "gzip")
    connection.putheader("Connection", "close")
    connection.endheaders()
    return connection.getresponse()


# The answer


def _answer(response: HTTPResponse, parts: SplitResult, ways: Ways) -> Fetched | str:
    status = response.status
    location = response.getheader("Location")
    if status in _REDIRECTS and location:
        return location
    if not 200 <= status < 300:
        said = f"{_told(parts)} answered {status} {shown(response.reason)[1:-1]}".rstrip()
        if status >= 500 or status == 429:
            raise Failed(said, "try again later")
        raise Invalid(said, "check the URL")
    body = b"".join(_bounded(_unpacked(response, ways.bytes_max), ways.bytes_max))
    if response.length:
        raise Failed(f"{_told(parts)} ended {response.length} bytes early", "try again")
    named = (response.getheader("Content-Type") or "").strip()
    media_type = named if is_media_type(named) else named.partition(";")[0].strip()
    is_told = is_media_type(media_type) and media_type != "application/octet-stream"
    return Fetched(urlunsplit(parts), status, media_type if is_told else None, body)


def _unpacked(response: HTTPResponse, bytes_max: int) -> Iterator[bytes]:
    """The chunks of a body, unpacked a bounded piece at a time.

    Raises:
        Invalid: it is packed in a way that was not asked for; Failed where it ends early.
    """
    coding = (response.getheader("Content-Encoding") or "identity").strip().lower()
    if coding not in ("identity", "gzip", "x-gzip"):
        raise Invalid(f"the body is packed as {shown(coding)}", "fetch another form of it")
    chunks = _bounded(_read(response), bytes_max)
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
        # Packed bytes are used up before all they stand for is out.
        while is_begun and (more := unpacker.decompress(b"", CHUNK_BYTES)):
            yield more
    if is_begun:
        raise Failed("the packed body ended early", "try again")


_GZIP = 16 + zlib.MAX_WBITS


def _read(response: HTTPResponse) -> Iterator[bytes]:
    while chunk := response.read(CHUNK_BYTES):
        yield chunk


def _bounded(chunks: Iterator[bytes], bytes_max: int) -> Iterator[bytes]:
    size_bytes = 0
    for chunk in chunks:
        size_bytes += len(chunk)
        if size_bytes > bytes_max:
            raise TooLarge("there is too much at that URL", f"the limit is {bytes_max} bytes")
        yield chunk


def _name_in(url: str) -> str | None:
    """The last part of a URL's path, if it can be a name."""
    name = urlsplit(url).path.rpartition("/")[2]
    try:
        return check_name(name) if name else None
    except Invalid:
        return None
