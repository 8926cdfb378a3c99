"""Addresses: which machines a URL that somebody else chose may lead to.

Rule: what is not known to be public is not. IPv6 is public only within global unicast, and an
address that carries an IPv4 address inside is what that one is.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal

Reach = Literal["public", "private", "never"]

# Networks of one's own, and the machine itself: reached only where the owner allows it.
_PRIVATE = [
    ip_network(text)
    for text in (
        *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
        *("::1/128", "fc00::/7"),
    )
]
# Never: this network, link-local (where clouds keep their credentials), documentation, tests,
# multicast, reserved, broadcast, Teredo, 6to4, from the special-purpose registries of IANA; and the
# few addresses elsewhere at which a cloud gives its machines their secrets.
_NEVER = [
    ip_network(text)
    for text in (
        *("0.0.0.0/8", "100.100.100.200/32", "168.63.129.16/32", "169.254.0.0/16", "192.0.0.0/24"),
        *("192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4"),
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "fd00:ec2::254/128"),
    )
]
_PUBLIC_6 = IPv6Network("2000::/3")
# IPv6 addresses that carry an IPv4 address inside: mapped, and translated.
_CARRYING_4 = [IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96")]


def reach_of(text: str) -> Reach:
    """Who can be reached at an address, as a resolver writes it; what is no address is `never`."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return "never"
    if isinstance(address, IPv6Address) and any(address in network for network in _CARRYING_4):
        address = IPv4Address(int(address) & 0xFFFFFFFF)
    if any(address in network for network in _NEVER):
        return "never"
    if any(address in network for network in _PRIVATE):
        return "private"
    return "public" if isinstance(address, IPv4Address) or address in _PUBLIC_6 else "never"
