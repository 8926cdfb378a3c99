"""Outlines and digests: made once for a content and kept with it, and its number of tokens.

The log `b/<sha256>` has a row `looked` for each type, media type and ending of a name that the
content is pushed with, because an outline depends on them, and for each tenant. The rows go when
the content goes.

Rule: it is a shortcut. Where it cannot be read or written, the body is looked into again.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

from contextrelay.bounded.bodies import look_by_lines, look_within_bounds
from contextrelay.content.overview import Look, Seen, digested, outlined
from contextrelay.core.artifacts.bodies import looked_key, read_body
from contextrelay.core.artifacts.pull import pull
from contextrelay.core.registry import answers
from contextrelay.core.schema import UNREADABLE, Kind, body_log
from contextrelay.core.stores import Stores
from contextrelay.errors import Full, Refused, Sealed, Unavailable
from contextrelay.limits import LOOK_INLINE_BYTES_MAX, OUTLINE_TOKENS_DEFAULT
from contextrelay.model.artifact import Artifact
from contextrelay.model.inspect import DRAWN_BY, Digested, Looked, Outlined
from contextrelay.model.tokens import TokenCount
from contextrelay.store.ledger import Row, Stale, Write
from contextrelay.verbs import Body, Digest, Outline, Pull

_encoder = Encoder()
_decoder = Decoder(Looked)


@answers(Outline)
def outline_one(stores: Stores, verb: Outline, body: Body) -> Outlined:
    return outlined_within(stores, _readable(stores, verb.ref), verb.tokens_max)


@answers(Digest)
def digest_one(stores: Stores, verb: Digest, body: Body) -> Digested:
    return digested_within(stores, _readable(stores, verb.ref), verb.tokens_max)


def outlined_within(
    stores: Stores, artifact: Artifact, tokens_max: int, is_late: bool = False
) -> Outlined:
    """The outline of an artifact within a number of tokens; where it is late, by lines."""
    is_kept = tokens_max == OUTLINE_TOKENS_DEFAULT
    looked, seen = _look(stores, artifact, None if is_kept else tokens_max, is_late=is_late)
    return outlined(artifact, looked, seen.shape or looked.shape, seen.note)


def digested_within(
    stores: Stores, artifact: Artifact, tokens_max: int, is_late: bool = False
) -> Digested:
    """The digest of an artifact within a number of tokens; where it is late, by lines."""
    looked, seen = _look(stores, artifact, digest_tokens=tokens_max, is_late=is_late)
    assert seen.digest is not None
    return digested(artifact, looked, seen.digest, seen.note)


def described_fully(stores: Stores, artifact: Artifact) -> Artifact:
    """An artifact with its tokens and its outline; of a sealed one nobody here knows them."""
    if artifact.sealed is not None:
        return replace(artifact, tokens=None, token_basis="sealed", outline=None)
    looked = looked_into(stores, artifact)
    return replace(
        artifact,
        tokens=looked.whole.tokens,
        token_basis=looked.whole.basis,
        outline=looked.shape.text,
    )


def _readable(stores: Stores, ref: str) -> Artifact:
    """An artifact that can be looked into; this counts as a read, as a pull does.

    Raises:
        Gone, NotFound: there is none.
        Sealed: its key is not here.
    """
    artifact = pull(stores, Pull(ref), b"").value
    refuse_sealed(artifact)
    return artifact


def refuse_sealed(artifact: Artifact) -> None:
    """Let an artifact pass if its body can be looked into.

    Raises:
        Sealed: its key is not here.
    """
    if artifact.sealed is not None:
        raise Sealed(
            f"{artifact.ref} is sealed, and its key is not here",
            "give its whole URL, with its key behind the #: relay get URL#KEY",
        )


def looked_into(stores: Stores, artifact: Artifact, is_late: bool = False) -> Looked:
    """What is known of a body, found out now if it is not kept."""
    return _look(stores, artifact, is_late=is_late)[0]


def _look(
    stores: Stores,
    artifact: Artifact,
    outline_tokens: int | None = None,
    digest_tokens: int | None = None,
    is_late: bool = False,
) -> tuple[Looked, Seen]:
    """What is known of a body, and what else is asked of it; what is new is kept."""
    log = body_log(artifact.sha256)
    key = looked_key(stores, artifact)
    row = stores.ledger.get(log, Kind.LOOKED, key)
    known = None
    if row is not None:
        with suppress(*UNREADABLE):
            read_row = _decoder.decode(row)
            known = read_row if read_row.drawn_by == DRAWN_BY else None
    if known is not None and outline_tokens is None and digest_tokens is None:
        return known, Seen(note=known.note)
    # Read before the body: where it is freed meanwhile, nothing is written.
    head = stores.ledger.last(log)
    asked = Look(
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
        seen, is_kept = look_by_lines(asked, read, "too much was looked into before it"), False
    else:
        seen, is_kept = look_within_bounds(asked, read)
    if known is not None:
        return known, seen
    assert seen.looked is not None
    if is_kept:
        with suppress(Stale, Full, Unavailable, Refused):
            kept = Row(Kind.LOOKED, key, _encoder.encode(seen.looked))
            stores.ledger.commit(Write(log, rows=(kept,), expect=head))
    return seen.looked, seen


def known_tokens(stores: Stores, artifact: Artifact) -> TokenCount | None:
    """How many tokens a body takes, if it was looked into before."""
    row = stores.ledger.get(body_log(artifact.sha256), Kind.LOOKED, looked_key(stores, artifact))
    with suppress(*UNREADABLE):
        return None if row is None else _decoder.decode(row).whole
    return None
