"""Lines: where those of a body begin, found once and kept beside it.

The log `b/<sha256>` of a body has a row `lines` with the marks of its content, which never changes
under its hash: so the row is never wrong. It goes with the log.

Rule: it is a shortcut. Where it cannot be read or written, lines are found by reading.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec import DecodeError
from msgspec.msgpack import Decoder, Encoder

from contextrelay.core.artifacts.bodies import opener
from contextrelay.core.schema import Kind, body_log
from contextrelay.core.stores import Stores
from contextrelay.errors import Full, Refused, Unavailable
from contextrelay.limits import CHUNK_BYTES
from contextrelay.logic.slicing.line_offsets import Marks, find_marks
from contextrelay.model.artifact import Artifact
from contextrelay.store.ledger import ONLY, Row, Stale, Write

_encoder = Encoder()
_decoder = Decoder(Marks)


def marks_of(stores: Stores, artifact: Artifact) -> Marks:
    """The marks of an artifact's body."""
    log = body_log(artifact.sha256)
    row = stores.ledger.get(log, Kind.LINES, ONLY)
    if row is not None:
        with suppress(DecodeError):
            return _decoder.decode(row)
    # Read before the body: where it is freed meanwhile, nothing is written.
    head = stores.ledger.last(log)
    chunks = opener(stores, artifact.sha256, artifact.size_bytes, 0, artifact.size_bytes)
    marks = find_marks(chunks(CHUNK_BYTES), artifact.size_bytes)
    with suppress(Stale, Full, Unavailable, Refused):
        kept = Row(Kind.LINES, ONLY, _encoder.encode(marks))
        stores.ledger.commit(Write(log, rows=(kept,), expect=head))
    return marks
