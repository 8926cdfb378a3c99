"""Access: the store as the holder of a key has it, and the one place where a verb is let in.

`seen_by` makes the stores that a key sees: the space of its tenant (tenants.py), and of that only
what its prefixes name (visibility.py). Every verb asked of such stores passes `Caller.admit`, which
decides by access/permissions.py, and its reply passes `shown`. The owner, who opened the
store, has no caller and passes nothing.

Rule: a door finds out whose request it is; here that is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from contextrelay.access import Touched, complaint
from contextrelay.core.access.keys import current_key, key_in, key_row
from contextrelay.core.access.quotas import Quota
from contextrelay.core.access.rates import rate_of
from contextrelay.core.access.tenants import space_of
from contextrelay.core.access.visibility import VisibleLedger
from contextrelay.core.idempotency import was_asked
from contextrelay.core.schema import known_refs, tenants
from contextrelay.core.stores import Count, Stores
from contextrelay.errors import Forbidden
from contextrelay.model.artifact import Artifact
from contextrelay.model.key import Key, key_id_in
from contextrelay.model.reports import Listing
from contextrelay.verbs import (
    BeginPipeline,
    Body,
    GiveHandoff,
    ImportThread,
    PushMany,
    Stream,
    Verb,
)

Reply = TypeVar("Reply")
Answering = Callable[[Stores, Any, Body], Any]

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


def spaces(stores: Stores) -> list[Stores]:
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
