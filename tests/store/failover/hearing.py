"""A subscriber that goes on whatever happens to its server or engine, and what it heard."""

from __future__ import annotations

import threading

from contextrelay import Relay, Unconfirmed
from contextrelay.errors import RelayError, Unavailable
from tests.store.waiting import WAIT_S_MAX

Heard = tuple[int, object]


class Hearing:
    """Hears a channel from its first signal on, in a thread of its own: numbers, refs, messages."""

    def __init__(self, relay: Relay, channel: str) -> None:
        self._relay = relay
        self._channel = channel
        self._heard: list[Heard] = []
        self._news = threading.Condition()
        self._wrong: RelayError | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def all(self, count: int) -> list[Heard]:
        """What was heard, once it is so much."""
        with self._news:
            there = self._news.wait_for(
                lambda: len(self._heard) >= count or self._wrong, WAIT_S_MAX
            )
            assert self._wrong is None, self._wrong
            assert there, f"{len(self._heard)} of {count} were heard"
            return list(self._heard)

    def stop(self) -> None:
        """End it before its relay is closed."""
        self._stopped = True
        self._thread.join(WAIT_S_MAX)

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._hear(self._heard[-1][0] if self._heard else 0)
            except (Unavailable, Unconfirmed):
                continue
            except RelayError as error:
                with self._news:
                    self._wrong = error
                    self._news.notify_all()
                return

    def _hear(self, after: int) -> None:
        for each in self._relay.subscribe(self._channel, after=after, timeout_s=0.5):
            with self._news:
                self._heard.append((each.seq, each.ref or each.message))
                self._news.notify_all()
