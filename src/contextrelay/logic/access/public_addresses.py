"""Addresses: which machines a URL that somebody else chose may lead to.

Rule: what is not known to be public is not. IPv6 is public only within global unicast, and an
address that carries an IPv4 address inside is what that one is.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Literal

Reach = Literal["public", "private", "never"]

# Networks of one's own, and the machine itself: reached only where the owner allows it.
_PRIVATE_4 = tuple(
    map(
        IPv4Network,
        ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    )
)
_PRIVATE_6 = tuple(map(IPv6Network, ("::1/128", "fc00::/7")))
# Never: this network, link-local (where clouds keep their credentials), documentation, tests,
# multicast, reserved, broadcast, from the special-purpose registries of IANA; and the few addresses
# elsewhere at which a cloud gives its machines their secrets.
_NEVER_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",
            "100.100.100.200/32",
            "168.63.129.16/32",
            "169.254.0.0/16",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    )
)
_PUBLIC_6 = IPv6Network("2000::/3")
# Teredo and other special uses, documentation, 6to4; then a cloud's secrets again.
_NEVER_6 = tuple(
    map(
        IPv6Network,
        ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "fd00:ec2::254/128"),
    )
)
_MAPPED = IPv6Network("::ffff:0:0/96")
_TRANSLATED = IPv6Network("64:ff9b::/96")


def reach_of(text: str) -> Reach:
    """Who can be reached at an address, as a resolver writes it; what is no address is `never`."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return "never"
    return _reach_4(address) if isinstance(address, IPv4Address) else _reach_6(address)


def _reach_4(address: IPv4Address) -> Reach:
    if any(address in network for network in _NEVER_4):
        return "never"
    return "private" if any(address in network for network in _PRIVATE_4) else "public"


def _reach_6(address: IPv6Address) -> Reach:
    if address in _MAPPED or address in _TRANSLATED:
        return _reach_4(IPv4Address(int(address) & 0xFFFFFFFF))
    if any(address in network for network in _NEVER_6):
        return "never"
    if any(address in network for network in _PRIVATE_6):
        return "private"
    return "public" if address in _PUBLIC_6 else "never"
