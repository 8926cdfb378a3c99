"""The cache: which artifact is the result of a capability with certain arguments, and until when.

The log `k/<cache key>` has one row `result`, which comes up on the due list when its time is over.

Rule: an entry is a hint. Where its artifact is gone it is a miss, and losing an entry costs a run.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder, Encoder

from contextrelay.core.artifacts import records
from contextrelay.core.schema import CACHE_HITS, RESULTS, UNREADABLE, Kind, log_pages, result_log
from contextrelay.core.stores import Stores
from contextrelay.errors import Full
from contextrelay.model.artifact import Artifact
from contextrelay.model.capability import Capability
from contextrelay.store.ledger import ONLY, Row, Write


class Entry(Struct, frozen=True):
    """One cached result."""

    capability: str
    ref: str
    made_ms: int
    until_ms: int


# As many as the clients of seed 002 expect: 128 bits.
_KEY_CHARS = 32
_canonical = Encoder(order="sorted")
_encoder = Encoder()
_decoder = Decoder(Entry)


def key_of(tenant: str, capability: Capability, args: dict[str, Any], thread: str | None) -> str:
    """What a result is found by: the same for the same arguments, in whatever order they come."""
    named = [tenant, capability.name, args, thread, capability.version]
    return hashlib.sha256(_canonical.encode(named)).hexdigest()[:_KEY_CHARS]


def find(stores: Stores, key: str) -> Artifact | None:
    """The artifact that answers, if it is there and its time is not over."""
    entry = _read(stores, result_log(key))
    if entry is None or entry.until_ms <= stores.now_ms():
        return None
    artifact = records.find(stores.ledger, entry.ref)
    if artifact is None or records.is_over(artifact, stores.now_ms()):
        return None
    return artifact


def keep(stores: Stores, key: str, capability: str, ref: str, ttl_s: int) -> None:
    """Remember a result for so long."""
    now_ms = stores.now_ms()
    entry = Entry(capability, ref, now_ms, now_ms + ttl_s * 1000)
    row = Row(Kind.RESULT, ONLY, _encoder.encode(entry), entry.until_ms)
    with suppress(Full):  # The result is there, whether or not there is room to remember it.
        stores.ledger.commit(Write(result_log(key), rows=(row,)))


def count_hit(stores: Stores, capability: str) -> None:
    """Count that the cache had a result: in this process, and in the store."""
    stores.cache_hits.add()
    with suppress(Full):
        stores.ledger.tally(CACHE_HITS, {capability: 1})


def hits(stores: Stores) -> dict[str, int]:
    """How often the cache had a result, by capability."""
    return stores.ledger.tally(CACHE_HITS, {})


def forget(stores: Stores, log: str) -> None:
    """Forget an entry that is due; a sweep comes here."""
    entry = _read(stores, log)
    if entry is None or entry.until_ms <= stores.now_ms():
        stores.ledger.commit(_forgetting(log))


def purge(stores: Stores, capability: str | None) -> int:
    """Forget every entry, or those of one capability; how many."""
    count = 0
    for page in log_pages(stores.ledger, RESULTS):
        chosen = [log for log in page if _is_of(_read(stores, log), capability)]
        stores.ledger.commit(*(_forgetting(log) for log in chosen))
        count += len(chosen)
    return count


def _is_of(entry: Entry | None, capability: str | None) -> bool:
    return capability is None or (entry is not None and entry.capability == capability)


def _forgetting(log: str) -> Write:
    return Write(log, rows=(Row(Kind.RESULT, ONLY, None),))


def _read(stores: Stores, log: str) -> Entry | None:
    row = stores.ledger.get(log, Kind.RESULT, ONLY)
    try:
        return None if row is None else _decoder.decode(row)
    except UNREADABLE:
        return None  # A cache may lose an entry.
