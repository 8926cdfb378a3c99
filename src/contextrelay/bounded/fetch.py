"""Fetches: download a URL, or post to it, and connect only to allowed addresses.

The connection goes to a checked address (fetch_target.py), never to a name; each redirect is
checked like the first URL. docs/decisions/0021 says why this does not use an HTTP library.

Rule: everything that the server sends is limited: total time, bytes received, bytes unpacked,
redirects, header lines.
"""

from __future__ import annotations

import io
import socket
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, urljoin, urlunsplit

from msgspec import Struct

from contextrelay.bounded.fetch_target import (
    PORTS,
    FetchDeadline,
    FetchPolicy,
    addresses_of,
    checked_url,
    host_of,
    plain_url,
)
from contextrelay.content.artifact_type import is_media_type
from contextrelay.documents.values import quote_value
from contextrelay.errors import Failed, Invalid, Refused, RelayError, TooLarge
from contextrelay.limits import CHUNK_BYTES

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
