"""Servers: where a relay is reached over HTTP, and the key that goes there.

Rule: a key belongs to one origin. It is sent nowhere else, and redirects are not followed.
"""

from __future__ import annotations

import os

from msgspec import Struct

from contextrelay.errors import Invalid

URL_VARIABLE = "CONTEXTRELAY_URL"
KEY_VARIABLE = "CONTEXTRELAY_API_KEY"
READER_HEADER, PERSON = "x-relay-reader", "person"
"""What a person reads is not counted in the savings, which are of prompts."""

_LOCAL_NAMES = ("localhost", "::1")
_PORTS = {"http": 80, "https": 443}


class ServerAddress(Struct, frozen=True):
    """A relay's address, and the key that it is given."""

    url: str
    """Without a slash at the end."""
    origin: str
    host: str
    key: str = ""
    is_person: bool = False
    """Whether a person reads what it answers, so that it is not counted in the savings."""

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine, so that no proxy may stand between."""
        return self.host in _LOCAL_NAMES or self.host.startswith("127.")

    def headers(self) -> dict[str, str]:
        """What every request to it carries."""
        headers = {"accept-encoding": "identity" if self.is_loopback else "gzip"}
        if self.key:
            headers["authorization"] = f"Bearer {self.key}"
        if self.is_person:
            headers[READER_HEADER] = PERSON
        return headers


def is_server(address: object) -> bool:
    """Whether an address is that of a server rather than that of a store."""
    return isinstance(address, str) and address.lower().startswith(("http://", "https://"))


def server_at(url: str, key: str | None = None) -> ServerAddress:
    """The server at a URL; without a key, the one that the environment has for it.

    Raises:
        Invalid: it is no URL of a server, or carries a name or a password.
    """
    from urllib.parse import urlsplit

    shown = url.partition("#")[0][:80]  # What stands behind a # may be a key.
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise Invalid(f"{shown!r} is no URL of a server: {error}", _WRITTEN) from None
    if "@" in parts.netloc:
        raise Invalid(
            "the URL of a server carries a name or a password",
            f"leave it out, and give api_key or set {KEY_VARIABLE}",
        )
    if parts.scheme not in _PORTS or not host or parts.query or parts.fragment:
        raise Invalid(f"{shown!r} is no URL of a server", _WRITTEN)
    literal = f"[{host}]" if ":" in host else host
    place = "" if port in (None, _PORTS[parts.scheme]) else f":{port}"
    origin = f"{parts.scheme}://{literal}{place}"
    server = ServerAddress(origin + parts.path.rstrip("/"), origin, host)
    key = _key_for(server) if key is None else key
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise Invalid("the API key holds what no key holds", "give it as it was printed")
    return ServerAddress(server.url, origin, host, key)


_WRITTEN = "write it like https://relay.example.com"


def _key_for(server: ServerAddress) -> str:
    """The key of the environment. Where that names a server too, the key is for that one only."""
    key = os.environ.get(KEY_VARIABLE, "").strip()
    url = os.environ.get(URL_VARIABLE, "")
    if key and is_server(url) and server_at(url, "").origin != server.origin:
        return ""
    return key
