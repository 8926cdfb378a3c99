"""Access: keys, their permissions and quotas, and the check that every verb passes.

The log `key/<id>` has the row `key`, with the hash of the token, and the row `used`. A fact is
appended when the key is created and when it is revoked; it wakes the servers that follow the log.
Usage counters are a tally of the same name. `with_permissions_of` returns the stores as a key sees
them (spaces.py). Every verb sent to them passes `Caller.admit`, and its reply passes `shown`. The
owner, who opened the store, has no caller and is not checked. A rate shared by several servers is a
row that is changed by compare-and-set.

Rule: a token is never stored. All keys are in the store's own space; the admin of a tenant sees
only the keys of that tenant. Bytes are charged to a quota in the commit that stores them.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.json import Decoder, Encoder, decode, encode
from msgspec.structs import replace

from contextrelay.access import Bucket, Targets, denial_reason, is_valid, take_tokens
from contextrelay.core.idempotency import is_known_request
from contextrelay.core.registry import answers
from contextrelay.core.schema import (
    KEY_NAMES,
    RATES,
    RESTORE,
    UNREADABLE,
    RowKind,
    first_page,
    key_counters,
    known_refs,
    tenants,
    walk_logs,
)
from contextrelay.core.spaces import VisibleLedger, space_of
from contextrelay.core.stores import Count, Stores
from contextrelay.documents.bounds import check_label
from contextrelay.errors import (
    Broken,
    Conflict,
    Forbidden,
    Full,
    Invalid,
    NotFound,
    Unavailable,
)
from contextrelay.limits import DAY_S, RETRIES_MAX, TOMBSTONE_S
from contextrelay.model.artifact import Artifact, from_ms, to_ms
from contextrelay.model.key import (
    ID_BYTES,
    SECRET_BYTES,
    IssuedKey,
    Key,
    KeyListing,
    StoredKey,
    Usage,
    format_token,
    parse_key_id,
    token_hash,
)
from contextrelay.model.names import KEYS, key_log
from contextrelay.model.reports import Listing
from contextrelay.store.ledger import ONLY, Ledger, Reads, Row, Stale, Write
from contextrelay.verbs import (
    BeginPipeline,
    Body,
    CountUse,
    GiveHandoff,
    ImportThread,
    KeepKey,
    ListKeys,
    NewKey,
    PushMany,
    ReadUsage,
    RevokeKey,
    Stream,
    Verb,
)

KEY_FORGOTTEN_S = TOMBSTONE_S
# A server takes this share of a key's requests per minute from the shared rate at a time.
RATE_SLICES = 100


_encoder = Encoder()
_decoder = Decoder(StoredKey)


# Creating keys


@answers(NewKey)
def new_key(stores: Stores, verb: NewKey, body: Body) -> IssuedKey:
    tenant = verb.tenant
    if stores.caller is not None and stores.caller.key.tenant is not None:
        tenant = stores.caller.key.tenant
        if verb.tenant not in (None, tenant):
            raise Forbidden("this key belongs to another tenant", "omit the tenant")
    verb, stores = replace(verb, tenant=tenant), stores.root
    if verb.name is not None:
        _check_name(stores, verb.name, verb.tenant)
    if verb.tenant is not None:
        check_label(verb.tenant, "tenant")  # The pattern of check_label accepts a trailing newline.
    if verb.scope == "admin" and (verb.threads or verb.channels):
        raise Invalid(
            "an admin key cannot be limited to threads or channels",
            "use scope write, or omit the threads and channels",
        )
    token = format_token(stores.random_bytes(ID_BYTES), stores.random_bytes(SECRET_BYTES))
    now_ms = stores.now_ms()
    key_id = parse_key_id(token)
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
        created_at=from_ms(now_ms),
        expires_at=None if verb.ttl_s is None else from_ms(now_ms + verb.ttl_s * 1000),
    )
    _store_key(stores, StoredKey(key=key, sha256=token_hash(token)))
    return IssuedKey(key=key, token=token)


def _check_name(stores: Stores, name: str, tenant: str | None) -> None:
    """Check the name of a new key, which is recorded as the author of what the key does.

    Raises:
        Invalid: the name contains a slash, after which the name of an agent is recorded.
        Conflict: another valid key of the same space has the name.
    """
    check_label(name, "name")
    if "/" in name:
        raise Invalid(f"invalid key name {name!r}: it contains a slash", "use a name without /")
    for key in _readable_keys(stores.root, ""):
        if (key.name, key.tenant) == (name, tenant) and is_valid(key, stores.now_ms()):
            raise Conflict(
                f"a key named {name!r} already exists: {key.id}",
                f"choose another name, or revoke that key first: relay keys revoke {key.id}",
            )


@answers(KeepKey)
def keep_key(stores: Stores, verb: KeepKey, body: Body) -> None:
    with suppress(Stale):  # The key already exists.
        _store_key(stores, verb.kept)


def _store_key(stores: Stores, stored: StoredKey) -> None:
    stores.ledger.commit(Write(key_log(stored.key.id), (b"made",), (_row(stored),), expect=0))


def _row(kept: StoredKey) -> Row:
    ended_at = kept.key.revoked_at or kept.key.expires_at
    due_ms = None if ended_at is None else to_ms(ended_at) + KEY_FORGOTTEN_S * 1000
    return Row(RowKind.KEY, ONLY, _encoder.encode(kept), due_ms)


def rename_duplicates(stores: Stores) -> None:
    """Give each key of an earlier version a name of its own, once: duplicates get their id, and a
    slash becomes a hyphen.
    """
    names: set[tuple[str | None, str]] = set()
    kept = [_decode_key(row) for row in _rows(stores, "")]
    for each in sorted(kept, key=lambda each: each.key.created_at):
        key, name = each.key, (each.key.name or "").replace("/", "-")
        if not name or not is_valid(key, stores.now_ms()):
            continue
        if (key.tenant, name) in names:
            name = f"{name}-{key.id}"
        names.add((key.tenant, name))
        if name != key.name:
            row = _row(replace(each, key=replace(key, name=name)))
            stores.ledger.commit(Write(key_log(key.id), (b"renamed",), (row,)))
    stores.ledger.commit(Write(RESTORE, rows=(Row(RowKind.FINISHED, KEY_NAMES, b""),)))


# Finding keys


def key_row(ledger: Reads, key_id: str) -> bytes | None:
    """Return the stored record of a key as bytes. The bytes are the same until the key changes."""
    return ledger.get(key_log(key_id), RowKind.KEY, ONLY)


def matching_key(row: bytes, token: str) -> Key | None:
    """Return the key stored in a row if the token matches it, or None."""
    kept = _decode_key(row)
    # Compare in constant time, so that timing reveals nothing about the hash.
    return kept.key if hmac.compare_digest(token_hash(token), kept.sha256) else None


def check_key(ledger: Reads, log: str) -> None:
    """Raise Broken if the key in a log cannot be decoded."""
    row = ledger.get(log, RowKind.KEY, ONLY)
    if row is not None:
        _decode_key(row)


def _decode_key(row: bytes) -> StoredKey:
    try:
        return _decoder.decode(row)
    except UNREADABLE as error:
        raise Broken(f"cannot read a key: {error}", "create a new one: relay keys new") from error


def current_key(stores: Stores, key: Key) -> Key | None:
    """Return the current version of a key, or None if the key expired or was revoked.

    A key of an identity provider has no record in the store and is returned unchanged.
    """
    row = key_row(stores.root.ledger, key.id)
    now = key if row is None else _decode_key(row).key
    return now if is_valid(now, stores.now_ms()) else None


def _rows(stores: Stores, after: str) -> Iterator[bytes]:
    for log in walk_logs(stores.ledger, KEYS, key_log(after)):
        row = stores.ledger.get(log, RowKind.KEY, ONLY)
        if row is not None:
            yield row


@answers(ListKeys)
def list_keys(stores: Stores, verb: ListKeys, body: Body) -> KeyListing:
    every = _readable_keys(stores.root, verb.after)
    keys, after = first_page(
        ((key.id, key) for key in every if _is_visible(stores, key)), verb.limit
    )
    return KeyListing(keys=keys, next=after)


def _readable_keys(stores: Stores, after: str) -> Iterator[Key]:
    """Yield every readable key. A damaged key is skipped, so that others can still be revoked."""
    for row in _rows(stores, after):
        with suppress(Broken):
            yield _decode_key(row).key


def _find_key_by_id(stores: Stores, key_id: str) -> StoredKey:
    row = key_row(stores.root.ledger, key_id)
    kept = None if row is None else _decode_key(row)
    if kept is None or not _is_visible(stores, kept.key):
        raise NotFound(f"key not found: {key_id}", "list the keys: relay keys list")
    return kept


def _is_visible(stores: Stores, key: Key) -> bool:
    """Return True if the caller may see a key."""
    return stores.tenant in (None, key.tenant)


# Revoking keys


@answers(RevokeKey)
def revoke_key(stores: Stores, verb: RevokeKey, body: Body) -> Key:
    kept = _find_key_by_id(stores, verb.id)
    if kept.key.revoked_at is not None:
        return kept.key
    revoked = replace(kept, key=replace(kept.key, revoked_at=from_ms(stores.now_ms())))
    write = Write(key_log(verb.id), (b"revoked",), (_row(revoked),))
    stores.root.ledger.commit(write)
    return revoked.key


# Usage


@answers(ReadUsage)
def read_usage(stores: Stores, verb: ReadUsage, body: Body) -> Usage:
    key = _find_key_by_id(stores, verb.id).key
    ledger = stores.root.ledger
    counts = ledger.tally(key_counters(key.id))
    used = ledger.get(key_log(key.id), RowKind.USED, ONLY)
    return Usage(
        id=key.id,
        requests=counts.get("requests", 0),
        bytes_in=counts.get("bytes_in", 0),
        bytes_out=counts.get("bytes_out", 0),
        pushed_bytes=counts.get(PUSHED, 0),
        quota_bytes=key.quota_bytes,
        last_used_at=None if used is None else from_ms(int(used)),
    )


@answers(CountUse)
def count_use(stores: Stores, verb: CountUse, body: Body) -> None:
    used = Row(RowKind.USED, ONLY, b"%d" % verb.used_ms)
    write = Write(key_log(verb.id), rows=(used,), adds=tuple(verb.counts.items()))
    stores.ledger.commit(write, id=verb.count_id.encode())


AnswerFunction = Callable[[Stores, Any, Body], Any]

PUSHED = "pushed_bytes"


class Quota:
    """The share of a key's quota that one request uses."""

    def __init__(self, key: Key, ledger: Ledger) -> None:
        assert key.quota_bytes is not None
        self._ledger = ledger
        self._name = key_counters(key.id)
        self._bytes_max = key.quota_bytes

    def answer(self, function: AnswerFunction, stores: Stores, verb: Verb[Any], body: Body) -> Any:
        """Answer a verb with its body; stop reading a body that exceeds the quota."""
        is_again = stores.once is not None and stores.once.is_retry
        # A repeated request may be stored already; it then uses no quota.
        body = body if is_again else self._bounded(verb, body)
        return function(replace(stores, quota=self), verb, body)

    def check(self, size_bytes: int) -> None:
        """Check that the quota has room for a number of bytes.

        Raises:
            Full: the quota has no room for the bytes.
        """
        if size_bytes > self._bytes_max - self._pushed_bytes():
            raise self.used_up()

    def charge(self, size_bytes: int) -> Write:
        """Return the write that charges bytes; it is stale if the quota has no room for them."""
        return Write(self._name, adds=((PUSHED, size_bytes),), total_max=self._bytes_max)

    def is_full(self, stale: Stale) -> bool:
        """Return True if a commit with a charge was refused because the quota has no room."""
        return stale.log == self._name

    def refund(self, size_bytes: int) -> Write:
        """Return the write that subtracts bytes that were charged and are removed again."""
        return Write(self._name, adds=((PUSHED, -size_bytes),))

    def _bounded(self, verb: Verb[Any], body: Body) -> Body:
        """Return the body, limited to the unused part of the quota."""
        if verb.traits.fills == "made":
            self.check(1)  # Fail early if the quota is used up.
        elif isinstance(body, bytes):
            self.check(len(body))
        else:
            return self._limited(self._bytes_max - self._pushed_bytes(), iter(body))
        return body

    def _limited(self, left: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the chunks of an incoming body; raise Full when the body exceeds `left` bytes."""
        size_bytes = 0
        for chunk in chunks:
            size_bytes += len(chunk)
            if size_bytes > left:
                raise self.used_up()
            yield chunk

    def _pushed_bytes(self) -> int:
        return self._ledger.tally(self._name).get(PUSHED, 0)

    def used_up(self) -> Full:
        return Full(
            f"storage quota of this key exceeded: {self._bytes_max:,} bytes",
            "stored content can still be pulled; ask the administrator for another key",
            status=402,
        )


_TRIM_EVERY = 100


def rate_of(stores: Stores, key: Key) -> Rate | SharedRate | None:
    """Return the rate limiter of a key, or None if its rate is unlimited."""
    if key.requests_per_minute is None:
        return None
    if stores.engine.is_shared:
        return SharedRate(stores, key.id, key.requests_per_minute)
    return Rate(key.requests_per_minute)


class Rate:
    """The rate limiter of a key within one process."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._bucket: Bucket | None = None

    def take(self, now_ms: int) -> float:
        """Take one request; return 0, or the seconds to wait if no request is left."""
        self._bucket, wait_s = take_tokens(self._bucket, self._per_minute, now_ms)
        return wait_s


class SharedRate:
    """The rate limiter of a key across all servers. `take` may wait for the engine."""

    def __init__(self, stores: Stores, key_id: str, per_minute: int) -> None:
        self._ledger = stores.ledger
        self._log = f"{RATES}{key_id}"
        self._per_minute = per_minute
        self._share = max(1, per_minute // RATE_SLICES)
        self._left = 0
        self._lock = threading.Lock()

    def take(self, now_ms: int) -> float:
        """Take one request; return 0, or the seconds to wait if no request is left.

        Raises:
            Unavailable: other servers keep changing the shared rate.
        """
        with self._lock:
            if self._left:
                self._left -= 1
                return 0.0
        for _ in range(RETRIES_MAX):
            with suppress(Stale):
                wait_s = self._take_share(now_ms)
                if not wait_s:
                    with self._lock:
                        self._left += self._share - 1
                return wait_s
        raise Unavailable("too many concurrent requests with this key", "try again")

    def _take_share(self, now_ms: int) -> float:
        head = self._ledger.last(self._log)
        found = self._ledger.get(self._log, RowKind.BUCKET, ONLY)
        before = None if found is None else decode(found, type=Bucket)
        bucket, wait_s = take_tokens(before, self._per_minute, now_ms, self._share)
        if not wait_s:
            row = Row(RowKind.BUCKET, ONLY, encode(bucket), due_ms=now_ms + DAY_S * 1000)
            self._ledger.commit(Write(self._log, (b"",), (row,), expect=head))
            if head % _TRIM_EVERY == 0:
                self._ledger.trim(self._log, head + 1)
        return wait_s


Reply = TypeVar("Reply")

_HINT = "ask the administrator for a key with this permission"


class FoundKey(Struct, frozen=True):
    """The result of looking up a token: the record of its key, and the key if the token matches."""

    row: bytes
    """The bytes of the record; empty for a key of an identity provider, which has no record."""
    key: Key | None

    def is_current(self, stores: Stores) -> bool:
        """Return True if the record of the key has not changed since it was read."""
        return self.key is not None and key_row(stores.ledger, self.key.id) == self.row


def find_key(stores: Stores, token: str) -> FoundKey | None:
    """Find the key with the id in a token, even if the token does not match; else return None."""
    key_id = parse_key_id(token)
    row = None if key_id is None else key_row(stores.ledger, key_id)
    return None if row is None else FoundKey(row, matching_key(row, token))


def tenant_spaces(stores: Stores) -> list[Stores]:
    """Return the store's own space and the space of each tenant, as the owner sees them."""
    return [space_of(stores, tenant) for tenant in (None, *tenants(stores.ledger))]


def stores_of_key(stores: Stores, key: Key) -> Stores | None:
    """Return the stores as a key sees them now, or None if the key is no longer valid."""
    now = current_key(stores, key)
    return None if now is None else with_permissions_of(stores, now)


def with_permissions_of(stores: Stores, key: Key) -> Stores:
    """Return the owner's stores restricted to what a key may see."""
    assert stores.caller is None, "with_permissions_of needs the owner's stores"
    space = space_of(stores, key.tenant)
    caller = Caller(key, stores, space)
    if not key.is_limited:
        return replace(space, caller=caller)
    engine = replace(space.engine, ledger=VisibleLedger(space.ledger, key))
    # A limited key has separate live states and counters, so that it sees neither cached data nor
    # the activity of other keys.
    live = space.live_states.within(f"{key.id}|")
    return replace(space, engine=engine, live_states=live, cache_hits=Count(), caller=caller)


class Caller:
    """The caller of a request: an access key, and the stores that the key's view is made from."""

    def __init__(self, key: Key, root: Stores, space: Stores) -> None:
        self.key = key
        self.root = root
        """The owner's stores."""
        self.space = space
        """The whole space of the tenant, including what the key cannot see."""
        self._rate = rate_of(root, key)
        self._allowed_kinds: set[type[Verb[Any]]] = set()

    def take_request(self, now_ms: int) -> float:
        """Take one request; return the seconds to wait if none is left."""
        return 0.0 if self._rate is None else self._rate.take(now_ms)

    def check_kind(self, kind: type[Verb[Any]]) -> None:
        """Check that the key may use a kind of verb, before its arguments are known.

        Raises:
            Forbidden: the key may not use this kind of verb.
        """
        if kind in self._allowed_kinds:
            return
        reason = denial_reason(self.key, kind.traits.needs, Targets(unplaced=kind is ImportThread))
        if reason is not None:
            raise Forbidden(reason, _HINT)

    def check_quota(self, kind: type[Verb[Any]], size_bytes: int, once: str) -> None:
        """Check that the quota has room for a body of at least this size, before the body is
        received.

        A retried request with the same idempotency key passes, because its body may be stored
        already.

        Raises:
            Full: the key's quota has no room for the body.
        """
        if self.key.quota_bytes is None or kind.traits.fills is None:
            return
        if once and is_known_request(self.space, self.key.id, once):
            return
        least_bytes = 1 if kind.traits.fills == "made" else size_bytes
        Quota(self.key, self.root.ledger).check(least_bytes)

    def check(self, verb: Verb[Any]) -> None:
        """Check that the key may use a verb.

        Raises:
            Forbidden: the key may not use the verb.
        """
        kind = type(verb)
        if kind in self._allowed_kinds:
            return
        reason = denial_reason(self.key, kind.traits.needs, _targets_of(verb))
        if reason is not None:
            raise Forbidden(reason, _HINT)
        if not self.key.is_limited:
            self._allowed_kinds.add(kind)  # This kind of verb is allowed with any arguments.

    def admit(self, verb: Verb[Any], function: AnswerFunction) -> AnswerFunction:
        """Return the function that answers a verb within the key's quota.

        Raises:
            Forbidden: the key may not use the verb.
        """
        self.check(verb)
        if self.key.quota_bytes is None or verb.traits.fills is None:
            return function

        def answer(stores: Stores, verb: Verb[Any], body: Body) -> Any:
            return Quota(self.key, self.root.ledger).answer(function, stores, verb, body)

        return answer

    def without_hidden_refs(self, stores: Stores, reply: Any) -> Any:
        """Return a reply without the refs that a limited key may not see."""
        if not self.key.is_limited:
            return reply
        if isinstance(reply, Artifact):
            sources = reply.provenance.source_refs
            known = known_refs(stores.ledger, sources)
            if len(known) == len(sources):
                return reply
            return replace(reply, provenance=replace(reply.provenance, source_refs=tuple(known)))
        if isinstance(reply, Stream):
            stream = cast("Stream[Any]", reply)
            return replace(stream, value=self.without_hidden_refs(stores, stream.value))
        if isinstance(reply, Listing):
            return replace(reply, artifacts=self.without_hidden_refs(stores, reply.artifacts))
        if isinstance(reply, list):
            return [self.without_hidden_refs(stores, each) for each in cast("list[Any]", reply)]
        return reply


def _targets_of(verb: Verb[Any]) -> Targets:
    """Return the threads, channels and refs that a request names, for the check of limited keys."""
    pushes = verb.items if isinstance(verb, PushMany) else [verb]
    channels = [channel for each in pushes if (channel := getattr(each, "channel", None))]
    if isinstance(verb, GiveHandoff):
        channels = [verb.signal_channel]
    # An import names no thread, channel or ref: its artifacts are stored before the thread is
    # created.
    loose = sum(
        each.traits.fills is not None
        # The body of BeginPipeline goes into the thread that the request creates.
        and not isinstance(each, BeginPipeline)
        and not any(getattr(each, place, None) for place in ("thread", "channel", "ref"))
        for each in pushes
    )
    names = (getattr(verb, "name", None),) if verb.traits.makes_thread else ()
    return Targets(tuple(channels), names, loose)
