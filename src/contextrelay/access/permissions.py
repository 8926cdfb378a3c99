"""Access: may a key ask this? Data in, verdict out.

Every verb says in its traits which level it needs: `read`, `write` and `admin` are the scopes of
keys, each with all that is below it; `owner` is an admin key for the whole store. A key for some
threads or channels (a limited one) writes only there, and sees what `sees_thread` and
`sees_channel` allow.

Rule: a verb that does not say what it needs cannot be defined (verbs/verb.py).
"""

from __future__ import annotations

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
