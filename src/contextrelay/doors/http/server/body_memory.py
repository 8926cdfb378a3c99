"""The shelf: room for bodies that come in pieces and are held in memory until they are whole.

One such body has a bound of its own; this is the bound of all of them together.
"""

from __future__ import annotations

from contextrelay.errors import Unavailable


class Shelf:
    """The room of one server process."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.held_bytes = 0

    def put(self, size_bytes: int) -> None:
        """Make room for a piece.

        Raises:
            Unavailable: there is none.
        """
        if self.held_bytes + size_bytes > self._bytes_max:
            raise Unavailable(
                f"bodies of {self._bytes_max:,} bytes are being sent already", "try again later"
            )
        self.held_bytes += size_bytes

    def clear(self, size_bytes: int) -> None:
        """Give room back."""
        self.held_bytes -= size_bytes
