"""Acts: a seeded mix of verbs on one relay, reported before and after each.

Rule: an entry is written only once the verb has returned. What it says has to survive anything.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from random import Random

from contextrelay import Relay
from contextrelay.limits import ROW_BODY_BYTES_MAX
from contextrelay.model.artifact import Artifact, to_ms
from contextrelay.store.blobs.objects import OBJECT_PART_BYTES
from contextrelay.verbs import Push
from tests.crash.report import Entry, Mine, What
from tests.crash.thread_acts import ThreadActs

POOL_BODIES = 24
"""Bodies that every writer pushes again and again: the same content held, freed and held anew."""
DAY_S = 86_400
TTLS_S: tuple[int | None, ...] = (1, 1, DAY_S, DAY_S, None)
MINE_MAX = 60


def small_body(number: int) -> bytes:
    chance = Random(number)
    return chance.randbytes(chance.randrange(1, 3_000))


def row_body(number: int) -> bytes:
    """A body of nearly the most that is kept in the ledger itself: many pages of it."""
    chance = Random(number)
    return chance.randbytes(chance.randrange(20_000, 32_768))


def large_body(number: int) -> bytes:
    """A body that is kept as a file."""
    chance = Random(number)
    return chance.randbytes(chance.randrange(40_000, 300_000))


def pool_body(number: int) -> bytes:
    kind = (small_body, row_body, large_body)[number % 3]
    return kind(number)


class Acts:
    """One writer's doings; `mine` is kept up to date."""

    def __init__(
        self, relay: Relay, seed: int, report: Callable[[Entry], None], mine: Mine
    ) -> None:
        self._relay = relay
        self._chance = Random(seed)
        self._report = report
        self._mine = mine.refs
        threads = ThreadActs(relay, self._chance, report, mine.threads)
        self._weights: dict[Callable[[], None], int] = {
            self.push_small: 20,
            self.push_row: 6,
            self.push_large: 8,
            self.push_again: 22,
            self.push_stream: 8,
            self.push_parts: 4,
            self.push_many: 4,
            self.pin: 5,
            self.extend: 5,
            self.remove: 14,
            self.sweep: 5,
            **threads.weights,
        }
        if os.environ.get("RELAY_BLOBS"):
            self._weights[self.push_objects] = 3

    def one(self) -> None:
        """Do one thing."""
        if len(self._mine) > MINE_MAX:
            self.remove()
        acts, weights = tuple(self._weights), tuple(self._weights.values())
        self._chance.choices(acts, weights)[0]()

    def push_small(self) -> None:
        self._push(small_body(self._new_number()))

    def push_row(self) -> None:
        self._push(row_body(self._new_number()))

    def push_large(self) -> None:
        self._push(large_body(self._new_number()))

    def push_again(self) -> None:
        self._push(pool_body(self._chance.randrange(POOL_BODIES)))

    def push_stream(self) -> None:
        body = self._chance.choice((small_body, large_body))(self._new_number())
        self._push(body, in_chunks=True)

    def push_parts(self) -> None:
        number = self._new_number()
        first, second, end = row_body(number), large_body(number + 1), small_body(number + 2)
        parts = tuple(self._push(body, ttl_s=DAY_S) for body in (first, second))
        self._report(Entry("push"))
        push = Push(parts=parts, ttl_s=DAY_S)
        self._pushed(first + second + end, self._relay.transport.ask(push, end), "parts")

    def push_objects(self) -> None:
        """Push what takes several objects."""
        self._push(Random(self._new_number()).randbytes(OBJECT_PART_BYTES + 1), as_class="objects")

    def push_many(self) -> None:
        bodies = [pool_body(self._chance.randrange(POOL_BODIES)) for _ in range(3)]
        bodies += [small_body(self._new_number()) for _ in range(5)]
        ttl_s = self._chance.choice(TTLS_S)
        self._report(Entry("push"))
        for body, artifact in zip(
            bodies,
            self._relay.push_many([(body, {"ttl_s": ttl_s}) for body in bodies]),
            strict=True,
        ):
            self._pushed(body, artifact)

    def pin(self) -> None:
        if ref := self._any_of_mine("pin"):
            self._relay.pin(ref)
            self._report(Entry("pin", is_done=True, ref=ref))

    def extend(self) -> None:
        if ref := self._any_of_mine("extend"):
            ttl_s = self._chance.randrange(2 * DAY_S, 9 * DAY_S)
            expires_ms = _expires_ms(self._relay.extend(ref, ttl_s))
            self._report(Entry("extend", is_done=True, ref=ref, expires_ms=expires_ms))

    def remove(self) -> None:
        if ref := self._any_of_mine("remove"):
            self._relay.remove(ref)
            self._mine.remove(ref)
            self._report(Entry("remove", is_done=True, ref=ref))

    def sweep(self) -> None:
        self._report(Entry("sweep"))
        self._relay.sweep()
        self._report(Entry("sweep", is_done=True))

    def _push(
        self,
        body: bytes,
        in_chunks: bool = False,
        ttl_s: int | None = 0,
        as_class: str = "",
    ) -> str:
        """Push and report; 0 stands for any lease."""
        ttl_s = self._chance.choice(TTLS_S) if ttl_s == 0 else ttl_s
        self._report(Entry("push"))
        sent = _chunks(body) if in_chunks else body
        is_large = len(body) > ROW_BODY_BYTES_MAX
        as_class = as_class or ("row" if not is_large else "pieces" if in_chunks else "blob")
        artifact = self._relay.push(sent, ttl_s=ttl_s)
        self._pushed(body, artifact, as_class)
        return artifact.ref

    def _pushed(self, body: bytes, artifact: Artifact, body_class: str = "") -> None:
        body_class = body_class or ("blob" if len(body) > ROW_BODY_BYTES_MAX else "row")
        if artifact.ttl_s != 1:
            # The short-lived are nobody's: they may expire under the feet of who changes them.
            self._mine.append(artifact.ref)
        sha256 = hashlib.sha256(body).hexdigest()
        expires_ms = _expires_ms(artifact)
        self._report(
            Entry(
                "push",
                is_done=True,
                ref=artifact.ref,
                sha256=sha256,
                body_class=body_class,
                expires_ms=expires_ms,
            )
        )

    def _any_of_mine(self, what: What) -> str | None:
        if not self._mine:
            return None
        ref = self._chance.choice(self._mine)
        self._report(Entry(what, ref=ref))
        return ref

    def _new_number(self) -> int:
        return self._chance.getrandbits(48) + POOL_BODIES


def _chunks(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 20_000):
        yield body[start : start + 20_000]


def _expires_ms(artifact: Artifact) -> int | None:
    return None if artifact.expires_at is None else to_ms(artifact.expires_at)
