"""Output: what a command prints, kept until it ends, then stored under one ref.

Rule: memory does not grow with it, and no byte of it is lost. Up to OUTPUT_MEMORY_BYTES are held in
memory, the rest in a file without a name. What is longer than the largest body is stored in parts
as it comes, and joined at the end; where we are killed before that, the parts are there for a day.
The file keeps all of it until the end, so that it can be printed where the store fails.
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
    """A stream of bytes on its way into a store."""

    def __init__(
        self,
        transport: Local | Remote,
        name: str,
        about: str,
        spill: Callable[[bytes], object] | None = None,
    ) -> None:
        """`about` is what its parts have in common: who finds them can put them together.

        `spill`: where the bytes go as soon as the temporary folder has no room for them.
        """
        self._transport = transport
        self._name, self._about, self._spill = name, about, spill
        self._spool: IO[bytes] = BytesIO()
        self._is_file = False
        self._spooled_bytes = 0
        self.size_bytes = 0
        self.is_spilled = False
        """Whether the temporary folder was full: `spill` has had all of it."""
        self._part_bytes_max = BODY_BYTES_MAX
        if isinstance(transport, Local):
            self._part_bytes_max = transport.stores.settings.body_bytes_max
        self._parts: list[str] = []
        self.trouble: RelayError | None = None
        """Why it cannot be stored."""

    def add(self, piece: bytes) -> None:
        """Take in the next piece; what goes wrong is kept in `trouble`."""
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
        """How much of it is in no part yet."""
        return self._spooled_bytes - len(self._parts) * self._part_bytes_max

    def _write(self, piece: bytes) -> None:
        """Add a piece to the spool: all of it, or nothing that counts."""
        if not self._is_file and self._spooled_bytes + len(piece) > OUTPUT_MEMORY_BYTES:
            self._move_to_file()
        self._spool.seek(self._spooled_bytes)
        _write_all(self._spool, piece)
        self._spooled_bytes += len(piece)

    def _move_to_file(self) -> None:
        from tempfile import TemporaryFile

        # Without a buffer: what was written is there, whatever the next write comes to.
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
        """Store the next part. The command goes on, also where that fails."""
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
                raise TooLarge("the output is too long", f"at most {PARTS_MAX} parts are kept")
            chunks = self.chunks(start, start + self._part_bytes_max)
            self._parts.append(self._transport.ask(part, chunks).ref)
        except RelayError as error:
            self._fail(error)

    def store(self, make: Callable[[tuple[str, ...]], Verb[Stored]]) -> Stored:
        """Store all of it by the verb that is made with its parts.

        Raises:
            RelayError: it could not be stored; what became a part expires after a day.
        """
        if self.trouble is not None:
            raise self.trouble
        rest = self.chunks(len(self._parts) * self._part_bytes_max)
        stored = self._transport.ask(make(tuple(self._parts)), rest)
        for ref in self._parts:
            self._transport.ask(Remove(ref))
        return stored

    def whole(self) -> bytes:
        """All of it, in memory: for what is known to be short.

        Raises:
            RelayError: the temporary folder had no room for it.
        """
        if self.is_spilled and self.trouble is not None:
            raise self.trouble
        return b"".join(self.chunks())

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """What is kept, from `start` to `stop`."""
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
    """The error for a temporary folder that does not take what is written."""
    return Full(
        f"the temporary folder cannot hold the output: {error.strerror or error}",
        "make room in it, or set TMPDIR to a folder that has room",
    )
