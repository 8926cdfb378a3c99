"""Quotas: how many bytes of bodies a key may still push, taken where bodies are kept.

Whatever verb brings a body, also one that was packed or that a capability made, it is kept by
core/push/push.py, and there it is taken from the quota of the request. So nothing is stored
uncounted.

Rule: bytes are taken before they are kept, and given back only where nothing of them stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from msgspec.structs import replace

from contextrelay.core.idempotency import may_go_on
from contextrelay.core.schema import key_counters
from contextrelay.core.stores import Stores
from contextrelay.errors import Full, RelayError, Unavailable, Unconfirmed
from contextrelay.model.key import Key
from contextrelay.store.ledger import Ledger
from contextrelay.verbs import Body, PushMany, Verb

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
