"""Options in an address of Redis: those of redis-py that can be written as text."""

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
