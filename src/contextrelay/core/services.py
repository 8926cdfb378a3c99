"""Beside: what stands beside a ledger and is opened when it is first needed.

The search index and the counting of savings are such things: all views of the same stores share
them, and they are closed with the stores.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar


class Closed(Protocol):
    """Something that is closed once."""

    def close(self) -> None: ...


Thing = TypeVar("Thing", bound=Closed)


class Beside:
    """Things by name, each made once."""

    def __init__(self) -> None:
        self._things: dict[str, Any] = {}
        self._lock = threading.Lock()

    def get(self, name: str, make: Callable[[], Thing]) -> Thing:
        """The thing of a name, made now if it is not there yet."""
        found = self._things.get(name)
        if found is None:
            with self._lock:
                found = self._things.get(name)
                if found is None:
                    found = self._things[name] = make()
        return found

    def has(self, name: str) -> bool:
        return name in self._things

    def close(self) -> None:
        """Close everything; what is asked for after that is made again."""
        with self._lock:
            things, self._things = self._things, {}
        for thing in things.values():
            thing.close()
