"""Keys: made, found by their tokens, listed, revoked, and what was done with each.

The log `key/<id>` has the row `key`, with the hash of the token, and the row `used`; a fact when it
is made and when it is revoked wakes those who listen. Counters are a tally of the same name.

Rule: a token is never kept. All keys are in the store's own space; an admin of a tenant knows only
those of that tenant.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from contextlib import suppress

from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

from contextrelay.access import is_good
from contextrelay.core.access.quotas import PUSHED
from contextrelay.core.registry import answers
from contextrelay.core.schema import UNREADABLE, Kind, first_page, key_counters, walk_logs
from contextrelay.core.stores import Stores
from contextrelay.documents.bounds import check_label
from contextrelay.errors import Broken, Forbidden, Invalid, NotFound
from contextrelay.limits import KEY_FORGOTTEN_S
from contextrelay.model.artifact import in_ms, moment
from contextrelay.model.key import (
    ID_BYTES,
    SECRET_BYTES,
    IssuedKey,
    KeptKey,
    Key,
    KeyListing,
    Usage,
    key_id_in,
    spell_token,
    token_hash,
)
from contextrelay.model.names import KEYS, key_log
from contextrelay.store.ledger import ONLY, Reads, Row, Stale, Write
from contextrelay.verbs import (
    Body,
    CountUse,
    KeepKey,
    ListKeys,
    NewKey,
    ReadUsage,
    RevokeKey,
)

_encoder = Encoder()
_decoder = Decoder(KeptKey)


# Making


@answers(NewKey)
def new_key(stores: Stores, verb: NewKey, body: Body) -> IssuedKey:
    tenant = verb.tenant
    if stores.caller is not None and stores.caller.key.tenant is not None:
        tenant = stores.caller.key.tenant
        if verb.tenant not in (None, tenant):
            raise Forbidden("this key is of another tenant", "leave out the tenant")
    verb, stores = replace(verb, tenant=tenant), stores.root
    if verb.name is not None:
        check_label(verb.name, "name")
    if verb.tenant is not None:
        check_label(verb.tenant, "tenant")  # Its pattern lets a line end behind it pass.
    if verb.scope == "admin" and (verb.threads or verb.channels):
        raise Invalid(
            "an admin key is for all threads and channels", "take scope write, or leave them out"
        )
    token = spell_token(stores.random_bytes(ID_BYTES), stores.random_bytes(SECRET_BYTES))
    now_ms = stores.now_ms()
    key_id = key_id_in(token)
    assert key_id is not None
    key = Key(
        id=key_id,
        name=verb.name,
        scope=verb.scope,
        tenant=verb.tenant,
        threads=verb.threads,
        channels=verb.channels,
        quota_bytes=verb.quota_bytes,
        requests_per_minute=verb.requests_per_minute,
        created_at=moment(now_ms),
        expires_at=None if verb.ttl_s is None else moment(now_ms + verb.ttl_s * 1000),
    )
    _keep(stores, KeptKey(key=key, sha256=token_hash(token)))
    return IssuedKey(key=key, token=token)


@answers(KeepKey)
def keep_key(stores: Stores, verb: KeepKey, body: Body) -> None:
    with suppress(Stale):  # It is there already.
        _keep(stores, verb.kept)


def _keep(stores: Stores, kept: KeptKey) -> None:
    stores.ledger.commit(Write(key_log(kept.key.id), (b"made",), (_row(kept),), expect=0))


def _row(kept: KeptKey) -> Row:
    ended_at = kept.key.revoked_at or kept.key.expires_at
    due_ms = None if ended_at is None else in_ms(ended_at) + KEY_FORGOTTEN_S * 1000
    return Row(Kind.KEY, ONLY, _encoder.encode(kept), due_ms)


# Finding


def key_row(ledger: Reads, key_id: str) -> bytes | None:
    """Return a key's record: the same bytes for as long as nothing about it changed."""
    return ledger.get(key_log(key_id), Kind.KEY, ONLY)


