"""Addresses of Redis and Valkey: servers, credentials, and the durability of writes.

redis://host:6379/0              a server, or a node of a cluster
redis+sentinel://h1,h2,h3/name   the master of that name, as the sentinels know it
rediss://, rediss+sentinel://    the same over TLS; valkey:// and valkeys:// work too
?durability=fast|replicated      whether a write waits for all replicas, or for ?replicas=N of them
?sentinel_password=P             the password of the sentinels, if they have one
Other options are those of redis-py: ?ssl_ca_certs=FILE, ?client_name=NAME ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from msgspec import Struct
from msgspec.structs import replace
from redis.connection import (
    URL_QUERY_ARGUMENT_PARSERS,  # pyright: ignore[reportUnknownVariableType]
)

from contextrelay.errors import Invalid
from contextrelay.store.server_address import ENCODE, check_server

SENTINEL_PORT = 26_379
_PLAIN = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss"}
_SENTINEL = "+sentinel"


class Address(Struct, frozen=True):
    """The parts of an address of Redis or Valkey."""

    shown: str
    """The address without user, password and options."""
    url: str
    """The address for redis-py: of the server, or of the master behind sentinels."""
    sentinels: tuple[tuple[str, int], ...] = ()
    master: str = ""
    sentinel_password: str | None = None
    is_replicated: bool = False
    replicas: int | None = None
    """The number of replicas that have to confirm a write; None if it is not given."""


def parse(url: str) -> Address:
    """Return the parts of an address.

    Raises:
        Invalid: the address cannot be parsed.
    """
    parts = _split(url.strip())
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    durability = options.pop("durability", "fast")
    if durability not in ("fast", "replicated"):
        raise Invalid(f"invalid durability {durability[:40]!r}", "use fast or replicated")
    replicas = options.pop("replicas", "")
    if replicas and not (replicas.isascii() and replicas.isdigit() and 0 < int(replicas) < 100):
        raise Invalid(
            f"invalid replicas {replicas[:40]!r}",
            "pass the number of replicas that confirm a write",
        )
    plain = Address(
        shown=without_password(url),
        url="",
        sentinel_password=options.pop("sentinel_password", None),
        is_replicated=durability == "replicated",
        replicas=int(replicas) if replicas else None,
    )
    query = f"?{urlencode(options)}" if options else ""
    scheme = _PLAIN[parts.scheme.removesuffix(_SENTINEL)]
    check_options(options, is_tls=scheme == "rediss")
    if not parts.scheme.endswith(_SENTINEL):
        _check_database(parts.path)
        return replace(plain, url=f"{scheme}://{parts.netloc}{parts.path}{query}")
    user, at, hosts = parts.netloc.rpartition("@")
    name, _, database = parts.path.removeprefix("/").partition("/")
    _check_database(database)
    sentinels = tuple(_host_and_port(each, url) for each in hosts.split(","))
    if not name:
        raise Invalid(
            f"missing name of the master in {plain.shown}",
            "use redis+sentinel://host1,host2,host3/name",
        )
    # The host is a placeholder, because the sentinels return the real host.
    return replace(
        plain,
        url=f"{scheme}://{user}{at}localhost/{database or 0}{query}",
        sentinels=sentinels,
        master=name,
    )


def _split(url: str) -> SplitResult:
    check_server(url)
    try:
        parts = urlsplit(url)
    except ValueError:  # The exception is not chained, because its text quotes the invalid text.
        raise Invalid("the store's address cannot be parsed", f"{ENCODE}, %5B for [") from None
    if "#" in url:
        raise Invalid("the store's address contains a #", ENCODE)
    return parts


def _check_database(path: str) -> None:
    if not re.fullmatch("/?[0-9]{0,9}/?", path):
        raise Invalid("the database in the store's address is not a number", "use redis://host/0")


def _host_and_port(text: str, url: str) -> tuple[str, int]:
    found = urlsplit(f"//{text}")
    try:
        if found.hostname:
            return found.hostname, found.port or SENTINEL_PORT
    except ValueError:
        pass
    raise Invalid(f"invalid host {text[:80]!r} in {without_password(url)}", "use host:port")


def without_password(url: str) -> str:
    """Return an address without user, password and options, for display."""
    parts = urlsplit(url)
    if parts.scheme.endswith(_SENTINEL):
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return f"{parts.scheme}://{_place(parts)}{parts.path}"


def _place(parts: SplitResult) -> str:
    host = parts.hostname or ""
    try:
        port = parts.port or 6379
    except ValueError:
        port = 0
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# The options of redis-py that can be written as text.
_TEXTS = {"username", "password", "client_name", "lib_name", "lib_version", "encoding"}
_TLS_TEXTS = {
    *("ssl_keyfile", "ssl_certfile", "ssl_cert_reqs", "ssl_ca_certs", "ssl_ca_data", "ssl_ca_path"),
    *("ssl_password", "ssl_ciphers", "ssl_validate_ocsp", "ssl_validate_ocsp_stapled"),
    "ssl_ocsp_expected_cert",
}
_READ = cast("dict[str, Callable[[str], Any]]", URL_QUERY_ARGUMENT_PARSERS)
# These options are excluded: a list of errors cannot be written in an address, and the timeout is
# for another pool.
_KNOWN = (_TEXTS | _TLS_TEXTS | set(_READ)) - {"retry_on_error", "timeout"}


def check_options(options: Mapping[str, str], *, is_tls: bool) -> None:
    """Check that redis-py accepts these options.

    Raises:
        Invalid: an option is unknown, or has an invalid value.
    """
    for name, value in options.items():
        if name not in _KNOWN:
            raise Invalid(f"unknown option in the store's address: {name[:40]!r}", _HOW)
        if name.startswith("ssl_") and not is_tls:
            raise Invalid(f"{name} requires TLS", "use rediss:// or valkeys://")
        try:
            _READ.get(name, str)(value)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Invalid(f"invalid value of {name} in the store's address", _HOW) from None


_HOW = "omit it, or see docs/engines.md for the options"
