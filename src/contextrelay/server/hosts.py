"""The guard: which Host and Origin a request may name.

A page in a browser can send requests to any address, and its own name may be made to lead here (DNS
rebinding). That it cannot forge these two headers is what keeps it out of a relay on loopback.

Rule: a Host is compared whole, but for the port of a loopback name, which ssh, docker and proxies
change. The address to which a connection came is always ours: probes and scrapers call by it, and
no page has a number as its name but the one that is there. An Origin is that of the very request,
or the public URL's.
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
    """The request is for another server."""

    code, status = "misdirected", 421


class Guard(Struct, frozen=True):
    """The names of this server."""

    hosts: frozenset[bytes]
    """`host:port`, in lower case, as a Host header spells it."""
    public_url: str = ""
    public_origin: str = ""

    def is_ours(self, host: bytes) -> bool:
        """Whether a Host, in lower case, names this server."""
        return host in self.hosts or _LOOPBACK.fullmatch(host) is not None

    def origin(
        self,
        headers: list[tuple[bytes, bytes]],
        scheme: str,
        came_to: tuple[str, int | None] | None = None,
    ) -> str:
        """The address of this server as the client calls it, without a slash at the end.

        `came_to` is the address and port of this machine to which the connection was made.

        Raises:
            Misdirected: the Host is not one of ours; Forbidden: the Origin is not that of the Host.
        """
        host, origin = _only(headers, b"host"), _only(headers, b"origin")
        if host is None or not (host == _spelled(came_to) or self.is_ours(host.encode("latin-1"))):
            raise Misdirected(
                f"this is not the server {(host or '')[:200]!r}",
                "call it by the name it was started with, or start it with --allow-host",
            )
        own = f"{scheme}://{host}"
        if origin is not None and _plain(origin) not in (_plain(own), self.public_origin or None):
            raise Forbidden(
                "pages of another origin may not ask here",
                "open the page of this server; behind a proxy that speaks TLS, start it with "
                "--public-url",
            )
        return self.public_url or own


def _spelled(came_to: tuple[str, int | None] | None) -> str | None:
    """An address of this machine as a Host header has it; None for a socket in a folder."""
    if came_to is None or came_to[1] is None:
        return None
    address, port = came_to
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _only(headers: list[tuple[bytes, bytes]], name: bytes) -> str | None:
    found = [value for each, value in headers if each == name]
    if len(found) > 1:
        raise Invalid(f"there are two {name.decode().title()} headers", "send one")
    return found[0].decode("latin-1").lower() if found else None


def _plain(origin: str) -> str:
    """An origin without the port that its scheme has anyway."""
    return origin.removesuffix(_DEFAULT_PORTS.get(origin.partition("://")[0], "\0"))


def guard(host: str, port: int, public_url: str = "", allowed: tuple[str, ...] = ()) -> Guard:
    """The guard of a server that listens on an address.

    Raises:
        Invalid: the public URL is none.
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
                f"{public_url!r} is no URL of a server", "write it like https://relay.example.com"
            )
        public_origin = _plain(f"{parts.scheme}://{parts.netloc.lower().rstrip(':')}")
        name = public_origin.partition("://")[2]
        has_port = ":" in name.rpartition("]")[2]
        hosts |= {name} if has_port else {name, name + _DEFAULT_PORTS[parts.scheme]}
        public_url = public_url.rstrip("/")
    return Guard(frozenset(name.encode() for name in hosts), public_url, public_origin)


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's alone; a name that merely looks so is not."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
