"""Held bodies: small ones that were pulled, at hand for the next time.

Rule: a body never changes under its hash, but whether its ref still lives is the server's to say:
it is asked every time, and only the bytes are spared.
"""

from __future__ import annotations

import threading
from typing import Any

from contextrelay.limits import HELD_BYTES_MAX, HELD_REFS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.wire.verbs import Pull, Verb


class Held:
    """Bodies by hash, and which ref has which; the oldest are let go first."""

    def __init__(self) -> None:
        self._artifacts: dict[str, Artifact] = {}
        self._bodies: dict[str, bytes] = {}
        self._size_bytes = 0
        self._lock = threading.Lock()

    def get(self, verb: Verb[Any]) -> tuple[Artifact, bytes] | None:
        """What is held of a whole body that is asked for."""
        if not isinstance(verb, Pull) or verb.start or verb.stop is not None:
            return None
        with self._lock:
            artifact = self._artifacts.get(verb.ref)
            body = None if artifact is None else self._bodies.get(artifact.sha256)
        return None if artifact is None or body is None else (artifact, body)

    def keep(self, verb: Pull, artifact: Artifact, body: bytes) -> None:
        if verb.start or len(body) != artifact.size_bytes:
            return
        with self._lock:
            self._artifacts.pop(verb.ref, None)
            self._artifacts[verb.ref] = artifact
            if len(self._artifacts) > HELD_REFS_MAX:
                del self._artifacts[next(iter(self._artifacts))]
            if artifact.sha256 not in self._bodies:
                self._bodies[artifact.sha256] = body
                self._size_bytes += len(body)
            while self._size_bytes > HELD_BYTES_MAX:
                self._size_bytes -= len(self._bodies.pop(next(iter(self._bodies))))
