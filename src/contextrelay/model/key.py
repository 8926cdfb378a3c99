"""Keys: how a server knows its callers, and what they may do.

A token is `relay_<id>_<secret>`: the id finds the key, the secret is 192 random bits. Only the hash
of a token is kept; the token itself is shown once, when the key is made.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from contextrelay.limits import CHANNEL_CHARS_MAX

# Keys. How many prefixes one may have, and how long the record of one stays that is good no more.
KEY_PREFIXES_MAX = 32


Scope = Literal["read", "write", "admin"]
Level = Literal["read", "write", "admin", "owner"]
"""What a verb needs: a scope, which includes all those before it; or, for `owner`, an admin key of
the whole store."""
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
    """A key as it is shown: all but its token, which nobody has but who made it."""

    id: str
    name: str | None
    scope: Scope
    tenant: str | None
    """Whose it is; None for the store's owner."""
    threads: tuple[str, ...]
    """Names with which threads begin, or whole ids; with these or `channels`, only those."""
    channels: tuple[str, ...]
    """Names with which channels begin."""
    quota_bytes: int | None
    """How many bytes may be pushed with it in all."""
    requests_per_minute: int | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None = None

    @property
    def is_limited(self) -> bool:
        """Whether it is only for some threads and channels."""
        return bool(self.threads or self.channels)

    @property
    def is_owners(self) -> bool:
        """Whether it is for all of the store."""
        return self.tenant is None and not self.is_limited


class KeptKey(Struct, frozen=True, kw_only=True):
    """A key as the ledger has it."""

    key: Key
    sha256: str
    """Of its token."""


class IssuedKey(Struct, frozen=True, kw_only=True):
    """A new key with its token, which cannot be shown again."""

    key: Key
    token: str


class KeyListing(Struct, frozen=True, kw_only=True):
    """One page of keys, by id; `next` is "" on the last one."""

    keys: list[Key]
    next: str = ""


class Usage(Struct, frozen=True, kw_only=True):
    """What was done with a key; servers count together, and are a second behind."""

    id: str
    requests: int
    bytes_in: int
    bytes_out: int
    pushed_bytes: int
    """What counts against the quota."""
    quota_bytes: int | None
    last_used_at: datetime | None


def spell_token(key_id: bytes, secret: bytes) -> str:
    """A token out of random bytes."""
    return f"relay_{key_id.hex()}_{secret.hex()}"


def token_hash(token: str) -> str:
    """The hash that is kept in place of a token."""
    import hashlib  # Loads OpenSSL, which most commands do without.

    return hashlib.sha256(token.encode()).hexdigest()


def key_id_in(token: str) -> str | None:
    """The id of the key that a token is for; None if it cannot be a token."""
    match = _TOKEN.match(token)
    return None if match is None else match[1]
