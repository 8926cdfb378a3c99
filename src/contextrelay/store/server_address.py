"""Addresses of servers, checked before they are passed to a client, because clients quote what they
cannot parse.

Rule: no part of an invalid address is shown, because with an unescaped password any part may belong
to the password.
"""

from __future__ import annotations

import re

from contextrelay.errors import Invalid

ENCODE = "percent-encode the password: %40 for @, %2F for /, %3F for ?, %23 for #, %25 for %"
# Matches a name, an IPv6 address in brackets, or nothing; then optionally a port.
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|[^\s\[\]:#]*)(?::([0-9]{0,5}))?", re.ASCII)


def check_server(url: str) -> None:
    """Check that scheme://user:password@host:port,host:port/path?options is unambiguous.

    Raises:
        Invalid: the address is ambiguous. The error quotes no part of it.
    """
    _, slashes, rest = url.partition("://")
    if not slashes:
        raise Invalid(
            "missing // after the scheme of the store's address", "use scheme://host:port"
        )
    authority = re.split("[/?]", rest, maxsplit=1)[0]
    if "@" in rest[len(authority) :] or authority.count("@") > 1:
        raise Invalid("the store's address has a misplaced @", ENCODE)
    for host in authority.rpartition("@")[2].split(","):
        found = _HOST.fullmatch(host)
        if found is None:
            raise Invalid("invalid host or port in the store's address", _HOW)
        if int(found[1] or 0) > 65_535:
            raise Invalid("the port in the store's address is over 65535", _HOW)


_HOW = f"use host:port, or [::1]:port, with a number as port; or {ENCODE}"
