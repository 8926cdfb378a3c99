"""Idempotency: a request that has a key is done once, however often it is asked, crash or not.

The log `o/<hash of the key>` has a row `asked`: what was asked, and a seed. It is the first write
of the request's first commit, so that nothing is done under a key before that is written down. A
retry finds it. Refs and thread ids are made of the seed, so they are the same again, and what is
there already is found under them; a change to a log is found by the row `once` in the same write.
Draws that must never repeat, like the names of blobs, are not made of it.

Rule: a row `once` outlives the row `asked` that leads to it, and has an id made of its seed. So a
key is either known with all that was done under it, or forgotten, and then asks for something new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct, msgpack
from msgspec.json import Encoder
from msgspec.structs import replace

from contextrelay.core.schema import UNREADABLE, RowKind, request_log
from contextrelay.core.stores import Stores
from contextrelay.documents.bounds import check_idempotency_key
from contextrelay.errors import (
    Broken,
    Gone,
    Invalid,
    NotFound,
    Refused,
    RelayError,
    Unavailable,
)
from contextrelay.limits import KEY_KEPT_S, RETRIES_MAX, UNFINISHED_PUSH_S
from contextrelay.model.ref import new_ref
from contextrelay.store.ledger import ONLY, Ledger, Reads, Row, Stale, Write
from contextrelay.store.ledger.view import LedgerView
from contextrelay.verbs import Body, Verb

Reply = TypeVar("Reply")

# Deterministic: the same request is spelled the same by every client.
_encoder = Encoder(order="deterministic")


class Once(Struct, frozen=True):
    """A request that has a key: what its ids are made of, and whether it was asked before."""

    log: str
    seed: bytes
    at_ms: int
    """When it was first asked."""
    is_again: bool
    part: str = ""
    """Which of its steps, where each has to be done once."""
    takes_any: bool = False
    """Whether the body of a first time stands in for this one's: where running again makes it."""

    @property
    def id(self) -> str:
        """What its rows are called."""
        return self._made("once").hex()

    def ref(self, what: str) -> str:
        """The same for the same seed, step and purpose; to be guessed by nobody."""
        return new_ref(self._made(f"ref {what}"))

    def _made(self, what: str) -> bytes:
        named = f"{self.part}|{what}".encode()
        return hashlib.blake2b(named, key=self.seed, digest_size=16).digest()


# While a request is answered


def step(stores: Stores, part: str, takes_any: bool = False) -> Stores:
    """Stores for one step of a request, with ids and rows of its own; the same without a key."""
    once = stores.once
    if once is None:
        return stores
    return replace(stores, once=replace(once, part=f"{once.part}/{part}", takes_any=takes_any))


def once_rows(stores: Stores, answer: bytes) -> tuple[Row, ...]:
    """Rows for the write that does it, with the answer for a retry; none without a key."""
    if stores.once is None:
        return ()
    due_ms = stores.once.at_ms + (KEY_KEPT_S + UNFINISHED_PUSH_S) * 1000
    return (Row(RowKind.ONCE, stores.once.id, answer, due_ms),)


def answered_before(stores: Stores, log: str) -> bytes | None:
    """What was written with the change to a log, if this request has made it already."""
    if stores.once is None:
        return None
    found = stores.ledger.get(log, RowKind.ONCE, stores.once.id)
    if found is None:
        return None
    stores.ledger.confirm(log)
    # Read again: a fail-over may have taken back what was read before it.
    return stores.ledger.get(log, RowKind.ONCE, stores.once.id)


def reply_before(stores: Stores) -> bytes | None:
    """The reply that an earlier time of this request has kept, if it got that far."""
    return None if stores.once is None else answered_before(stores, stores.once.log)


def keep_reply(stores: Stores, reply: bytes) -> bytes:
    """Keep a reply that could not be made again the same; the one to give: the first that is kept.

    Nothing is kept without a key.
    """
    if stores.once is not None:
        # The log has one fact, from when it was asked; the second is the first reply.
        rows = once_rows(stores, reply)
        try:
            stores.ledger.commit(Write(stores.once.log, (b"",), rows, expect=1))
        except Stale:
            return reply_before(stores) or reply
    return reply


