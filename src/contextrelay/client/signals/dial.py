"""Dialing: a WebSocket connection that is made where it was asked for, or not at all."""

from __future__ import annotations

from websockets.sync.client import reconnect


class Dialing(reconnect):
    """A connection; a redirect would lead our key, or our trust, to somebody else."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc
