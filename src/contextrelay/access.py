"""Access: may a key ask this? Data in, verdict out.

Every verb says in its traits which level it needs: `read`, `write` and `admin` are the scopes of
keys, each with all that is below it; `owner` is an admin key for the whole store. A key for some
threads or channels (a limited one) writes only there, and sees what `sees_thread` and
`sees_channel` allow.

Rule: a verb that does not say what it needs cannot be defined (verbs/verb.py).
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal

from msgspec import Struct

from contextrelay.model.artifact import in_ms
from contextrelay.model.key import Key, Level

_RANKS: dict[Level, int] = {"read": 1, "write": 2, "admin": 3, "owner": 4}


class Touched(Struct, frozen=True):
    """What a request names that a limited key may not have."""

    channels: tuple[str, ...] = ()
    names: tuple[str | None, ...] = ()
    """Of threads it makes."""
    loose: int = 0
    """How many artifacts it makes that are in no thread and signalled on no channel."""


def may_ask(key: Key, needs: Level) -> bool:
    """Whether a key's scope is enough for a verb that needs this."""
    return _RANKS[needs] <= _rank(key)


def _rank(key: Key) -> int:
    if key.scope == "admin" and key.is_owners:
        return _RANKS["owner"]
    return _RANKS[key.scope]


def complaint(key: Key, needs: Level, touched: Touched) -> str | None:
    """Why a key may not ask a verb; None if it may."""
    if not may_ask(key, needs):
        needed = "an admin key of the whole store" if needs == "owner" else f"scope {needs}"
        return f"this key has scope {key.scope}, and {needed} is needed"
    if not key.is_limited:
        return None
    for channel in touched.channels:
        if not sees_channel(key, channel):
            return "this key is not for that channel"
    for name in touched.names:
        if name is None or not name.startswith(key.threads):
            return "this key is not for a thread of that name"
    if touched.loose:
        return "this key is for some threads and channels: what it stores belongs to one of them"
    return None


def sees_channel(key: Key, channel: str) -> bool:
    """Whether a channel is there for a key."""
    return not key.is_limited or channel.startswith(key.channels)


def sees_thread(key: Key, thread: str, name: str | None) -> bool:
    """Whether a thread is there for a key: by the start of its name, or by its whole id."""
    if not key.is_limited or thread in key.threads:
        return True
    return name is not None and name.startswith(key.threads)


def is_good(key: Key, now_ms: int) -> bool:
    """Whether a key is neither revoked nor expired."""
    if key.revoked_at is not None:
        return False
    return key.expires_at is None or in_ms(key.expires_at) > now_ms


_MINUTE_MS = 60_000


class Bucket(Struct, frozen=True, gc=False):
    """What may be spent at once, as it was at a moment. It holds a minute's worth."""

    left: float
    at_ms: int


def spend(
    bucket: Bucket | None, per_minute: int, now_ms: int, amount: int = 1
) -> tuple[Bucket, float]:
    """Take so many out of a bucket, None for a full one; the bucket after, and the seconds to wait.

    The wait is 0.0 where they were there to take; else nothing is taken.
    """
    left = float(per_minute)
    if bucket is not None:
        filled = max(0, now_ms - bucket.at_ms) * per_minute / _MINUTE_MS
        left = min(left, bucket.left + filled)
    if left >= amount:
        return Bucket(left - amount, now_ms), 0.0
    return Bucket(left, now_ms), (amount - left) * _MINUTE_MS / per_minute / 1000


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