def may_go_on(stores: Stores, error: RelayError) -> bool:
    """Whether the same request, asked again or at the same time, may go on where this one failed.

    What is stored so far is then left to it, or else to a sweep.
    """
    return stores.once is not None and not isinstance(error, Invalid | NotFound | Gone)


def other_request() -> Refused:
    """The error for a key that was used for something else."""
    return Refused("this key was used for another request", "use a new key for a new request")


# Requests with a key


def answer_once(
    stores: Stores,
    verb: Verb[Reply],
    body: Body,
    key: str,
    function: Callable[[Stores, Any, Body], Reply],
) -> Reply:
    """Answer a verb that has a key: do it, or find what was done.

    Raises:
        Invalid: it cannot be a key.
        Refused: the key was used for another request.
        Unavailable: the same is being done just now.
    """
    check_idempotency_key(key)
    if not verb.traits.keyed:
        return function(stores, verb, body)
    log = _log(None if stores.caller is None else stores.caller.key.id, key)
    digest = hashlib.sha256(type(verb).__name__.encode() + _encoder.encode(verb)).digest()
    for _ in range(RETRIES_MAX):
        asked = _find_asked(stores.ledger, log)
        if asked is not None and asked.digest != digest:
            raise other_request()
        fresh = _Asked(digest, stores.random_bytes(32), stores.now_ms())
        here = asked or fresh
        once = Once(log, here.seed, here.at_ms, is_again=asked is not None)
        if asked is not None:
            return function(replace(stores, once=once), verb, body)
        claiming = _Claiming(stores.ledger, log, fresh)
        engine = replace(stores.engine, ledger=claiming)
        try:
            return function(replace(stores, engine=engine, once=once), verb, body)
        except Unavailable:
            # Another was first. Nothing was done here; a body that streams is used up, though.
            if not claiming.is_late or not isinstance(body, bytes):
                raise
    raise Unavailable("others keep asking with this key", "ask again")


def was_asked(stores: Stores, caller: str, key: str) -> bool:
    """Whether the holder of an access key has asked something with an idempotency key before."""
    return _find_asked(stores.ledger, _log(caller, key)) is not None


def _log(caller: str | None, key: str) -> str:
    # Keys of different callers never meet: a new line is in none of them.
    named = key if caller is None else f"{caller}\n{key}"
    return request_log(hashlib.sha256(named.encode()).hexdigest())


class _Asked(Struct, frozen=True):
    """What the first request has written down."""

    digest: bytes
    seed: bytes
    at_ms: int


def _find_asked(ledger: Reads, log: str) -> _Asked | None:
    row = ledger.get(log, RowKind.ASKED, ONLY)
    try:
        return None if row is None else msgpack.decode(row, type=_Asked)
    except UNREADABLE as error:
        raise Broken(f"{log} cannot be read: {error}", "use a new key") from error


class _Claiming(LedgerView):
    """A ledger whose first commit begins by writing down what was asked."""

    def __init__(self, inner: Ledger, log: str, asked: _Asked) -> None:
        super().__init__(inner)
        self.is_late = False
        """Whether another has written it down first."""
        row = Row(RowKind.ASKED, ONLY, msgpack.encode(asked), asked.at_ms + KEY_KEPT_S * 1000)
        self._claim = Write(log, (b"",), (row,), expect=0)
        self._is_claimed = False

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        if self._is_claimed or not writes:
            return self._inner.commit(*writes, id=id)
        try:
            heads = self._inner.commit(self._claim, *writes, id=id)[1:]
        except Stale as stale:
            if stale.log != self._claim.log:
                raise  # The claim was not written either.
            self.is_late = True
            raise Unavailable(
                "the same request is being done just now", "ask again with the same key"
            ) from stale
        self._is_claimed = True
        return heads
