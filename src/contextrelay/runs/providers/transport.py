"""The HTTP transport of the providers: bounds on what a provider sends back.

Rule: the bounds hold at the socket, below the SDK, whatever that does with a reply. Compressed
replies are refused, and no redirect is followed: the prompt goes to one host.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore2

from contextrelay.documents.values import shown
from contextrelay.errors import Failed, Invalid, RelayError
from contextrelay.limits import CONNECT_S_MAX, PROVIDER_IDLE_S
from contextrelay.runs.providers.account import ANOTHER, Account
from contextrelay.runs.providers.bounds import Bounds, Meter

# A connection that carries nothing while a model thinks is kept by routers that see these.
_KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), 60)
        for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL")
        if hasattr(socket, name)
    ),
]
_WRITE_BYTES = 65_536


def bounded_client(library: Any, account: Account, bounds: Bounds) -> tuple[dict[str, Any], Meter]:
    """Return the options of a client of httpx or httpx2 (`library`), and the meter of its replies.

    `library` is the one that the provider's SDK uses.
    """
    meter = Meter(account.name, bounds)

    class Replies(library.SyncByteStream):
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __iter__(self) -> Iterator[bytes]:
            with _translated(library):
                yield from self._stream

        def close(self) -> None:
            self._stream.close()

    class Transport(library.BaseTransport):
        def __init__(self) -> None:
            self._pool = _pool(account.url, meter)

        def handle_request(self, request: Any) -> Any:
            meter.begin()
            request.headers["accept-encoding"] = "identity"
            url = request.url
            asked = httpcore2.Request(
                method=request.method,
                url=httpcore2.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
            with _translated(library):
                reply = self._pool.handle_request(asked)
            response = library.Response(
                reply.status,
                headers=reply.headers,
                stream=Replies(reply.stream),
                extensions=reply.extensions,
            )
            problem = _problem(account, response.status_code, response.headers)
            if problem is not None:
                response.close()
                raise problem
            return response

        def close(self) -> None:
            self._pool.close()

    timeout = library.Timeout(PROVIDER_IDLE_S, connect=CONNECT_S_MAX)
    return {"transport": Transport(), "timeout": timeout, "follow_redirects": False}, meter


def _problem(account: Account, status: int, headers: Any) -> RelayError | None:
    """Return why a reply is not read, by its status and headers, or None."""
    if 300 <= status < 400:
        target = urlsplit(str(headers.get("location", "")))
        origin = f"{target.scheme}://{target.netloc.rpartition('@')[2]}"
        where = shown(origin) if target.netloc else "another path"
        return Invalid(
            f"{account.name} at {account.host} redirects to {where} ({status}); nothing was sent "
            "there",
            f"if you trust that URL, set {account.url_variable} to it",
        )
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        return Failed(
            f"{account.name} at {account.host} compressed its reply ({shown(coding)}), which was "
            "not asked for",
            f"turn compression off there, {ANOTHER}",
        )
    return None


@contextmanager
def _translated(library: Any) -> Generator[None]:
    """Raise the errors of httpcore2 as those of the library, which have the same names."""
    try:
        yield
    except (
        httpcore2.TimeoutException,
        httpcore2.NetworkError,
        httpcore2.ProtocolError,
        httpcore2.ProxyError,
        httpcore2.UnsupportedProtocol,
    ) as error:
        raise getattr(library, type(error).__name__)(str(error)) from error


# Connections


def _pool(url: str, meter: Meter) -> Any:
    """Return the pool of connections to a URL: through the proxy of the environment, if any."""
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    options: dict[str, Any] = {"network_backend": _Network(meter)}
    if parts.scheme == "https":
        from httpx2 import create_ssl_context

        options["ssl_context"] = create_ssl_context()
    else:
        # Loading all certificates takes longer than a request; this context trusts none.
        options["ssl_context"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not proxy or proxy_bypass(parts.hostname or ""):
        return httpcore2.ConnectionPool(**options, socket_options=_KEEP_ALIVE)
    via = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if via.username is not None:
        options["proxy_auth"] = (unquote(via.username), unquote(via.password or ""))
    host = via.netloc.rpartition("@")[2]
    if via.scheme in ("socks5", "socks5h"):
        return httpcore2.SOCKSProxy(f"{via.scheme}://{host}", **options)
    if via.scheme not in ("http", "https"):
        raise Invalid(
            f"a proxy of the scheme {shown(via.scheme)} cannot be used",
            "set HTTPS_PROXY to a URL that begins with http://, https:// or socks5://",
        )
    options["socket_options"] = _KEEP_ALIVE
    return httpcore2.HTTPProxy(f"{via.scheme}://{host}", **options)


class _Network(httpcore2.SyncBackend):
    """Connections whose traffic is counted."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        stream = super().connect_tcp(host, port, timeout, local_address, socket_options)
        return _Counted(stream, self._meter)


class _Counted(httpcore2.NetworkStream):
    """A connection whose traffic is counted."""

    def __init__(self, stream: httpcore2.NetworkStream, meter: Meter) -> None:
        self._stream = stream
        self._meter = meter

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with self._timed(timeout) as left_s:
            data = self._stream.read(max_bytes, left_s)
        self._meter.take(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _WRITE_BYTES):
            piece = buffer[start : start + _WRITE_BYTES]
            with self._timed(timeout) as left_s:
                self._stream.write(piece, left_s)

    @contextmanager
    def _timed(self, timeout_s: float | None) -> Generator[float]:
        """Give the seconds that an operation may take, and count those that it takes."""
        left_s = self._meter.left_s()
        allowed_s = left_s if timeout_s is None else min(left_s, timeout_s)
        begun_s = time.monotonic()
        try:
            yield allowed_s
        except httpcore2.TimeoutException:
            if allowed_s < left_s:
                raise
            raise self._meter.late() from None
        finally:
            self._meter.spend(time.monotonic() - begun_s)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        stream = self._stream.start_tls(ssl_context, server_hostname, timeout)
        return _Counted(stream, self._meter)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
