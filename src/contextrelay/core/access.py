"""Access: keys, what each may use, and the one place where a verb is let in.

The log `key/<id>` has the row `key`, with the hash of the token, and the row `used`; a fact when it
is made and when it is revoked wakes those who listen. Counters are a tally of the same name.
`seen_by` makes the stores that a key sees (spaces.py); every verb asked of them passes
`Caller.admit`, and its reply passes `shown`. The owner, who opened the store, has no caller and
passes nothing. The rate that servers share is a row, changed by compare-and-set.

Rule: a token is never kept. All keys are in the store's own space; an admin of a tenant knows only
those of that tenant. Bytes are taken from a quota before they are kept, and given back only where
nothing of them stays.
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

from contextrelay.access import Bucket, Touched, complaint, is_good, spend
from contextrelay.core.idempotency import may_go_on, was_asked
from contextrelay.core.registry import answers
from contextrelay.core.schema import (
    RATES,
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
    Forbidden,
    Full,
    Invalid,
    NotFound,
    RelayError,
    Unavailable,
    Unconfirmed,
)
from contextrelay.limits import DAY_S, RETRIES_MAX, TOMBSTONE_S
from contextrelay.model.artifact import Artifact, in_ms, moment
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
# Of a key's requests a minute a server takes this share at a time from what all servers share.
RATE_SLICES = 100


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
    return Row(RowKind.KEY, ONLY, _encoder.encode(kept), due_ms)


# Finding


def key_row(ledger: Reads, key_id: str) -> bytes | None:
    """Return a key's record: the same bytes for as long as nothing about it changed."""
    return ledger.get(key_log(key_id), RowKind.KEY, ONLY)


def key_in(row: bytes, token: str) -> Key | None:
    """The key that is kept in a row, if the token is that key's."""
    kept = _kept(row)
    # In constant time: how much of a hash was right must not be measurable.
    return kept.key if hmac.compare_digest(token_hash(token), kept.sha256) else None


def check_key(ledger: Reads, log: str) -> None:
    """Raise Broken if the key in a log cannot be read."""
    row = ledger.get(log, RowKind.KEY, ONLY)
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
        row = stores.ledger.get(log, RowKind.KEY, ONLY)
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
    used = ledger.get(key_log(key.id), RowKind.USED, ONLY)
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
    used = Row(RowKind.USED, ONLY, b"%d" % verb.used_ms)
    stores.ledger.commit(Write(key_log(verb.id), rows=(used,)))
    stores.ledger.tally(key_counters(verb.id), verb.counts)


Kept = TypeVar("Kept")
Answering = Callable[[Stores, Any, Body], Any]

PUSHED = "pushed_bytes"


