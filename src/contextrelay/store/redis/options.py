"""Options in an address of Redis: those of redis-py that a text can say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from redis.connection import (
    URL_QUERY_ARGUMENT_PARSERS,  # pyright: ignore[reportUnknownVariableType]
)

from contextrelay.errors import Invalid

_TEXTS = {"username", "password", "client_name", "lib_name", "lib_version", "encoding"}
_TLS_TEXTS = {
    *("ssl_keyfile", "ssl_certfile", "ssl_cert_reqs", "ssl_ca_certs", "ssl_ca_data", "ssl_ca_path"),
    *("ssl_password", "ssl_ciphers", "ssl_validate_ocsp", "ssl_validate_ocsp_stapled"),
    "ssl_ocsp_expected_cert",
}
_READ = cast("dict[str, Callable[[str], Any]]", URL_QUERY_ARGUMENT_PARSERS)
# A list of errors cannot be said in an address, and the time is that of another pool.
_KNOWN = (_TEXTS | _TLS_TEXTS | set(_READ)) - {"retry_on_error", "timeout"}


def check_options(options: Mapping[str, str], *, is_tls: bool) -> None:
    """Look whether redis-py takes these options.

    Raises:
        Invalid: one is unknown, or has a value that it cannot have.
    """
    for name, value in options.items():
        if name not in _KNOWN:
            raise Invalid(f"the store's address has an unknown option {name[:40]!r}", _HOW)
        if name.startswith("ssl_") and not is_tls:
            raise Invalid(f"{name} needs TLS", "write rediss:// or valkeys://")
        try:
            _READ.get(name, str)(value)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Invalid(f"{name} cannot have such a value", _HOW) from None


_HOW = "leave it out, or see docs/engines.md for the options"
