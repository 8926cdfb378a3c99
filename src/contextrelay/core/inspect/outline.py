"""Outlines: made once for a content and kept beside it, with how many tokens it takes.

The log `b/<sha256>` has a row `looked` for each type, media type and ending of a name that the
content is told to have, because an outline depends on them, and for each tenant. The rows go when
the content goes.

Rule: it is a shortcut. Where it cannot be read or written, the body is looked into again.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec import DecodeError
from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

from contextrelay.core.answer import answers
from contextrelay.core.artifacts.bodies import body_log, looked_key, opener
from contextrelay.core.artifacts.pull import pull
from contextrelay.core.stores import Stores
from contextrelay.errors import Full, Invalid, Refused, Unavailable
from contextrelay.limits import CHUNK_BYTES, OUTLINE_BYTES_MAX, OUTLINE_TOKENS_DEFAULT
from contextrelay.logic.content.overview import digested, look, outlined, source_of
from contextrelay.logic.content.source import Source
from contextrelay.model.artifact import Artifact
from contextrelay.model.outline import Digested, Looked, Outlined
from contextrelay.model.tokens import TokenCount
from contextrelay.store.ledger import Row, Stale, Write
from contextrelay.wire.verbs import Body, Digest, Outline, Pull

_encoder = Encoder()
_decoder = Decoder(Looked)
_KIND = "looked"


@answers(Outline)
def outline_one(stores: Stores, verb: Outline, body: Body) -> Outlined:
    artifact = _readable(stores, verb.ref)
    if verb.tokens_max == OUTLINE_TOKENS_DEFAULT:
        return outlined(artifact, looked_into(stores, artifact), None, verb.tokens_max)
    source = read(stores, artifact)
    return outlined(artifact, looked_into(stores, artifact, source), source, verb.tokens_max)


@answers(Digest)
def digest_one(stores: Stores, verb: Digest, body: Body) -> Digested:
    artifact = _readable(stores, verb.ref)
    source = read(stores, artifact)
    return digested(artifact, looked_into(stores, artifact, source), source, verb.tokens_max)


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
    """An artifact that can be looked into; that is a reading, as a pull is."""
    artifact = pull(stores, Pull(ref), b"").value
    if artifact.sealed is not None:
        raise Invalid(
            f"{artifact.ref} is sealed, and its key is not here",
            "look into it with the URL that has its key, in a client",
        )
    return artifact


def looked_into(stores: Stores, artifact: Artifact, source: Source | None = None) -> Looked:
    """What is known of a body, found out now if nobody looked before."""
    log = body_log(artifact.sha256)
    key = looked_key(stores, artifact)
    row = stores.ledger.get(log, _KIND, key)
    if row is not None:
        with suppress(DecodeError):
            return _decoder.decode(row)
    # Read before the body: where it is freed meanwhile, nothing is written.
    head = stores.ledger.last(log)
    looked = look(artifact, source or read(stores, artifact))
    with suppress(Stale, Full, Unavailable, Refused):
        kept = Row(_KIND, key, _encoder.encode(looked))
        stores.ledger.commit(Write(log, rows=(kept,), expect=head))
    return looked


def known_tokens(stores: Stores, artifact: Artifact) -> TokenCount | None:
    """How many tokens a body takes, if somebody has looked into it before."""
    row = stores.ledger.get(body_log(artifact.sha256), _KIND, looked_key(stores, artifact))
    with suppress(DecodeError):
        return None if row is None else _decoder.decode(row).whole
    return None


def read(stores: Stores, artifact: Artifact) -> Source:
    """As much of a body as an outline looks at."""
    stop = min(artifact.size_bytes, OUTLINE_BYTES_MAX)
    opened = opener(stores, artifact.sha256, artifact.size_bytes, 0, stop)
    return source_of(artifact, b"".join(opened(CHUNK_BYTES)))
