"""Keys: how a server identifies its callers, and what they may do.

A token is `relay_<id>_<secret>`: the id finds the key, the secret is 192 random bits. Only the hash
of a token is stored; the token itself is shown once, when the key is created.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from contextrelay.limits import CHANNEL_CHARS_MAX

# Limits: prefixes per key, and how long a revoked or expired key is kept.
KEY_PREFIXES_MAX = 32


Scope = Literal["read", "write", "admin"]
Level = Literal["read", "write", "admin", "owner"]
"""The access that a verb needs: a scope, which includes all those before it, or `owner`, an admin
key for the whole store.
"""
KeyId = Annotated[str, Meta(pattern=r"^[0-9a-f]{12}$")]
Tenant = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,31}$")]
Prefixes = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=CHANNEL_CHARS_MAX)], ...],
    Meta(max_length=KEY_PREFIXES_MAX),
]

ID_BYTES = 6
SECRET_BYTES = 24

_TOKEN = re.compile(rf"relay_([0-9a-f]{{{2 * ID_BYTES}}})_[0-9a-f]{{{2 * SECRET_BYTES}}}\Z")


class Key(Struct, frozen=True, kw_only=True):
    """A key without its secret."""

    id: str
    name: str | None
    scope: Scope
    tenant: str | None
    """The tenant that the key belongs to; None for the store's owner."""
    threads: tuple[str, ...]
    """Prefixes of thread names, or whole ids. If this or `channels` is set, the key is restricted
    to matching names.
    """
    channels: tuple[str, ...]
    """Prefixes of channel names to which the key is restricted."""
    quota_bytes: int | None
    """The total number of bytes that may be pushed with the key."""
    requests_per_minute: int | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None = None

    @property
    def is_limited(self) -> bool:
        """Whether the key is restricted to some threads and channels."""
        return bool(self.threads or self.channels)

    @property
    def is_owners(self) -> bool:
        """Whether the key has access to the whole store."""
        return self.tenant is None and not self.is_limited


class StoredKey(Struct, frozen=True, kw_only=True):
    """A key as the ledger stores it."""

    key: Key
    sha256: str
    """Hash of the key's token."""


class IssuedKey(Struct, frozen=True, kw_only=True):
    """A new key with its token, which is not shown again."""

    key: Key
    token: str


class KeyListing(Struct, frozen=True, kw_only=True):
    """One page of keys, by id; `next` is "" on the last page."""

    keys: list[Key]
    next: str = ""


class Usage(Struct, frozen=True, kw_only=True):
    """The usage of a key, summed over all servers; it may be up to a second out of date."""

    id: str
    requests: int
    bytes_in: int
    bytes_out: int
    pushed_bytes: int
    """The bytes that count against the quota."""
    quota_bytes: int | None
    last_used_at: datetime | None


def format_token(key_id: bytes, secret: bytes) -> str:
    """Make a token from a key id and a secret, both random bytes."""
    return f"relay_{key_id.hex()}_{secret.hex()}"


def token_hash(token: str) -> str:
    """Return the hash that is stored instead of a token."""
    import hashlib  # hashlib loads OpenSSL, which most commands do not need.

    return hashlib.sha256(token.encode()).hexdigest()


def parse_key_id(token: str) -> str | None:
    """Return the key id in a token, or None if the token is malformed."""
    match = _TOKEN.match(token)
    return None if match is None else match[1]


def caller_name(key: Key) -> str:
    """Return the name that records use for a key: the key's name or, without a name, its id."""
    return key.name or key.id


def qualified_name(key_name: str, agent: str) -> str:
    """Return the name of an agent after that of its key. An agent cannot claim another key, because
    names of keys contain no slash.
    """
    if agent in ("", key_name, "you") or agent.startswith(f"{key_name}/"):
        return agent if agent not in ("", "you") else key_name
    return f"{key_name}/{agent}"
