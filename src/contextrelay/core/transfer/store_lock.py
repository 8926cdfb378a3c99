"""The lock on a store that a restore or a migration fills: nobody else reads or writes.

Its token is a word, and random digits, so that of two who fill a store only the one that began last
writes. It is kept in the ledger, so a crash leaves it there.
"""

from __future__ import annotations

import hashlib
import time

from contextrelay.core.schema import RESTORE, Kind, walk_logs
from contextrelay.core.stores import Stores
from contextrelay.errors import Conflict
from contextrelay.limits import LOCK_TRUSTED_S
from contextrelay.store.ledger import ONLY, UNLOCKED, Reads, Row, Write

LOOKING = b"looking:"
"""It is not known yet whether the store was empty: nothing may be erased."""
FILLING = b"filling:"
"""The store was empty when it was locked: all that is in it was written by a restore."""
MIGRATING = b"migrating:"
"""The same, by a migration; a hash of where it comes from follows."""

_UNFINISHED = {
    FILLING: ("restore", "relay restore FILE"),
    MIGRATING: ("migration from another store", "relay migrate with the FROM that it began with"),
}


def migrating(source: Stores) -> bytes:
    """The word of a migration from a store: no other one is copied over what this one began."""
    home = source.engine.home
    place = source.engine.address if home is None else str(home.resolve())
    return MIGRATING + hashlib.sha256(place.encode()).hexdigest()[:16].encode() + b":"


def lock_to_fill(stores: Stores, word: bytes) -> bytes:
    """Lock the store against all others, also against one who began the same before.

    Raises:
        Conflict: it is not empty, and what is in it was not written by the same.
    """
    ledger = stores.ledger
    chance = stores.random_bytes(16).hex().encode()
    found = ledger.locked_by()
    if not found.startswith(word):
        _refuse_unfinished(stores, found)
        if found == UNLOCKED:
            _refuse_content(stores)  # A store that is in use is not locked even for a moment.
        swap_lock(stores, found, LOOKING + chance)
        found = LOOKING + chance
        try:
            _refuse_content(stores)
        except Conflict:
            unlock(stores, found)
            raise
    swap_lock(stores, found, word + chance)
    # Readers look at the lock only now and then (core/stores.py).
    time.sleep(LOCK_TRUSTED_S)
    return word + chance


def unlock(stores: Stores, token: bytes) -> None:
    swap_lock(stores, token, UNLOCKED)


def swap_lock(stores: Stores, old: bytes, new: bytes) -> None:
    if not stores.ledger.swap_lock(old, new):
        raise Conflict("another began to fill this store", "let that one finish")


def clear(stores: Stores) -> None:
    """Erase what is in a locked store; the lock, in a log of its own, stays."""
    for log in [each for each in walk_logs(stores.ledger, "") if each != RESTORE]:
        stores.ledger.drop(log, expect=stores.ledger.last(log))
    if was_cut_short_before(stores.ledger):
        stores.ledger.commit(Write(RESTORE, rows=(Row(Kind.UNFINISHED, ONLY, None),)))


def was_cut_short_before(ledger: Reads) -> bool:
    """Whether an earlier version's restore was cut short: it left a row that kept nobody out."""
    return ledger.get(RESTORE, Kind.UNFINISHED, ONLY) is not None


def _refuse_content(stores: Stores) -> None:
    if any(log != RESTORE for log in stores.ledger.logs("", "", 2)):
        raise Conflict(
            "the store is not empty",
            "fill a new one: relay --store ADDRESS restore FILE, relay migrate FROM ADDRESS; a "
            "migration goes on only into what --keep-locked left locked",
            place=stores.engine.address,
        )


def _refuse_unfinished(stores: Stores, found: bytes) -> None:
    for word, (name, again) in _UNFINISHED.items():
        if found.startswith(word):
            raise Conflict(
                f"a {name} into this store is not finished",
                f"finish it: {again}; or give it up: "
                f"relay --store {stores.engine.address} restore --abandon",
                place=stores.engine.address,
            )
