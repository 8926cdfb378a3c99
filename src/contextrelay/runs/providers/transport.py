"""The HTTP transport of providers: limits on the size and time of a reply, and retries.

Rule: only content of the answer counts as progress, not comments, pings or empty pieces.
"""

from __future__ import annotations

import random
import socket
import ssl
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore2
from msgspec import Struct

from contextrelay.documents.values import quote_value
from contextrelay.errors import Failed, Forbidden, Invalid, Limited, RelayError, Unavailable
from contextrelay.limits import CONNECT_S_MAX, MIB, PROVIDER_REPLY_S_MAX
from contextrelay.runs.provider import Reply
from contextrelay.runs.providers.registry import ANOTHER, Account

# The maximum number of retries, and the longest wait in seconds that a provider may ask for.
PROVIDER_RETRIES_MAX = 5
PROVIDER_PAUSE_S_MAX = 60
PROVIDER_BACKOFF_S_MAX = 8
# The longest silence in seconds. A model may think, or be loaded, before its first word.
PROVIDER_IDLE_S = 300
# The longest time and the largest size without content of the answer, that is, of comments and
# empty pieces. One line can contain an answer of ANSWER_BYTES_MAX with all characters escaped,
# together with a copy of it.
PROVIDER_PROGRESS_S_MAX = 900
PROVIDER_IDLE_BYTES_MAX = 8 * MIB
# The maximum size of one reply: 128,000 tokens take 40 MB if each token has its own event.
PROVIDER_REPLY_BYTES_MAX = 64 * MIB


# Most SDKs need as much time to process an empty line as for this many bytes of content.
_LINE_BYTES = 500


class Bounds(Struct, frozen=True, kw_only=True):
    """The limits of one reply. `idle_*` count from the last progress. Each line counts as 500
    bytes.
    """

    reply_bytes: int = PROVIDER_REPLY_BYTES_MAX
    reply_s: float = PROVIDER_REPLY_S_MAX
    idle_bytes: int = PROVIDER_IDLE_BYTES_MAX
    idle_s: float = PROVIDER_PROGRESS_S_MAX


BOUNDS = Bounds()


class Meter:
    """Measures one reply: its bytes, and the time that its reader waits."""

    def __init__(self, name: str, bounds: Bounds) -> None:
        self._name = name
        self._bounds = bounds
        self.begin()

    def begin(self) -> None:
        """Reset the meter for the next reply."""
        self._bytes = self._idle_bytes = 0
        self._s = self._idle_s = 0.0

    def progress(self) -> None:
        """Record that a part of the answer arrived."""
        self._idle_bytes = 0
        self._idle_s = 0.0

    def left_s(self) -> float:
        """Return the number of seconds that are left.

        Raises:
            Unavailable: the time is used up.
        """
        left_s = min(self._bounds.reply_s - self._s, self._bounds.idle_s - self._idle_s)
        if left_s <= 0:
            raise self.late()
        return left_s

    def spend(self, waited_s: float) -> None:
        """Add seconds of waiting."""
        self._s += waited_s
        self._idle_s += waited_s

    def take(self, data: bytes) -> None:
        """Count received bytes.

        Raises:
            Failed: the reply exceeds its limit.
        """
        self._bytes += len(data)
        self._idle_bytes += len(data) + _LINE_BYTES * data.count(b"\n")
        if self._bytes > self._bounds.reply_bytes:
            raise Failed(
                f"the reply of {self._name} has more than {self._bounds.reply_bytes:,} bytes",
                f"ask for a shorter answer, {ANOTHER}",
            )
        if self._idle_bytes > self._bounds.idle_bytes:
            raise Failed(
                f"{self._name} keeps sending data without content",
                f"run it again, {ANOTHER}",
            )

    def late(self) -> Unavailable:
        """Return the error for a reply that took too long."""
        bounds = self._bounds
        if bounds.reply_s - self._s < bounds.idle_s - self._idle_s:
            said = f"the reply of {self._name} took more than {bounds.reply_s:,} seconds"
        else:
            said = f"{self._name} sent no content for {bounds.idle_s:,} seconds"
        return Unavailable(said, f"run it again, {ANOTHER}")


