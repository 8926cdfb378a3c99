"""Slices: a bounded piece of an artifact's body, and what differs between two."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from msgspec.msgpack import Decoder, encode
from msgspec.structs import replace

from contextrelay.bounded.bodies import compare_within_bounds, take_within_bounds
from contextrelay.content.diff.unified import differ
from contextrelay.content.slicing.line_offsets import Marks, find_marks
from contextrelay.content.slicing.slice import asked_of, select, take
from contextrelay.content.slicing.source import Source
from contextrelay.content.tokens import measure
from contextrelay.core.artifacts.bodies import read_body
from contextrelay.core.artifacts.pull import pull
from contextrelay.core.inspect.outline import known_tokens, refuse_sealed
from contextrelay.core.registry import answers
from contextrelay.core.schema import UNREADABLE, Kind, body_log
from contextrelay.core.stores import Stores
from contextrelay.errors import Full, Refused, TooLarge, Unavailable
from contextrelay.limits import DIFF_S_MAX, ROW_BODY_BYTES_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.inspect import Differing, Piece
from contextrelay.model.tokens import TokenCount
from contextrelay.store.ledger import ONLY, Row, Stale, Write
from contextrelay.verbs import Body, DiffRefs, Pull, Slice

_marks = Decoder(Marks)


@answers(Slice)
def slice_one(stores: Stores, verb: Slice, body: Body) -> Piece:
    selector = select(verb, verb.columns)
    artifact = pull(stores, Pull(verb.ref), b"").value
    source = source_of(stores, artifact)
    if selector.way in ("lines", "bytes") and artifact.is_text:
        # No more of the body is read than is shown.
        return take(source, selector, verb.tokens_max)
    asked = asked_of(source, selector, verb.tokens_max, known_tokens(stores, artifact))
    return take_within_bounds(asked, source.read)


def source_at(stores: Stores, ref: str) -> Source:
    """The body of a ref, to be looked into; that is a reading, as a pull is.

    Raises:
        Gone, NotFound: there is none.
        Sealed: its key is not here.
    """
    return source_of(stores, pull(stores, Pull(ref), b"").value)


def source_of(stores: Stores, artifact: Artifact) -> Source:
    """The body of an artifact, to be looked into.

    Raises:
        Sealed: its key is not here.
    """
    refuse_sealed(artifact)
    return Source(
        ref=artifact.ref,
        type=artifact.type,
        media_type=artifact.media_type,
        name=artifact.name,
        is_text=artifact.is_text,
        size_bytes=artifact.size_bytes,
        read=partial(read_body, stores, artifact),
        marks=lambda: marks_of(stores, artifact),
        line_count=artifact.preview.line_count if artifact.is_text else None,
        whole=lambda: _whole(stores, artifact),
        sha256=artifact.sha256,
    )


def _whole(stores: Stores, artifact: Artifact) -> TokenCount | None:
    """How many tokens a body takes, where that is known, or it is small."""
    known = known_tokens(stores, artifact)
    if known is not None or not artifact.is_text or artifact.size_bytes > ROW_BODY_BYTES_MAX:
        return known
    return measure(b"".join(read_body(stores, artifact)).decode(errors="replace"))


def marks_of(stores: Stores, artifact: Artifact) -> Marks:
    """Where lines of an artifact's body begin, found once and kept in a row of its log.

    The content never changes under its hash, so the row is never wrong; where it cannot be read or
    written, lines are found by reading.
    """
    log = body_log(artifact.sha256)
    row = stores.ledger.get(log, Kind.LINES, ONLY)
    if row is not None:
        with suppress(*UNREADABLE):
            return _marks.decode(row)
    # Read before the body: where it is freed meanwhile, nothing is written.
    head = stores.ledger.last(log)
    marks = find_marks(read_body(stores, artifact), artifact.size_bytes)
    with suppress(Stale, Full, Unavailable, Refused):
        kept = Row(Kind.LINES, ONLY, encode(marks))
        stores.ledger.commit(Write(log, rows=(kept,), expect=head))
    return marks


@answers(DiffRefs)
def diff_two(stores: Stores, verb: DiffRefs, body: Body) -> Differing:
    deadline_s = time.monotonic() + DIFF_S_MAX
    old, new = (_read_until(deadline_s, source_at(stores, ref)) for ref in (verb.old, verb.new))
    return differ(old, new, verb.context, verb.tokens_max, compare_within_bounds)


def _read_until(deadline_s: float, source: Source) -> Source:
    """The same source, which raises TooLarge where it is read later than this."""

    def read(start: int, stop: int) -> Iterator[bytes]:
        for chunk in source.read(start, stop):
            if time.monotonic() > deadline_s:
                raise TooLarge(
                    f"reading {source.ref} and the other took more than {DIFF_S_MAX} s: no diff",
                    f"compare parts of them: relay get {source.ref[:8]} --lines 1:1000",
                )
            yield chunk

    return replace(source, read=read)
