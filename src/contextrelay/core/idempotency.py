"""Idempotency: a request with a key is executed once, however often it is sent, even after a crash.

The log `o/<hash of the key>` has a row `asked` with a hash of the request and a seed. It is the
first write of the request's first commit, so that nothing happens under a key before the request is
recorded. A retry finds it. Refs and thread ids are derived from the seed, so a retry derives the
same ones and finds what is stored under them. A change to a log is found by the row `once` in the
same write. Names that must never repeat, like those of blobs, are not derived from it.

Rule: a row `once` outlives the row `asked` that leads to it, and has an id derived from its seed.
So a key is either known with everything done under it, or forgotten, and then starts a new request.
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

# The encoding is deterministic, so that every client encodes the same request to the same bytes.
_encoder = Encoder(order="deterministic")


class Once(Struct, frozen=True):
    """A request with a key: the seed of its ids, and whether the request was received before."""

    log: str
    seed: bytes
    at_ms: int
    """The time at which the request was first received."""
    is_retry: bool
    part: str = ""
    """The name of the current step of a request whose steps are each done once."""
    takes_any: bool = False
    """Whether a retry may return an earlier result that has a different body.

    This is for steps whose body is created again by each attempt.
    """

    @property
    def id(self) -> str:
        """The id of the rows `once` of this request."""
        return self._derived("once").hex()

    def ref(self, what: str) -> str:
        """Return a ref derived only from the seed, the step and a purpose.

        Nobody can guess the ref.
        """
        return new_ref(self._derived(f"ref {what}"))

    def _derived(self, what: str) -> bytes:
        named = f"{self.part}|{what}".encode()
        return hashlib.blake2b(named, key=self.seed, digest_size=16).digest()


# While a request is answered


def step(stores: Stores, part: str, takes_any: bool = False) -> Stores:
    """Return stores for one step of a request, so that the step has its own ids.

    Without a key, return the same stores.
    """
    once = stores.once
    if once is None:
        return stores
    return replace(stores, once=replace(once, part=f"{once.part}/{part}", takes_any=takes_any))


def outside_request(stores: Stores) -> Stores:
    """Return stores whose commits do not belong to the current request."""
    ledger = stores.ledger
    if isinstance(ledger, _ClaimingLedger):
        stores = replace(stores, engine=replace(stores.engine, ledger=ledger.inner))
    return replace(stores, once=None)


def once_rows(stores: Stores, answer: bytes) -> tuple[Row, ...]:
    """Return the rows to write with a change, so that a retry finds the answer.

    Without a key, there are no rows.
    """
    if stores.once is None:
        return ()
    due_ms = stores.once.at_ms + (KEY_KEPT_S + UNFINISHED_PUSH_S) * 1000
    return (Row(RowKind.ONCE, stores.once.id, answer, due_ms),)


def find_earlier_answer(stores: Stores, log: str) -> bytes | None:
    """Return the answer that an earlier attempt stored with a change to a log, or None."""
    if stores.once is None:
        return None
    found = stores.ledger.get(log, RowKind.ONCE, stores.once.id)
    if found is None:
        return None
    stores.ledger.confirm(log)
    # Read again, because a fail-over may have reverted what was read before.
    return stores.ledger.get(log, RowKind.ONCE, stores.once.id)


def find_earlier_reply(stores: Stores) -> bytes | None:
    """Return the reply that an earlier attempt of this request has stored, or None."""
    return None if stores.once is None else find_earlier_answer(stores, stores.once.log)


def reply_writes(stores: Stores, reply: bytes) -> list[Write]:
    """Return the write that stores a reply which cannot be derived again; none without a key.

    It is stale if the same request, sent in parallel, has stored its reply first.
    """
    if stores.once is None:
        return []
    # Expect head 1: the first fact of the log is the request, and the second is the first reply.
    return [Write(stores.once.log, (b"",), once_rows(stores, reply), expect=1)]


def may_continue(stores: Stores, error: RelayError) -> bool:
    """Return True if a retry, or the same request sent in parallel, may continue after this error.

    Content stored before the error is then left to the retry, or else to a sweep.
    """
    return stores.once is not None and not isinstance(error, Invalid | NotFound | Gone)


def other_request() -> Refused:
    """Return the error for a key that was used for a different request."""
    return Refused(
        "this key was already used for a different request", "use a new key for a new request"
    )


# Requests with a key


def answer_once(
    stores: Stores,
    verb: Verb[Reply],
    body: Body,
    key: str,
    function: Callable[[Stores, Any, Body], Reply],
) -> Reply:
    """Execute a verb that has an idempotency key, or return the result of an earlier attempt.

    Raises:
        Invalid: the key is invalid.
        Refused: the key was used for another request.
        Unavailable: the same request is in progress.
    """
    check_idempotency_key(key)
    if not verb.traits.keyed:
        return function(stores, verb, body)
    log = _log(None if stores.caller is None else stores.caller.key.id, key)
    digest = hashlib.sha256(type(verb).__name__.encode() + _encoder.encode(verb)).digest()
    for _ in range(RETRIES_MAX):
        asked = _find_first_request(stores.ledger, log)
        if asked is not None and asked.digest != digest:
            raise other_request()
        fresh = _FirstRequest(digest, stores.random_bytes(32), stores.now_ms())
        here = asked or fresh
        once = Once(log, here.seed, here.at_ms, is_retry=asked is not None)
        if asked is not None:
            return function(replace(stores, once=once), verb, body)
        claiming = _ClaimingLedger(stores.ledger, log, fresh)
        engine = replace(stores.engine, ledger=claiming)
        try:
            return function(replace(stores, engine=engine, once=once), verb, body)
        except Unavailable:
            # Another attempt was first. This attempt wrote nothing, but a streamed body is
            # consumed.
            if not claiming.is_late or not isinstance(body, bytes):
                raise
    raise Unavailable("too many concurrent requests with this key", "try again")


def is_known_request(stores: Stores, caller: str, key: str) -> bool:
    """Return True if the holder of an access key has used an idempotency key before."""
    return _find_first_request(stores.ledger, _log(caller, key)) is not None


def _log(caller: str | None, key: str) -> str:
    # The names of different callers never collide, because neither a caller nor a key contains a
    # newline.
    named = key if caller is None else f"{caller}\n{key}"
    return request_log(hashlib.sha256(named.encode()).hexdigest())


class _FirstRequest(Struct, frozen=True):
    """The stored record of the first request with a key."""

    digest: bytes
    seed: bytes
    at_ms: int


def _find_first_request(ledger: Reads, log: str) -> _FirstRequest | None:
    row = ledger.get(log, RowKind.ASKED, ONLY)
    try:
        return None if row is None else msgpack.decode(row, type=_FirstRequest)
    except UNREADABLE as error:
        raise Broken(f"cannot read {log}: {error}", "use a new key") from error


class _ClaimingLedger(LedgerView):
    """A ledger whose first commit starts by recording the request with its key."""

    def __init__(self, inner: Ledger, log: str, asked: _FirstRequest) -> None:
        super().__init__(inner)
        self.inner = inner
        self.is_late = False
        """Whether another attempt recorded the request first."""
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
                raise  # The record of the request was not written either.
            self.is_late = True
            raise Unavailable(
                "the same request is in progress", "try again with the same key"
            ) from stale
        self._is_claimed = True
        return heads
