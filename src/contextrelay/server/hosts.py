"""The guard, which checks the Host and Origin headers of requests.

A page in a browser can send requests to any address, and the name of its site may resolve to this
server (DNS rebinding). The page cannot forge these two headers, so checking them keeps such pages
out of a relay on loopback.

Rule: a Host is compared completely, except for the port of a loopback name, because ssh, docker
and proxies change that port. The local address of the connection is always accepted: probes and
scrapers use it, and no page of another site has it as its name. An Origin must be that of the
request itself, or of the public URL.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct

from contextrelay.errors import Forbidden, Invalid, RelayError

_LOOPBACK = re.compile(rb"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Misdirected(RelayError):
    """The request is addressed to another server."""

    code, status = "misdirected", 421


class Guard(Struct, frozen=True):
    """The names under which this server accepts requests."""

    hosts: frozenset[bytes]
    """Each name as `host:port` in lower case, as in a Host header."""
    public_url: str = ""
    public_origin: str = ""

    def is_ours(self, host: bytes) -> bool:
        """Return True if the value of a Host header, in lower case, names this server."""
        return host in self.hosts or _LOOPBACK.fullmatch(host) is not None

    def origin(
        self,
        headers: list[tuple[bytes, bytes]],
        scheme: str,
        came_to: tuple[str, int | None] | None = None,
    ) -> str:
        """Return the URL of this server as the client addresses it, without a trailing slash.

        `came_to` is the local address and port of the connection.

        Raises:
            Misdirected: the Host is not this server.
            Forbidden: the Origin differs from the Host.
        """
        host, origin = _only(headers, b"host"), _only(headers, b"origin")
        if host is None or not (host == _spelled(came_to) or self.is_ours(host.encode("latin-1"))):
            raise Misdirected(
                f"unknown host {(host or '')[:200]!r}",
                "use the name that the server was started with, or start it with --allow-host",
            )
        own = f"{scheme}://{host}"
        if origin is not None and _plain(origin) not in (_plain(own), self.public_origin or None):
            raise Forbidden(
                "requests from pages of another origin are not allowed",
                "open the page of this server; behind a TLS proxy, start it with --public-url",
            )
        return self.public_url or own


def _spelled(came_to: tuple[str, int | None] | None) -> str | None:
    """Format a local address as in a Host header. Return None for a Unix socket."""
    if came_to is None or came_to[1] is None:
        return None
    address, port = came_to
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _only(headers: list[tuple[bytes, bytes]], name: bytes) -> str | None:
    found = [value for each, value in headers if each == name]
    if len(found) > 1:
        raise Invalid(f"duplicate {name.decode().title()} header", "send the header once")
    return found[0].decode("latin-1").lower() if found else None


def _plain(origin: str) -> str:
    """Return an origin without the default port of its scheme."""
    return origin.removesuffix(_DEFAULT_PORTS.get(origin.partition("://")[0], "\0"))


def guard(host: str, port: int, public_url: str = "", allowed: tuple[str, ...] = ()) -> Guard:
    """Return the guard of a server that listens on an address.

    Raises:
        Invalid: the public URL is malformed.
    """
    literal = f"[{host}]" if ":" in host else host
    hosts = {f"{literal.lower()}:{port}"} | ({literal.lower()} if port == 80 else set[str]())
    for each in allowed:
        has_port = ":" in each.rpartition("]")[2]
        hosts |= {each.lower()} if has_port else {each.lower(), f"{each.lower()}:{port}"}
    public_origin = ""
    if public_url:
        parts = urlsplit(public_url)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.query:
            raise Invalid(
                f"invalid public URL {public_url!r}", "for example https://relay.example.com"
            )
        public_origin = _plain(f"{parts.scheme}://{parts.netloc.lower().rstrip(':')}")
        name = public_origin.partition("://")[2]
        has_port = ":" in name.rpartition("]")[2]
        hosts |= {name} if has_port else {name, name + _DEFAULT_PORTS[parts.scheme]}
        public_url = public_url.rstrip("/")
    return Guard(frozenset(name.encode() for name in hosts), public_url, public_origin)


def is_loopback(host: str) -> bool:
    """Return True if a host is a loopback address or localhost. Names that only resemble localhost
    are not.
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
