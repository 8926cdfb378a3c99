"""A cache in memory: values by key, limited in number, in bytes or in both.

Rule: a cache only saves time. Any entry can be dropped at any moment.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """Values by key, limited in number, in bytes or in both; the oldest are dropped first.

    The newest value is never dropped, however large it is.
    """

    def __init__(self, items_max: int | None, bytes_max: int | None = None) -> None:
        self._items_max = items_max
        self._bytes_max = bytes_max
        self._kept: dict[Key, tuple[Value, int]] = {}
        self._size_bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size_bytes(self) -> int:
        """Return the total size of the values when they were stored."""
        return self._size_bytes

    def get(self, key: Key) -> Value | None:
        kept = self._kept.get(key)
        return None if kept is None else kept[0]

    def keep(self, key: Key, value: Value, size_bytes: int = 0) -> None:
        """Store a value as the newest, replacing one with the same key."""
        with self._lock:
            self._take_out(key)
            self._kept[key] = value, size_bytes
            self._size_bytes += size_bytes
            while len(self._kept) > 1 and self._is_over():
                self._take_out(next(iter(self._kept)))

    def drop(self, key: Key) -> None:
        with self._lock:
            self._take_out(key)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._kept.clear()
            self._size_bytes = 0

    def _take_out(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size_bytes -= kept[1]

    def _is_over(self) -> bool:
        if self._items_max is not None and len(self._kept) > self._items_max:
            return True
        return self._bytes_max is not None and self._size_bytes > self._bytes_max
