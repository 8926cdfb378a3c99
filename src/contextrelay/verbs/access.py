"""Access: keys, and what was done with each; a server asks some of them of its own store."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Meta

from contextrelay.limits import KEY_RATE_MAX, LIST_ITEMS_MAX
from contextrelay.model.key import (
    IssuedKey,
    KeptKey,
    Key,
    KeyId,
    KeyListing,
    Prefixes,
    Scope,
    Tenant,
    Usage,
)
from contextrelay.verbs.verb import Cursor, Index, Label, Traits, TtlS, Verb

_keys = partial(Traits, needs="admin", answered_in="access")


class NewKey(Verb[IssuedKey], frozen=True, kw_only=True):
    """Make a key; the reply alone holds its token.

    `scope`: read, write (which may read too) or admin. `tenant`: whose it is; those of a tenant
    see nothing of others. `threads`, `channels`: only those whose names begin so.
    """

    traits = _keys(http="POST /v1/keys", status=201)

    name: Label | None = None
    scope: Scope = "write"
    tenant: Tenant | None = None
    threads: Prefixes = ()
    channels: Prefixes = ()
    ttl_s: TtlS | None = None
    """None: until it is revoked."""
    quota_bytes: Index | None = None
    """How many bytes may be pushed with it in all."""
    requests_per_minute: Annotated[int, Meta(ge=1, le=KEY_RATE_MAX)] | None = None


class ListKeys(Verb[KeyListing], frozen=True):
    """List keys by id, also those revoked or expired; `after` is the `next` of the page before."""

    traits = _keys(http="GET /v1/keys")

    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 20
    after: Cursor = ""


class RevokeKey(Verb[Key], frozen=True):
    """Revoke a key, from now on and on every server of the store."""

    traits = _keys(http="DELETE /v1/keys/{id}")

    id: KeyId


class ReadUsage(Verb[Usage], frozen=True):
    """What was done with a key."""

    traits = _keys(http="GET /v1/keys/{id}/usage")

    id: KeyId


class KeepKey(Verb[None], frozen=True):
    """Keep a key that was made elsewhere; one that is there already stays as it is."""

    traits = Traits(needs="owner", answered_in="access")

    kept: KeptKey


class CountUse(Verb[None], frozen=True):
    """Add to what was done with a key: its requests and bytes since they were counted last."""

    traits = Traits(needs="owner", answered_in="access")

    id: KeyId
    counts: dict[str, int]
    used_ms: int
