"""Output: what a command prints, kept until it ends, then stored under one ref.

Rule: memory does not grow with it. Up to OUTPUT_MEMORY_BYTES are held in memory, up to the largest
body in a file without a name; what is longer is stored as a part at once, and joined at the end.
Where we are killed before that, the parts are there for a day; what came after the last is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import IO, TYPE_CHECKING, TypeVar

from contextrelay.client.transport.local import Local
from contextrelay.errors import RelayError, TooLarge
from contextrelay.limits import BODY_BYTES_MAX, CHUNK_BYTES, DAY_S, OUTPUT_MEMORY_BYTES, PARTS_MAX
from contextrelay.wire.verbs import Push, Remove, Verb

if TYPE_CHECKING:
    from contextrelay.client.transport.remote import Remote

Stored = TypeVar("Stored")


class Output:
    """A stream of bytes on its way into a store."""

    def __init__(self, transport: Local | Remote, name: str, about: str) -> None:
        """`about` is what its parts have in common: who finds them can put them together."""
        self._transport = transport
        self._name, self._about = name, about
        self._spool: IO[bytes] = BytesIO()
        self._is_file = False
        self._spooled_bytes = 0
        self.size_bytes = 0
        self._part_bytes_max = BODY_BYTES_MAX
        if isinstance(transport, Local):
            self._part_bytes_max = transport.stores.settings.body_bytes_max
        self._parts: list[str] = []
        self.trouble: RelayError | None = None
        """Why a part could not be stored; what comes after that is not kept."""

    def add(self, piece: bytes) -> None:
        """Take in the next piece."""
        self.size_bytes += len(piece)
        while len(piece) > (room := self._part_bytes_max - self._spooled_bytes):
            self._write(piece[:room])
            piece = piece[room:]
            self._store_part()
        self._write(piece)

    def _write(self, piece: bytes) -> None:
        if self.trouble is None:
            if not self._is_file and self._spooled_bytes + len(piece) > OUTPUT_MEMORY_BYTES:
                self._move_to_file()
            self._spool.write(piece)
            self._spooled_bytes += len(piece)

    def _move_to_file(self) -> None:
        from tempfile import TemporaryFile

        file = TemporaryFile()  # noqa: SIM115 (until close)
        file.writelines(self._chunks())
        self._spool, self._is_file = file, True

    def _store_part(self) -> None:
        """Store what is here as a part. The command goes on, also where that fails."""
        number = len(self._parts) + 1
        part = Push(
            name=f"part {number} of {self._name}",
            type="binary",
            metadata={"part": number, "of": self._about},
            ttl_s=DAY_S,
        )
        try:
            if len(self._parts) == PARTS_MAX:
                raise TooLarge("the output is too long", f"at most {PARTS_MAX} parts are kept")
            self._parts.append(self._transport.ask(part, self._chunks()).ref)
        except RelayError as error:
            self.trouble = error
        self._spool.seek(0)
        self._spool.truncate()
        self._spooled_bytes = 0

    def store(self, make: Callable[[tuple[str, ...]], Verb[Stored]]) -> Stored:
        """Store it by the verb that is made with its parts.

        Raises:
            RelayError: it could not be stored; what became a part expires after a day.
        """
        stored = self._transport.ask(make(tuple(self._parts)), self._chunks())
        for ref in self._parts:
            self._transport.ask(Remove(ref))
        return stored

    def whole(self) -> bytes:
        """All of it, where it has no parts."""
        return b"".join(self._chunks())

    def _chunks(self) -> Iterator[bytes]:
        self._spool.seek(0)
        left = self._spooled_bytes
        while left > 0 and (chunk := self._spool.read(min(CHUNK_BYTES, left))):
            yield chunk
            left -= len(chunk)

    def close(self) -> None:
        self._spool.close()
