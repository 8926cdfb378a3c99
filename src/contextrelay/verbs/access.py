"""Access: keys and their usage. Some of these verbs are sent only by a server to its own store."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Meta

from contextrelay.limits import KEY_RATE_MAX, LIST_ITEMS_MAX
from contextrelay.model.key import (
    IssuedKey,
    Key,
    KeyId,
    KeyListing,
    Prefixes,
    Scope,
    StoredKey,
    Tenant,
    Usage,
)
from contextrelay.verbs.verb import Cursor, Index, Label, Traits, TtlS, Verb

_keys = partial(Traits, needs="admin", answered_in="access")


class NewKey(Verb[IssuedKey], frozen=True, kw_only=True):
    """Create a key. Its token is shown only in this reply.

    `scope`: read, write (includes read) or admin. `tenant`: the tenant that the key belongs to; a
    tenant sees nothing of other tenants. `threads`, `channels`: restrict the key to names with
    these prefixes.
    """

    traits = _keys(http="POST /v1/keys", status=201)

    name: Label | None = None
    scope: Scope = "write"
    tenant: Tenant | None = None
    threads: Prefixes = ()
    channels: Prefixes = ()
    ttl_s: TtlS | None = None
    """None: the key does not expire."""
    quota_bytes: Index | None = None
    """The total number of bytes that may be pushed with the key."""
    requests_per_minute: Annotated[int, Meta(ge=1, le=KEY_RATE_MAX)] | None = None


class ListKeys(Verb[KeyListing], frozen=True):
    """List keys by id, including revoked and expired ones. To get the next page, pass `next` of the
    previous page as `after`.
    """

    traits = _keys(http="GET /v1/keys")

    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 20
    after: Cursor = ""


class RevokeKey(Verb[Key], frozen=True):
    """Revoke a key immediately, on every server of the store."""

    traits = _keys(http="DELETE /v1/keys/{id}")

    id: KeyId


class ReadUsage(Verb[Usage], frozen=True):
    """Return the usage of a key: requests and pushed bytes."""

    traits = _keys(http="GET /v1/keys/{id}/usage")

    id: KeyId


class KeepKey(Verb[None], frozen=True):
    """Store a key that was created elsewhere. An existing key with this id is left unchanged."""

    traits = Traits(needs="owner", answered_in="access")

    kept: StoredKey


class CountUse(Verb[None], frozen=True):
    """Add requests and bytes to the usage of a key."""

    traits = Traits(needs="owner", answered_in="access")

    id: KeyId
    counts: dict[str, int]
    used_ms: int
    count_id: str = ""
    """Names these counts, so that a repeated request adds them once."""
