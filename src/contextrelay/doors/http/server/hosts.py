"""The guard: which Host and Origin a request may name.

A page in a browser can send requests to any address; that it cannot forge these two is what keeps
it out of a relay on loopback. Names are compared whole: `127.0.0.1:evil.example` is nobody's.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct

from contextrelay.errors import Invalid, RelayError


class Misdirected(RelayError):
    """The request is for another server."""

    code, status = "misdirected", 421


class Forbidden(RelayError):
    """The request may not come from there."""

    code, status = "forbidden", 403


class Guard(Struct, frozen=True):
    """The names of this server."""

    hosts: frozenset[bytes]
    """`host:port`, in lower case, as a Host header spells it."""
    public_url: str = ""

    def origin(self, headers: list[tuple[bytes, bytes]], scheme: str) -> str:
        """Where this server is, as the client calls it, without a slash at the end.

        Raises:
            Misdirected: the Host is not one of ours; Forbidden: the Origin is not.
        """
        host = origin = None
        for name, value in headers:
            if name == b"host":
                if host is not None:
                    raise Invalid("there are two Host headers", "send one")
                host = value.lower()
            elif name == b"origin":
                if origin is not None:
                    raise Invalid("there are two Origin headers", "send one")
                origin = value.lower()
        if host not in self.hosts:
            raise Misdirected(
                f"this is not the server {(host or b'')[:200].decode('latin-1')!r}",
                "call it by the name it was started with, or start it with --allow-host",
            )
        if origin is not None and not self._is_ours(origin):
            raise Forbidden(
                "pages of another origin may not ask here", "open the page of this server"
            )
        return self.public_url or f"{scheme}://{host.decode('latin-1')}"

    def _is_ours(self, origin: bytes) -> bool:
        scheme, _, host = origin.partition(b"://")
        return scheme in (b"http", b"https") and host in self.hosts


DEFAULT_PORTS = {"http": "80", "https": "443"}
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def guard(host: str, port: int, public_url: str = "", allowed: tuple[str, ...] = ()) -> Guard:
    """The guard of a server that listens on an address.

    Raises:
        Invalid: the public URL is none, or an allowed host is no host.
    """
    literal = f"[{host}]" if ":" in host else host
    names = {literal.lower(), *(LOOPBACK if is_loopback(host) or host in ("0.0.0.0", "::") else ())}
    hosts = {f"{name}:{port}" for name in names} | (names if port == 80 else set[str]())
    for each in allowed:
        hosts |= {each.lower()} if _port_of(each) else {each.lower(), f"{each.lower()}:{port}"}
    if public_url:
        parts = urlsplit(public_url)
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.query:
            raise Invalid(
                f"{public_url!r} is no URL of a server", "write it like https://relay.example.com"
            )
        hosts |= _spellings(parts.netloc.lower(), DEFAULT_PORTS[parts.scheme])
        public_url = public_url.rstrip("/")
    return Guard(frozenset(name.encode() for name in hosts), public_url)


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's alone; a name that merely looks so is not."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _spellings(host: str, default_port: str) -> set[str]:
    """A host with the port that its scheme has anyway, and without it."""
    port = _port_of(host)
    if port not in ("", default_port):
        return {host}
    name = host.removesuffix(f":{port}").removesuffix(":")
    return {name, f"{name}:{default_port}"}


def _port_of(host: str) -> str:
    return host.rpartition("]")[2].partition(":")[2]
