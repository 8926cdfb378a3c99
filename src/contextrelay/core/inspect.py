"""Inspection: slices, outlines, digests, token counts, greps and diffs of bodies.

The log `b/<sha256>` has a row `looked` for each type, media type and name suffix that the content
was pushed with, because an outline depends on them, and for each tenant. The rows are deleted with
the content.

Rule: a row is only a cache: if it cannot be read or written, the body is inspected again. A grep is
limited in time and number of artifacts, and the answer says whether it was complete.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice

from msgspec import convert, json, msgpack
from msgspec.structs import replace

from contextrelay.bounded.bodies import (
    diff_within_bounds,
    overview_by_lines,
    overview_within_bounds,
    records_within_bounds,
    slice_within_bounds,
)
from contextrelay.content.diff import diff_bodies
from contextrelay.content.grep.records import RecordQuery, Records
from contextrelay.content.grep.results import GrepQuery, grep_bodies
from contextrelay.content.overview import BodyOverview, OutlineRequest, digested, outlined
from contextrelay.content.slicing.slice import read_piece, selector_of, slice_request
from contextrelay.content.slicing.source import Marks, SliceSource, find_marks
from contextrelay.content.tokens import measure
from contextrelay.core.accounting.usage import usage_of
from contextrelay.core.artifacts.bodies import outline_key, read_body
from contextrelay.core.artifacts.catalog import entries
from contextrelay.core.artifacts.holds import listed
from contextrelay.core.artifacts.pull import pull
from contextrelay.core.artifacts.records import find_readable, has_expired, live
from contextrelay.core.registry import answers
from contextrelay.core.schema import UNREADABLE, RowKind, body_log
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import find_record
from contextrelay.errors import Full, Invalid, Refused, Sealed, TooLarge, Unavailable
from contextrelay.limits import (
    GREP_ARTIFACTS_MAX,
    GREP_ONE_S_MAX,
    GREP_S_MAX,
    LOOK_INLINE_BYTES_MAX,
    OUTLINE_TOKENS_DEFAULT,
    ROW_BODY_BYTES_MAX,
)
from contextrelay.model.artifact import Artifact, is_exchange
from contextrelay.model.inspect import (
    OUTLINE_VERSION,
    CachedOutline,
    Differing,
    Digested,
    Found,
    Outlined,
    Piece,
    Skipped,
)
from contextrelay.model.tokens import TokenCount
from contextrelay.store.ledger import ONLY, Row, Stale, Write
from contextrelay.verbs import Body, DiffRefs, Digest, Grep, Outline, Peek, Pull, Slice

DIFF_S_MAX = 10


@answers(Peek)
def peek(stores: Stores, verb: Peek, body: Body) -> Artifact:
    artifact = live(stores, verb.ref)
    if not verb.is_full:
        return artifact

    return described_fully(stores, artifact)


_marks = msgpack.Decoder(Marks)


@answers(Slice)
def slice_one(stores: Stores, verb: Slice, body: Body) -> Piece:
    selector = selector_of(verb, verb.columns)
    artifact = pull(stores, Pull(verb.ref), b"").value
    source = source_of(stores, artifact)
    if selector.way in ("lines", "bytes") and artifact.is_text:
        # Read only the part of the body that is shown.
        return read_piece(source, selector, verb.tokens_max)
    asked = slice_request(source, selector, verb.tokens_max, known_tokens(stores, artifact))
    return slice_within_bounds(asked, source.read)


def source_at(stores: Stores, ref: str) -> SliceSource:
    """Return the body of a ref for inspection. The call counts as a read, like a pull.

    Raises:
        Gone, NotFound: the artifact does not exist.
        Sealed: the encryption key of the body is not available.
    """
    return source_of(stores, pull(stores, Pull(ref), b"").value)


def source_of(stores: Stores, artifact: Artifact) -> SliceSource:
    """Return the body of an artifact for inspection.

    Raises:
        Sealed: the encryption key of the body is not available.
    """
    refuse_sealed(artifact)
    return SliceSource(
        ref=artifact.ref,
        type=artifact.type,
        media_type=artifact.media_type,
        name=artifact.name,
        is_text=artifact.is_text,
        size_bytes=artifact.size_bytes,
        read=partial(read_body, stores, artifact),
        marks=lambda: marks_of(stores, artifact),
        line_count=artifact.preview.line_count if artifact.is_text else None,
        whole=lambda: _known_tokens(stores, artifact),
        sha256=artifact.sha256,
    )


def _known_tokens(stores: Stores, artifact: Artifact) -> TokenCount | None:
    """Return the token count of a whole body if it is cached or the body is small, or None."""
    known = known_tokens(stores, artifact)
    if known is not None or not artifact.is_text or artifact.size_bytes > ROW_BODY_BYTES_MAX:
        return known
    return measure(b"".join(read_body(stores, artifact)).decode(errors="replace"))


def marks_of(stores: Stores, artifact: Artifact) -> Marks:
    """Return the byte positions at which lines of an artifact's body start.

    They are computed once and cached in a row of the body's log. The content never changes under
    its hash, so the row is never outdated. If the row cannot be read or written, the body is read
    again.
    """
    log = body_log(artifact.sha256)
    row = stores.ledger.get(log, RowKind.LINES, ONLY)
    if row is not None:
        with suppress(*UNREADABLE):
            return _marks.decode(row)
    # Read the head before the body: if the body is freed in the meantime, nothing is written.
    head = stores.ledger.last(log)
    marks = find_marks(read_body(stores, artifact), artifact.size_bytes)
    with suppress(Stale, Full, Unavailable, Refused):
        kept = Row(RowKind.LINES, ONLY, msgpack.encode(marks))
        stores.ledger.commit(Write(log, rows=(kept,), expect=head))
    return marks


@answers(DiffRefs)
def diff_two(stores: Stores, verb: DiffRefs, body: Body) -> Differing:
    deadline_s = time.monotonic() + DIFF_S_MAX
    old, new = (_read_until(deadline_s, source_at(stores, ref)) for ref in (verb.old, verb.new))
    return diff_bodies(old, new, verb.context, verb.tokens_max, diff_within_bounds)


def _read_until(deadline_s: float, source: SliceSource) -> SliceSource:
    """Return a copy of the source that raises TooLarge when it is read after the deadline."""

    def read(start: int, stop: int) -> Iterator[bytes]:
        for chunk in source.read(start, stop):
            if time.monotonic() > deadline_s:
                raise TooLarge(
                    f"no diff: reading {source.ref} and the other body took more than "
                    f"{DIFF_S_MAX} s",
                    f"compare parts of them: relay get {source.ref[:8]} --lines 1:1000",
                )
            yield chunk

    return replace(source, read=read)


@answers(Grep)
def grep(stores: Stores, verb: Grep, body: Body) -> Found:
    if verb.ref is not None and verb.thread is not None:
        raise Invalid("grep takes a ref or a thread, not both", "omit one")
    if verb.after_line and verb.ref is None:
        raise Invalid("after_line requires ref", "pass ref")
    wanted = convert(verb, GrepQuery, from_attributes=True)
    deadline_s = time.monotonic() + (GREP_S_MAX if verb.ref is None else GREP_ONE_S_MAX)
    sources = _sources(stores, verb)
    by_records_s = 0.0

    def by_records(asked: RecordQuery, body: bytes) -> Records:
        """Find matching records in a body.

        When only one ref is searched, the time that this takes is added to the time limit of the
        search by lines.
        """
        nonlocal by_records_s
        began_s = time.monotonic()
        found = records_within_bounds(asked, body)
        by_records_s = time.monotonic() - began_s if verb.ref is not None else 0.0
        return found

    return grep_bodies(
        sources,
        wanted,
        lambda: time.monotonic() > deadline_s + by_records_s,
        is_one=verb.ref is not None,
        by_records=by_records,
    )


def _sources(stores: Stores, verb: Grep) -> Iterator[SliceSource | Skipped]:
    if verb.ref is not None:
        yield source_at(stores, verb.ref)
        return
    now_ms = stores.now_ms()
    for artifact in islice(newest(stores, verb.thread), GREP_ARTIFACTS_MAX):
        if has_expired(artifact, now_ms):
            continue
        if artifact.sealed is not None:
            yield Skipped(ref=artifact.ref, why=f"{artifact.ref[:8]} is sealed")
            continue
        yield source_of(stores, artifact)


def newest(stores: Stores, thread: str | None) -> Iterator[Artifact]:
    """Yield the artifacts of a thread, or of the whole store, newest first."""
    if thread is None:
        found = (find_readable(stores.ledger, entry.ref) for entry in entries(stores.ledger))
        yield from (each for each in found if each is not None and not is_exchange(each))
        return
    find_record(stores.ledger, thread)
    there = [find_readable(stores.ledger, ref) for ref in listed(stores.ledger, thread)]
    known = [each for each in there if each is not None]
    yield from sorted(known, key=lambda each: each.created_at, reverse=True)


_encoder = json.Encoder()
_decoder = json.Decoder(CachedOutline)


@answers(Outline)
def outline_one(stores: Stores, verb: Outline, body: Body) -> Outlined:
    return outlined_within(stores, _readable(stores, verb.ref), verb.tokens_max)


@answers(Digest)
def digest_one(stores: Stores, verb: Digest, body: Body) -> Digested:
    return digested_within(stores, _readable(stores, verb.ref), verb.tokens_max)


def outlined_within(
    stores: Stores, artifact: Artifact, tokens_max: int, is_late: bool = False
) -> Outlined:
    """Return the outline of an artifact within a token limit.

    `is_late`: the deadline has passed, so a large body is outlined by lines, which is faster.
    """
    is_kept = tokens_max == OUTLINE_TOKENS_DEFAULT
    cached, seen = _inspect(stores, artifact, None if is_kept else tokens_max, is_late=is_late)
    return outlined(artifact, cached, seen.outline or cached.outline, seen.note)


def digested_within(
    stores: Stores, artifact: Artifact, tokens_max: int, is_late: bool = False
) -> Digested:
    """Return the digest of an artifact within a token limit.

    `is_late`: the deadline has passed, so a large body is digested by lines, which is faster.
    """
    cached, seen = _inspect(stores, artifact, digest_tokens=tokens_max, is_late=is_late)
    assert seen.digest is not None
    return digested(artifact, cached, seen.digest, seen.note)


def described_fully(stores: Stores, artifact: Artifact) -> Artifact:
    """Return an artifact with its token count and outline; both are None for a sealed artifact."""
    if artifact.sealed is not None:
        return replace(artifact, tokens=None, token_basis="sealed", outline=None)
    cached = cached_outline(stores, artifact)
    return replace(
        artifact,
        tokens=cached.whole.tokens,
        token_basis=cached.whole.basis,
        outline=cached.outline.text,
    )


def _readable(stores: Stores, ref: str) -> Artifact:
    """Return an artifact whose body can be inspected. The call counts as a read, like a pull.

    Raises:
        Gone, NotFound: the artifact does not exist.
        Sealed: the encryption key of the body is not available.
    """
    artifact = pull(stores, Pull(ref), b"").value
    refuse_sealed(artifact)
    return artifact


def refuse_sealed(artifact: Artifact) -> None:
    """Raise Sealed if the body of an artifact cannot be inspected."""
    if artifact.sealed is not None:
        raise Sealed(
            f"{artifact.ref} is sealed and no key was given",
            "pass the full URL with its key: relay get URL#KEY",
        )


def cached_outline(stores: Stores, artifact: Artifact, is_late: bool = False) -> CachedOutline:
    """Return the cached outline of a body; if there is none, inspect the body."""
    return _inspect(stores, artifact, is_late=is_late)[0]


def _inspect(
    stores: Stores,
    artifact: Artifact,
    outline_tokens: int | None = None,
    digest_tokens: int | None = None,
    is_late: bool = False,
) -> tuple[CachedOutline, BodyOverview]:
    """Return the cached outline of a body, and an overview with the requested outline or digest."""
    log = body_log(artifact.sha256)
    key = outline_key(stores, artifact)
    usage = usage_of(stores)
    row = usage.outline(log, key) or stores.ledger.get(log, RowKind.LOOKED, key)
    known = None
    if row is not None:
        with suppress(*UNREADABLE):
            read_row = _decoder.decode(row)
            known = read_row if read_row.version == OUTLINE_VERSION else None
    if known is not None and outline_tokens is None and digest_tokens is None:
        return known, BodyOverview(note=known.note)
    # Read the head before the body: if the body is freed in the meantime, nothing is written.
    head = stores.ledger.last(log)
    asked = OutlineRequest(
        type=artifact.type,
        media_type=artifact.media_type,
        name=artifact.name or "",
        size_bytes=artifact.size_bytes,
        is_known=known is not None,
        outline_tokens=outline_tokens,
        digest_tokens=digest_tokens,
    )
    read = partial(read_body, stores, artifact)
    if is_late and artifact.size_bytes > LOOK_INLINE_BYTES_MAX:
        seen, is_kept = (
            overview_by_lines(asked, read, "time or size limit reached before this body"),
            False,
        )
    else:
        seen, is_kept = overview_within_bounds(asked, read)
    if known is not None:
        return known, seen
    assert seen.cached is not None
    if is_kept:
        kept = Row(RowKind.LOOKED, key, _encoder.encode(seen.cached))
        usage.inspected(Write(log, rows=(kept,), expect=head))
    return seen.cached, seen


def known_tokens(stores: Stores, artifact: Artifact) -> TokenCount | None:
    """Return the token count of a body if the body was inspected before, or None."""
    log, key = body_log(artifact.sha256), outline_key(stores, artifact)
    row = usage_of(stores).outline(log, key) or stores.ledger.get(log, RowKind.LOOKED, key)
    with suppress(*UNREADABLE):
        return None if row is None else _decoder.decode(row).whole
    return None
