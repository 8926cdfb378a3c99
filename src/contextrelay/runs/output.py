"""The output of a command, which is collected until the command ends, and then stored under one
ref.

Rule: memory use does not grow with the output, and no byte is lost. Up to OUTPUT_MEMORY_BYTES are
held in memory, and the rest is in an unnamed file. Output over the largest body size is stored in
parts as it arrives, and joined at the end. If the process is killed before, the parts exist for a
day. The file keeps the whole output until the end, so that the output can be printed if the store
fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import IO, TYPE_CHECKING, TypeVar

from contextrelay.client.transport.local import Local
from contextrelay.errors import Full, RelayError, TooLarge
from contextrelay.limits import BODY_BYTES_MAX, CHUNK_BYTES, DAY_S, OUTPUT_MEMORY_BYTES, PARTS_MAX
from contextrelay.verbs import Push, Remove, Verb

if TYPE_CHECKING:
    from contextrelay.client.transport.remote import Remote

Stored = TypeVar("Stored")


class StoredOutput:
    """A stream of bytes that is stored while it arrives."""

    def __init__(
        self,
        transport: Local | Remote,
        name: str,
        about: str,
        spill: Callable[[bytes], object] | None = None,
    ) -> None:
        """Create an empty output. `about` is put into the metadata of all parts, so that they can
        be found.

        `spill` is called with the bytes once the temporary folder is full.
        """
        self._transport = transport
        self._name, self._about, self._spill = name, about, spill
        self._spool: IO[bytes] = BytesIO()
        self._is_file = False
        self._spooled_bytes = 0
        self.size_bytes = 0
        self.is_spilled = False
        """True if the temporary folder was full, so that `spill` has received everything."""
        self._part_bytes_max = BODY_BYTES_MAX
        if isinstance(transport, Local):
            self._part_bytes_max = transport.stores.settings.body_bytes_max
        self._parts: list[str] = []
        self.trouble: RelayError | None = None
        """The error that prevents storing the output, or None."""

    def add(self, piece: bytes) -> None:
        """Append the next piece. If this fails, the error is stored in `trouble`."""
        self.size_bytes += len(piece)
        if not self.is_spilled:
            try:
                self._write(piece)
            except OSError as error:
                self._fail(no_room(error))
                self._spill_all()
        if self.is_spilled:
            self._pass_on(piece)
            return
        while self.trouble is None and self._rest_bytes > self._part_bytes_max:
            self._store_part()

    @property
    def _rest_bytes(self) -> int:
        """Return the number of bytes that are not in a stored part yet."""
        return self._spooled_bytes - len(self._parts) * self._part_bytes_max

    def _write(self, piece: bytes) -> None:
        """Append a piece to the buffer or the file, completely or not at all."""
        if not self._is_file and self._spooled_bytes + len(piece) > OUTPUT_MEMORY_BYTES:
            self._move_to_file()
        self._spool.seek(self._spooled_bytes)
        _write_all(self._spool, piece)
        self._spooled_bytes += len(piece)

    def _move_to_file(self) -> None:
        from tempfile import TemporaryFile

        # The file is unbuffered, so bytes that were written stay written if a later write fails.
        file = TemporaryFile(buffering=0)  # noqa: SIM115 (until close)
        try:
            for chunk in self.chunks():
                _write_all(file, chunk)
        except OSError:
            file.close()
            raise
        self._spool, self._is_file = file, True

    def _spill_all(self) -> None:
        self.is_spilled = True
        for chunk in self.chunks():
            self._pass_on(chunk)
        self._spool.close()

    def _pass_on(self, chunk: bytes) -> None:
        if self._spill is not None:
            self._spill(chunk)

    def _fail(self, error: RelayError) -> None:
        self.trouble = self.trouble or error

    def _store_part(self) -> None:
        """Store the next part. If this fails, the command continues."""
        number = len(self._parts) + 1
        part = Push(
            name=f"part {number} of {self._name}",
            type="binary",
            metadata={"part": number, "of": self._about},
            ttl_s=DAY_S,
        )
        start = len(self._parts) * self._part_bytes_max
        try:
            if len(self._parts) == PARTS_MAX:
                raise TooLarge("the output is too long", f"the limit is {PARTS_MAX} parts")
            chunks = self.chunks(start, start + self._part_bytes_max)
            self._parts.append(self._transport.ask(part, chunks).ref)
        except RelayError as error:
            self._fail(error)

    def store(self, make: Callable[[tuple[str, ...]], Verb[Stored]]) -> Stored:
        """Store the whole output, and return the reply of the store. `make` makes the verb from the
        stored parts.

        Raises:
            RelayError: the output could not be stored; its parts expire after a day.
        """
        if self.trouble is not None:
            raise self.trouble
        rest = self.chunks(len(self._parts) * self._part_bytes_max)
        stored = self._transport.ask(make(tuple(self._parts)), rest)
        for ref in self._parts:
            self._transport.ask(Remove(ref))
        return stored

    def whole(self) -> bytes:
        """Return the whole output as bytes, for output that is known to be short.

        Raises:
            RelayError: the temporary folder had no room for the output.
        """
        if self.is_spilled and self.trouble is not None:
            raise self.trouble
        return b"".join(self.chunks())

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield the collected bytes from offset `start` up to `stop`."""
        self._spool.seek(start)
        left = (self._spooled_bytes if stop is None else stop) - start
        while left > 0 and (chunk := self._spool.read(min(CHUNK_BYTES, left))):
            yield chunk
            left -= len(chunk)

    def close(self) -> None:
        self._spool.close()


def _write_all(file: IO[bytes], piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[file.write(view) :]


def no_room(error: OSError) -> Full:
    """Return the error for a temporary folder that cannot be written."""
    return Full(
        f"cannot write the output to the temporary folder: {error.strerror or error}",
        "free some space in it, or set TMPDIR to another folder",
    )