def key_in(row: bytes, token: str) -> Key | None:
    """The key that is kept in a row, if the token is that key's."""
    kept = _kept(row)
    # In constant time: how much of a hash was right must not be measurable.
    return kept.key if hmac.compare_digest(token_hash(token), kept.sha256) else None


def check_key(ledger: Reads, log: str) -> None:
    """Raise Broken if the key in a log cannot be read."""
    row = ledger.get(log, Kind.KEY, ONLY)
    if row is not None:
        _kept(row)


def _kept(row: bytes) -> KeptKey:
    try:
        return _decoder.decode(row)
    except UNREADABLE as error:
        raise Broken(f"a key cannot be read: {error}", "make another: relay keys new") from error


def current_key(stores: Stores, key: Key) -> Key | None:
    """Return a key as it is now, None if it ended; an identity provider's has no record here."""
    row = key_row(stores.root.ledger, key.id)
    now = key if row is None else _kept(row).key
    return now if is_good(now, stores.now_ms()) else None


def _rows(stores: Stores, after: str) -> Iterator[bytes]:
    for log in walk_logs(stores.ledger, KEYS, key_log(after)):
        row = stores.ledger.get(log, Kind.KEY, ONLY)
        if row is not None:
            yield row


@answers(ListKeys)
def list_keys(stores: Stores, verb: ListKeys, body: Body) -> KeyListing:
    every = _readable(stores.root, verb.after)
    keys, after = first_page(((key.id, key) for key in every if _is_known(stores, key)), verb.limit)
    return KeyListing(keys=keys, next=after)


def _readable(stores: Stores, after: str) -> Iterator[Key]:
    """Every key that is not damaged: one that is must not keep others from being revoked."""
    for row in _rows(stores, after):
        with suppress(Broken):
            yield _kept(row).key


def _found(stores: Stores, key_id: str) -> KeptKey:
    row = key_row(stores.root.ledger, key_id)
    kept = None if row is None else _kept(row)
    if kept is None or not _is_known(stores, kept.key):
        raise NotFound(f"no key {key_id}", "see which there are with: relay keys list")
    return kept


def _is_known(stores: Stores, key: Key) -> bool:
    """Whether the caller may know of a key."""
    return stores.tenant in (None, key.tenant)


# Ending


@answers(RevokeKey)
def revoke_key(stores: Stores, verb: RevokeKey, body: Body) -> Key:
    kept = _found(stores, verb.id)
    if kept.key.revoked_at is not None:
        return kept.key
    revoked = replace(kept, key=replace(kept.key, revoked_at=moment(stores.now_ms())))
    write = Write(key_log(verb.id), (b"revoked",), (_row(revoked),))
    stores.root.ledger.commit(write)
    return revoked.key


# Use


@answers(ReadUsage)
def read_usage(stores: Stores, verb: ReadUsage, body: Body) -> Usage:
    key = _found(stores, verb.id).key
    ledger = stores.root.ledger
    counts = ledger.tally(key_counters(key.id), {})
    used = ledger.get(key_log(key.id), Kind.USED, ONLY)
    return Usage(
        id=key.id,
        requests=counts.get("requests", 0),
        bytes_in=counts.get("bytes_in", 0),
        bytes_out=counts.get("bytes_out", 0),
        pushed_bytes=counts.get(PUSHED, 0),
        quota_bytes=key.quota_bytes,
        last_used_at=None if used is None else moment(int(used)),
    )


@answers(CountUse)
def count_use(stores: Stores, verb: CountUse, body: Body) -> None:
    # The counts come last: a caller repeats what failed.
    used = Row(Kind.USED, ONLY, b"%d" % verb.used_ms)
    stores.ledger.commit(Write(key_log(verb.id), rows=(used,)))
    stores.ledger.tally(key_counters(verb.id), verb.counts)