# TCP keepalive is needed, because routers drop a connection that is silent while a model thinks.
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
    """Return the options for a client of httpx or httpx2, and the meter of its replies.

    `library` is the one of the two that the provider's SDK uses.
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
    """Return the error for a reply that must not be read, because of its status or headers, or
    None.
    """
    if 300 <= status < 400:
        target = urlsplit(str(headers.get("location", "")))
        origin = f"{target.scheme}://{target.netloc.rpartition('@')[2]}"
        where = quote_value(account.said(origin)) if target.netloc else "another path"
        return Invalid(
            f"{account.name} at {account.host} redirects to {where} ({status}); nothing was sent "
            "there",
            f"if you trust that URL, set {account.url_variable} to it",
        )
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        return Failed(
            f"{account.name} at {account.host} compressed its reply ({quote_value(coding)})"
            " without being asked to",
            f"disable compression there, {ANOTHER}",
        )
    return None


@contextmanager
def _translated(library: Any) -> Generator[None]:
    """Raise an error of httpcore2 as the error of the same name in `library`."""
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
    """Return the connection pool for a URL. It uses the proxy of the environment, if there is
    one.
    """
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    options: dict[str, Any] = {"network_backend": _Network(meter)}
    if parts.scheme == "https":
        from httpx2 import create_ssl_context

        options["ssl_context"] = create_ssl_context()
    else:
        # Loading all certificates takes longer than a request, and this SSL context trusts none of
        # them.
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
            f"unsupported proxy scheme {quote_value(via.scheme)}",
            "set HTTPS_PROXY to a URL with http://, https:// or socks5://",
        )
    options["socket_options"] = _KEEP_ALIVE
    return httpcore2.HTTPProxy(f"{via.scheme}://{host}", **options)


class _Network(httpcore2.SyncBackend):
    """A network backend that measures traffic."""

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
    """A connection that measures traffic."""

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
        """Yield the seconds that an operation may take, and then count the seconds that it took."""
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


class Refusal(NamedTuple):
    """The error of a failed request, and whether a retry may help."""

    error: RelayError
    is_transient: bool = False
    pause_s: float | None = None
    """The number of seconds to wait that the provider asked for, or None."""


def answered(
    ask: Callable[[], Generator[str | Reply]],
    explain: Callable[[Any], Refusal],
    sleep: Callable[[float], None],
) -> Iterator[str | Reply]:
    """Send a request and yield the answer, with retries after transient errors. When the answer
    starts, yield an empty piece.

    Raises:
        RelayError: the error that `explain` returns for the last failure.
    """
    for retries in range(PROVIDER_RETRIES_MAX + 1):
        has_begun = False
        try:
            with closing(ask()) as parts:
                for part in parts:
                    has_begun = True
                    if part != "":
                        yield part
            return
        except RelayError:
            raise
        except Exception as error:
            # SDKs raise various errors for a malformed answer, with parts of the answer in the
            # text, so their errors are not chained either.
            refusal = _own(error) or explain(error)
            if has_begun and refusal.is_transient:
                raise _broken_off(refusal.error) from None
            pause_s = _pause_s(retries, refusal.pause_s)
            is_last = retries == PROVIDER_RETRIES_MAX or pause_s > PROVIDER_PAUSE_S_MAX
            if is_last or not refusal.is_transient:
                raise refusal.error from None
        sleep(pause_s)


def refused(
    account: Account, model: str, status: int, said: str, headers: Mapping[str, str]
) -> Refusal:
    """Return the error for an HTTP error status, and whether a retry may help."""
    name, said = account.name, account.said(said)
    if status == 401:
        error = Forbidden(
            f"{name} rejected the API key (401)",
            f"set a valid one in {account.variable}, {ANOTHER}",
            status=401,
        )
    elif status == 403:
        error = Forbidden(f"{name} does not allow this: {said}", f"use another key, {ANOTHER}")
    elif status == 404:
        error = Invalid(
            f"{name} has no model {model!r}: {said}",
            "use another model: -m PROVIDER:MODEL",
            status=404,
        )
    elif status in {402, 429}:
        error = Limited(
            f"rate limit or quota of {name} exceeded ({status}): {said}",
            f"wait, raise the limit, {ANOTHER}",
        )
        return Refusal(error, status == 429, retry_after_s(headers))
    elif status in {408, 409} or status >= 500:
        error = Unavailable(f"{name} is unavailable ({status}): {said}", f"retry later, {ANOTHER}")
        return Refusal(error, True, retry_after_s(headers))
    else:
        error = Invalid(f"{name} rejected the request ({status}): {said}", f"change it, {ANOTHER}")
    return Refusal(error)


def unreached(account: Account, error: BaseException) -> Refusal:
    """Return the error for a request without a response. If the server is on this machine, a retry
    does not help.
    """
    said = account.said(str(error) or type(error).__name__)
    hint = f"{'start it' if account.is_local else 'retry later'}, {ANOTHER}"
    if account.is_local and account.name == "ollama":
        hint = "start it: ollama serve; or use another provider with -m, for example echo"
    is_alone = account.is_local and type(error).__name__ == "ConnectError"
    return Refusal(
        Unavailable(f"cannot reach {account.name} at {account.host}: {said}", hint), not is_alone
    )


def unusable(account: Account, error: Exception) -> Refusal:
    """Return the error for an answer that cannot be read. The SDK's error may quote the whole
    answer, so it is not shown.
    """
    said = f"{account.name} sent an invalid answer ({type(error).__name__})"
    return Refusal(Failed(said, f"run it again, {ANOTHER}"))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait that `Retry-After` names, as a number or as a date, or None."""
    said = headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(said))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _pause_s(retries: int, asked_s: float | None) -> float:
    """Return the requested wait in seconds, or an exponential backoff with jitter."""
    if asked_s is not None:
        return asked_s
    return min(PROVIDER_BACKOFF_S_MAX, 0.5 * 2**retries) * (0.75 + random.random() / 4)


def _broken_off(error: RelayError) -> Failed:
    return Failed(f"the answer was cut off: {error.message}", "run it again")


def _own(error: BaseException) -> Refusal | None:
    """Return the refusal of a transport error that an SDK wrapped in an error of its own, or
    None.
    """
    cause = error.__cause__
    return Refusal(cause) if isinstance(cause, RelayError) else None
