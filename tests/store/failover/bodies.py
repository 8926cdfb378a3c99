"""Pushes of bodies of every storage class, and a check of each acknowledged one by its hash.

Rule: every body has a name and a content of its own. Every second push is retried with one
idempotency key until it is acknowledged; the others are sent once.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import Literal

from msgspec import Struct

from contextrelay import Relay, Unconfirmed
from contextrelay.errors import RelayError, Unavailable
from contextrelay.limits import CHUNK_BYTES, LIST_ITEMS_MAX, ROW_BODY_BYTES_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.verbs import Push, ReadSignals
from tests.rigs import BodyCount
from tests.store.failover.writing import Put

BodyClass = Literal["row", "blob", "pieces", "parts"]
"""A ledger row; a blob of one piece; a blob that is streamed in pieces; a list of bodies."""
CLASSES: tuple[BodyClass, ...] = ("row", "blob", "blob", "pieces", "parts")
_SIZES_BYTES: dict[BodyClass, tuple[int, int]] = {
    "row": (1, ROW_BODY_BYTES_MAX),
    "blob": (84_000, 90_000),
    "pieces": (2 * CHUNK_BYTES + 1, 4 * CHUNK_BYTES),
    "parts": (84_000, 90_000),
}
ATTEMPTS_MAX = 20
CHANNEL = "pushed"
"""Each push is signalled here, once."""


class Acknowledged(Struct, frozen=True):
    """A push that was acknowledged."""

    body_class: BodyClass
    ref: str
    sha256: str


def body_of(body_class: BodyClass, name: str) -> bytes:
    """Return the body of a name, the same each time."""
    chance = Random(name)
    return chance.randbytes(chance.randint(*_SIZES_BYTES[body_class]))


class BodyPushes:
    """The pushes of a run, by name."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._lock = threading.Lock()
        self.acknowledged: dict[str, Acknowledged] = {}

    def pushing(self, relay: Relay) -> Put:
        """Return what pushes a body over a relay, of one class after the other."""
        numbers = count()

        def put(name: str) -> int:
            number = next(numbers)
            body_class = CLASSES[number % len(CLASSES)]
            is_retried = number // len(CLASSES) % 2 == 0
            self._push(relay, body_class, f"{self._seed}.{name}", is_retried)
            return number

        return put

    def check(self, relay: Relay) -> dict[str, BodyCount]:
        """Pull every acknowledged body, and count those that are missing, changed or doubled.

        A push that is signalled twice counts as doubled, one that is not signalled as lost.
        """
        signals = Counter(signalled(relay))
        counts: dict[str, BodyCount] = {body_class: BodyCount() for body_class in CLASSES}
        named = Counter(artifact.name for artifact in listed(relay))
        for name, pushed in self.acknowledged.items():
            found = counts[pushed.body_class]
            found.acknowledged += 1
            is_there = _digest(relay, pushed.ref) == pushed.sha256
            found.lost += not (is_there and signals[pushed.ref])
            found.doubled = (found.doubled or 0) + max(named[name], signals[pushed.ref]) - 1
        return counts

    def _push(self, relay: Relay, body_class: BodyClass, name: str, is_retried: bool) -> None:
        body = body_of(body_class, name)
        parts: tuple[str, ...] = ()
        if body_class == "parts":
            firsts = [body_of("row", f"{name} 0"), body_of("blob", f"{name} 1")]
            parts = tuple(
                _pushed(relay, each, f"{name} {index}", (), is_retried).ref
                for index, each in enumerate(firsts)
            )
            whole = b"".join((*firsts, body))
        else:
            whole = body
        sent = _chunks(body) if body_class == "pieces" else lambda: body
        artifact = _pushed(relay, sent, name, parts, is_retried, CHANNEL)
        sha256 = hashlib.sha256(whole).hexdigest()
        assert artifact.sha256 == sha256, f"{name} was acknowledged with another hash"
        with self._lock:
            self.acknowledged[name] = Acknowledged(body_class, artifact.ref, sha256)


def _pushed(
    relay: Relay,
    body: bytes | Callable[[], bytes | Iterator[bytes]],
    name: str,
    parts: tuple[str, ...],
    is_retried: bool,
    channel: str | None = None,
) -> Artifact:
    push = Push(name=name, ttl_s=None, parts=parts, channel=channel)
    key = f"key of {name}" if is_retried else ""
    for attempt in count():
        try:
            return relay.transport.ask(push, body() if callable(body) else body, key)
        except (Unavailable, Unconfirmed):
            if not is_retried or attempt == ATTEMPTS_MAX:
                raise
    raise AssertionError


def _chunks(body: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: (body[start : start + 50_000] for start in range(0, len(body), 50_000))


def _digest(relay: Relay, ref: str) -> str:
    try:
        return hashlib.sha256(relay.pull(ref)).hexdigest()
    except RelayError as error:
        return f"{type(error).__name__}: {error}"


def listed(relay: Relay) -> Iterator[Artifact]:
    """Every artifact of a store."""
    page = relay.list(limit=LIST_ITEMS_MAX)
    yield from page.artifacts
    while page.next:
        page = relay.list(limit=LIST_ITEMS_MAX, after=page.next)
        yield from page.artifacts


def signalled(relay: Relay) -> Iterator[str]:
    """The ref of every signal of the channel."""
    after = 0
    while page := relay.transport.ask(ReadSignals(CHANNEL, after, LIST_ITEMS_MAX)).signals:
        yield from (signal.ref for signal in page if signal.ref)
        after = page[-1].seq
