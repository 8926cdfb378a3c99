"""Servers: the HTTP address of a relay, and its API key.

Rule: a key belongs to one origin. It is not sent anywhere else, and redirects are not followed.
"""

from __future__ import annotations

import os

from msgspec import Struct

from contextrelay.errors import Invalid

URL_VARIABLE = "CONTEXTRELAY_URL"
KEY_VARIABLE = "CONTEXTRELAY_API_KEY"
AGENT_HEADER = "x-relay-from"
READER_HEADER, PERSON = "x-relay-reader", "person"
"""A header for requests made for a person.

Their reads do not count in the savings, which are about prompts.
"""

_LOCAL_NAMES = ("localhost", "::1")
_PORTS = {"http": 80, "https": 443}


class ServerAddress(Struct, frozen=True):
    """The address of a relay's server, and its API key."""

    url: str
    """The URL of the server, without a trailing slash."""
    origin: str
    host: str
    key: str = ""
    agent: str = ""
    """The name of the agent that sends the requests, percent-encoded."""
    is_person: bool = False
    """Whether a person reads the replies, so that they are not counted in the savings."""

    @property
    def is_loopback(self) -> bool:
        """Return True if the server is on this machine, so that no proxy is used."""
        return self.host in _LOCAL_NAMES or self.host.startswith("127.")

    def headers(self) -> dict[str, str]:
        """Return the headers that every request to this server has."""
        headers = {"accept-encoding": "identity" if self.is_loopback else "gzip"}
        if self.key:
            headers["authorization"] = f"Bearer {self.key}"
        if self.agent:
            headers[AGENT_HEADER] = self.agent
        if self.is_person:
            headers[READER_HEADER] = PERSON
        return headers


def with_agent(server: ServerAddress, agent: str | None) -> ServerAddress:
    """Return a server address that names an agent. Without an agent and without a key, the user of
    this machine is named.
    """
    from urllib.parse import quote

    from msgspec.structs import replace

    from contextrelay.identity import agent_name, user_name

    name = agent_name(agent) or ("" if server.key else user_name())
    return replace(server, agent=quote(name, safe=_HEADER_CHARS))


_HEADER_CHARS = " !#$&'()*+,-./:;<=>?@[]^_`{|}~"


def is_server(address: object) -> bool:
    """Return True if an address is that of a server, not of a store."""
    return isinstance(address, str) and address.lower().startswith(("http://", "https://"))


def server_at(url: str, key: str | None = None) -> ServerAddress:
    """Return the server at a URL; if no key is passed, use the one in the environment.

    Raises:
        Invalid: the URL is not that of a server, or contains a user name or password.
    """
    from urllib.parse import urlsplit

    shown = url.partition("#")[0][:80]  # Text after a # may be a key.
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise Invalid(f"invalid server URL {shown!r}: {error}", _WRITTEN) from None
    if "@" in parts.netloc:
        raise Invalid(
            "the server URL contains a user name or password",
            f"remove it, and pass api_key or set {KEY_VARIABLE}",
        )
    if parts.scheme not in _PORTS or not host or parts.query or parts.fragment:
        raise Invalid(f"invalid server URL {shown!r}", _WRITTEN)
    literal = f"[{host}]" if ":" in host else host
    place = "" if port in (None, _PORTS[parts.scheme]) else f":{port}"
    origin = f"{parts.scheme}://{literal}{place}"
    server = ServerAddress(origin + parts.path.rstrip("/"), origin, host)
    key = _key_for(server) if key is None else key
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise Invalid(
            "the API key contains invalid characters", "pass it exactly as it was printed"
        )
    return ServerAddress(server.url, origin, host, key)


_WRITTEN = "use a URL like https://relay.example.com"


def _key_for(server: ServerAddress) -> str:
    """Return the key in the environment.

    If CONTEXTRELAY_URL is set, the key is only for that server.
    """
    key = os.environ.get(KEY_VARIABLE, "").strip()
    url = os.environ.get(URL_VARIABLE, "")
    if key and is_server(url) and server_at(url, "").origin != server.origin:
        return ""
    return key
