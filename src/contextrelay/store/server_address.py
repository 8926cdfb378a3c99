"""Addresses of servers, looked at before any client does: clients quote what they cannot read.

Rule: nothing of an address is shown before it was found to be in order, for where an unescaped
password is in it, any part may be one of the password.
"""

from __future__ import annotations

import re

from contextrelay.errors import Invalid

ENCODE = "percent-encode the password: %40 for @, %2F for /, %3F for ?, %23 for #, %25 for %"
# A name, an address of version 6 in brackets, or nothing; then perhaps a port.
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|[^\s\[\]:#]*)(?::([0-9]{0,5}))?", re.ASCII)


def check_server(url: str) -> None:
    """Look whether scheme://user:password@host:port,host:port/path?options can be read in one way.

    Raises:
        Invalid: it cannot; nothing of it is quoted.
    """
    _, slashes, rest = url.partition("://")
    if not slashes:
        raise Invalid("the store's address has no // after its scheme", "write scheme://host:port")
    authority = re.split("[/?]", rest, maxsplit=1)[0]
    if "@" in rest[len(authority) :] or authority.count("@") > 1:
        raise Invalid("the store's address has an @ where none can be", ENCODE)
    for host in authority.rpartition("@")[2].split(","):
        found = _HOST.fullmatch(host)
        if found is None:
            raise Invalid("a host or port in the store's address makes no sense", _HOW)
        if int(found[1] or 0) > 65_535:
            raise Invalid("a port in the store's address is over 65535", _HOW)


_HOW = f"write host:port, or [::1]:port, with a number as port; else {ENCODE}"
