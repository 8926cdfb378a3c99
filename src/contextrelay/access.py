"""Access rules: whether a key may send a verb. Pure functions.

Every verb declares in its traits the level that it needs: `read`, `write` and `admin` are the
scopes of keys, each including the lower ones; `owner` is an admin key for the whole store. A
limited key, which is a key for some threads or channels, writes only there, and sees what
`sees_thread` and `sees_channel` allow.

Rule: a verb without a declared level cannot be defined (verbs/verb.py).
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal

from msgspec import Struct

from contextrelay.model.artifact import to_ms
from contextrelay.model.key import Key, Level

_RANKS: dict[Level, int] = {"read": 1, "write": 2, "admin": 3, "owner": 4}


class Targets(Struct, frozen=True):
    """The things that a request names and that a limited key may not be allowed to use."""

    channels: tuple[str, ...] = ()
    thread_names: tuple[str | None, ...] = ()
    """The names of threads that the request creates."""
    unplaced: int = 0
    """The number of artifacts that the request creates outside any thread and channel."""


def has_level(key: Key, needs: Level) -> bool:
    """Return True if the scope of a key is sufficient for a level."""
    return _RANKS[needs] <= _rank(key)


def _rank(key: Key) -> int:
    if key.scope == "admin" and key.is_owners:
        return _RANKS["owner"]
    return _RANKS[key.scope]


def denial_reason(key: Key, needs: Level, targets: Targets) -> str | None:
    """Return the reason why a key may not send a verb, or None if it may."""
    if not has_level(key, needs):
        needed = "an admin key of the whole store" if needs == "owner" else f"scope {needs}"
        return f"this key has scope {key.scope}, but {needed} is required"
    if not key.is_limited:
        return None
    for channel in targets.channels:
        if not sees_channel(key, channel):
            return "this key may not use that channel"
    for name in targets.thread_names:
        if name is None or not name.startswith(key.threads):
            return "this key may not create a thread with that name"
    if targets.unplaced:
        return (
            "this key is limited to some threads and channels: each artifact must go to one of them"
        )
    return None


def sees_channel(key: Key, channel: str) -> bool:
    """Return True if a key can see a channel."""
    return not key.is_limited or channel.startswith(key.channels)


def sees_thread(key: Key, thread: str, name: str | None) -> bool:
    """Return True if a key can see a thread, by the prefix of its name or by its full id."""
    if not key.is_limited or thread in key.threads:
        return True
    return name is not None and name.startswith(key.threads)


def is_valid(key: Key, now_ms: int) -> bool:
    """Return True if a key is neither revoked nor expired."""
    if key.revoked_at is not None:
        return False
    return key.expires_at is None or to_ms(key.expires_at) > now_ms


_MINUTE_MS = 60_000


class Bucket(Struct, frozen=True, gc=False):
    """The number of requests left at a time. A full bucket holds the requests of one minute."""

    left: float
    at_ms: int


def take_tokens(
    bucket: Bucket | None, per_minute: int, now_ms: int, amount: int = 1
) -> tuple[Bucket, float]:
    """Take an amount from a bucket (None is a full bucket); return the new bucket and the seconds
    to wait.

    If the wait is not 0.0, nothing was taken.
    """
    left = float(per_minute)
    if bucket is not None:
        filled = max(0, now_ms - bucket.at_ms) * per_minute / _MINUTE_MS
        left = min(left, bucket.left + filled)
    if left >= amount:
        return Bucket(left - amount, now_ms), 0.0
    return Bucket(left, now_ms), (amount - left) * _MINUTE_MS / per_minute / 1000


Reach = Literal["public", "private", "never"]

# Private networks and this machine, which may be reached only if the owner allows it.
_PRIVATE = [
    ip_network(text)
    for text in (
        *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
        *("::1/128", "fc00::/7"),
    )
]
# Networks that may never be reached. From the special-purpose registries of IANA: this network,
# link-local (where clouds serve their credentials), documentation, tests, multicast, reserved,
# broadcast, Teredo, 6to4. In addition, the few other addresses at which a cloud serves secrets to
# its machines.
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
# IPv6 networks whose addresses contain an IPv4 address: mapped and translated addresses.
_CARRYING_4 = [IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96")]


def reach_of(text: str) -> Reach:
    """Return the class of an address that a resolver returned; `never` if the text is not an
    address.
    """
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