class Quota:
    """What one request takes of a key's quota."""

    def __init__(self, key: Key, ledger: Ledger) -> None:
        assert key.quota_bytes is not None
        self._ledger = ledger
        self._name = key_counters(key.id)
        self._most = key.quota_bytes
        self._kept_bytes = 0

    def answer(self, function: Answering, stores: Stores, verb: Verb[Any], body: Body) -> Any:
        """Answer a verb that brings bodies; what is too much is not even read to its end."""
        is_again = stores.once is not None and stores.once.is_again
        try:
            # What was asked before may be stored already, and takes nothing then.
            body = body if is_again else self._bounded(verb, body)
            return function(replace(stores, quota=self), verb, body)
        except RelayError as error:
            # All but many pushes take back what they stored, unless they go on when asked again.
            is_kept = isinstance(verb, PushMany) or isinstance(error, Unavailable | Unconfirmed)
            if not is_kept and not may_go_on(stores, error):
                self._tally(-self._kept_bytes)
            raise

    def check(self, size_bytes: int) -> None:
        """Refuse what has no room.

        Raises:
            Full: the quota has no room for so many bytes.
        """
        if size_bytes > self._most - self._tally(0):
            raise self._used_up()

    def keeping(self, size_bytes: int, keep: Callable[[], Kept | None]) -> Kept | None:
        """Keep bodies of a size together; None where they were not kept.

        Raises:
            Full: the quota has no room for them.
        """
        kept = None
        total = self._tally(size_bytes)
        try:
            if size_bytes and total > self._most:
                raise self._used_up()
            kept = keep()
        except (Unavailable, Unconfirmed):
            raise  # It may have been done, or be done when it is asked again.
        except RelayError:
            self._tally(-size_bytes)
            raise
        if kept is None:
            self._tally(-size_bytes)
        else:
            self._kept_bytes += size_bytes
        return kept

    def _bounded(self, verb: Verb[Any], body: Body) -> Body:
        """A body that is not longer than what is left."""
        if verb.traits.fills == "made":
            self.check(1)  # There has to be room at all.
        elif isinstance(body, bytes):
            self.check(len(body))
        else:
            return self._up_to(self._most - self._tally(0), iter(body))
        return body

    def _up_to(self, left: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """A body on its way in, which ends where the quota does."""
        size_bytes = 0
        for chunk in chunks:
            size_bytes += len(chunk)
            if size_bytes > left:
                raise self._used_up()
            yield chunk

    def _tally(self, size_bytes: int) -> int:
        """Count bytes, or uncount them; all that are counted now."""
        amounts = {PUSHED: size_bytes} if size_bytes else {}
        return self._ledger.tally(self._name, amounts).get(PUSHED, 0)

    def _used_up(self) -> Full:
        return Full(
            f"this would pass the key's quota of {self._most:,} bytes",
            "what is stored can still be pulled; ask who runs this relay for another key",
            status=402,
        )


_TRIM_EVERY = 100


def rate_of(stores: Stores, key: Key) -> Rate | SharedRate | None:
    """What counts the requests of a key; None where as many are allowed as come."""
    if key.requests_per_minute is None:
        return None
    if stores.engine.is_shared:
        return SharedRate(stores, key.id, key.requests_per_minute)
    return Rate(key.requests_per_minute)


class Rate:
    """The requests of a key in one process."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._bucket: Bucket | None = None

    def take(self, now_ms: int) -> float:
        """Take one; the seconds to wait if none is left."""
        self._bucket, wait_s = spend(self._bucket, self._per_minute, now_ms)
        return wait_s


class SharedRate:
    """The requests of a key through all servers. Taking one may wait for the engine."""

    def __init__(self, stores: Stores, key_id: str, per_minute: int) -> None:
        self._ledger = stores.ledger
        self._log = f"{RATES}{key_id}"
        self._per_minute = per_minute
        self._amount = max(1, per_minute // RATE_SLICES)
        self._taken = 0
        self._lock = threading.Lock()

    def take(self, now_ms: int) -> float:
        """Take one; the seconds to wait if none is left.

        Raises:
            Unavailable: others keep taking.
        """
        with self._lock:
            if self._taken:
                self._taken -= 1
                return 0.0
        for _ in range(RETRIES_MAX):
            with suppress(Stale):
                wait_s = self._try(now_ms)
                if not wait_s:
                    with self._lock:
                        self._taken += self._amount - 1
                return wait_s
        raise Unavailable("others keep asking with this key", "ask again")

    def _try(self, now_ms: int) -> float:
        head = self._ledger.last(self._log)
        found = self._ledger.get(self._log, RowKind.BUCKET, ONLY)
        before = None if found is None else decode(found, type=Bucket)
        bucket, wait_s = spend(before, self._per_minute, now_ms, self._amount)
        if not wait_s:
            row = Row(RowKind.BUCKET, ONLY, encode(bucket), due_ms=now_ms + DAY_S * 1000)
            self._ledger.commit(Write(self._log, (b"",), (row,), expect=head))
            if head % _TRIM_EVERY == 0:
                self._ledger.trim(self._log, head + 1)
        return wait_s


Reply = TypeVar("Reply")

_HINT = "ask who runs this relay for a key that may"


class FoundKey(Struct, frozen=True):
    """What the store knows of a token: the record of its key, and the key if the token is right."""

    row: bytes
    """The record; empty for a key of an identity provider, of which the store has none."""
    key: Key | None

    def is_current(self, stores: Stores) -> bool:
        """Return whether the key's record is what it was when it was read."""
        return self.key is not None and key_row(stores.ledger, self.key.id) == self.row


def find_key(stores: Stores, token: str) -> FoundKey | None:
    """Find the key that a token is for, valid or not; None if there is no such key."""
    key_id = key_id_in(token)
    row = None if key_id is None else key_row(stores.ledger, key_id)
    return None if row is None else FoundKey(row, key_in(row, token))


def tenant_spaces(stores: Stores) -> list[Stores]:
    """Return the store's own space and those of its tenants, as the owner sees them."""
    return [space_of(stores, tenant) for tenant in (None, *tenants(stores.ledger))]


def holder_of(stores: Stores, key: Key) -> Stores | None:
    """Return the owner's stores as the holder of a key has them now, None if it has ended."""
    now = current_key(stores, key)
    return None if now is None else seen_by(stores, now)


def seen_by(stores: Stores, key: Key) -> Stores:
    """The owner's stores as the holder of a key has them."""
    assert stores.caller is None, "only the owner's stores are seen by others"
    space = space_of(stores, key.tenant)
    caller = Caller(key, stores, space)
    if not key.is_limited:
        return replace(space, caller=caller)
    engine = replace(space.engine, ledger=VisibleLedger(space.ledger, key))
    # Live states and counters are its own: a limited key must not meet what others have read, nor
    # see what they did.
    live = space.live.within(f"{key.id}|")
    return replace(space, engine=engine, live=live, cache_hits=Count(), caller=caller)


class Caller:
    """The caller of a request: a key, and the stores behind what it sees."""

    def __init__(self, key: Key, root: Stores, space: Stores) -> None:
        self.key = key
        self.root = root
        """The owner's stores."""
        self.space = space
        """All that is the tenant's, also what the key is not for."""
        self._rate = rate_of(root, key)
        self._passing: set[type[Verb[Any]]] = set()

    def pace(self, now_ms: int) -> float:
        """Take one of the key's requests per minute; return the seconds to wait if none is left."""
        return 0.0 if self._rate is None else self._rate.take(now_ms)

    def check_kind(self, kind: type[Verb[Any]]) -> None:
        """Let a kind of verb pass, before it is known what else it says.

        Raises:
            Forbidden: none of that kind is for this key.
        """
        if kind in self._passing:
            return
        said = complaint(self.key, kind.traits.needs, Touched(loose=kind is ImportThread))
        if said is not None:
            raise Forbidden(said, _HINT)

    def check_quota(self, kind: type[Verb[Any]], size_bytes: int, once: str) -> None:
        """Let a body pass that has at least so many bytes, before it is here.

        What was asked before with the same idempotency key passes: it may be stored already.

        Raises:
            Full: the key's quota has no room for it.
        """
        if self.key.quota_bytes is None or kind.traits.fills is None:
            return
        if once and was_asked(self.space, self.key.id, once):
            return
        least_bytes = 1 if kind.traits.fills == "made" else size_bytes
        Quota(self.key, self.root.ledger).check(least_bytes)

    def check(self, verb: Verb[Any]) -> None:
        """Let a verb pass.

        Raises:
            Forbidden: it is not for this key.
        """
        kind = type(verb)
        if kind in self._passing:
            return
        said = complaint(self.key, kind.traits.needs, _touched(verb))
        if said is not None:
            raise Forbidden(said, _HINT)
        if not self.key.is_limited:
            self._passing.add(kind)  # Whatever else it says, it is let in.

    def admit(self, verb: Verb[Any], function: Answering) -> Answering:
        """Let a verb pass: the function that answers it, within the key's quota.

        Raises:
            Forbidden: it is not for this key.
        """
        self.check(verb)
        if self.key.quota_bytes is None or verb.traits.fills is None:
            return function

        def answer(stores: Stores, verb: Verb[Any], body: Body) -> Any:
            return Quota(self.key, self.root.ledger).answer(function, stores, verb, body)

        return answer

    def shown(self, stores: Stores, reply: Any) -> Any:
        """A reply as its reader may see it: a limited key gets no refs that it may not see."""
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
            return replace(stream, value=self.shown(stores, stream.value))
        if isinstance(reply, Listing):
            return replace(reply, artifacts=self.shown(stores, reply.artifacts))
        if isinstance(reply, list):
            return [self.shown(stores, each) for each in cast("list[Any]", reply)]
        return reply


def _touched(verb: Verb[Any]) -> Touched:
    """What a request names, as far as that matters for limited keys."""
    pushes = verb.items if isinstance(verb, PushMany) else [verb]
    channels = [channel for each in pushes if (channel := getattr(each, "channel", None))]
    if isinstance(verb, GiveHandoff):
        channels = [verb.signal_channel]
    # An import names none of these: its artifacts are stored before the thread is made.
    loose = sum(
        each.traits.fills is not None
        and not isinstance(each, BeginPipeline)  # Its body goes into the thread that it makes.
        and not any(getattr(each, place, None) for place in ("thread", "channel", "ref"))
        for each in pushes
    )
    names = (getattr(verb, "name", None),) if verb.traits.makes_thread else ()
    return Touched(tuple(channels), names, loose)
