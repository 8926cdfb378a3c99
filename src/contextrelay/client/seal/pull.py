"""Opening sealed content: decrypted in the client, with the key from the URL.

Rule: the key in the URL determines which content is valid. A server that claims otherwise is not
trusted, and only authenticated bytes are returned. A pull of a whole body returns all of it or
raises. A stream yields authenticated chunks, and raises before its end if the rest is invalid.
"""

from __future__ import annotations

from contextrelay.client.flow import Emit, Items, NextChunk, OpenBody
from contextrelay.client.seal.push import describing
from contextrelay.errors import Invalid, Sealed
from contextrelay.limits import SEAL_CHUNK_BYTES
from contextrelay.model.artifact import Artifact
from contextrelay.seal.keys import SealKey, decryption_error
from contextrelay.seal.stream import HEADER_BYTES, Opener, sealed_stop, span
from contextrelay.verbs import Pull, Stream


def unsealed(stream: Stream[Artifact]) -> Stream[Artifact]:
    """Return a reply unchanged, if its body needs no key.

    Raises:
        Sealed: the body is sealed.
    """
    if stream.value.sealed is not None:
        raise Sealed(
            f"{stream.value.ref} is sealed and no key was given",
            "pull it by the URL that push printed, including everything after the #",
        )
    return stream


def chunks_of(stream: Stream[Artifact], opener: Opener | None = None) -> Items[bytes]:
    """Yield the body of a reply chunk by chunk; an `opener` decrypts a sealed body."""
    chunks = yield OpenBody(stream)
    while (chunk := (yield NextChunk(chunks))) is not None:
        yield Emit((chunk,) if opener is None else opener.feed(chunk))
    if opener is not None:
        opener.finish()


def open_sealed(verb: Pull, key: SealKey, known: Artifact | None = None) -> Items[bytes]:
    """Pull sealed content; yield the decrypted bytes as they arrive.

    `known`: an earlier description from the server, which must match the sealed one.
    """
    if key.format == "k1":
        from contextrelay.client.seal.fernet import open_bytes

        stream: Stream[Artifact] = yield Pull(verb.ref)
        yield Emit((open_bytes((yield stream), key)[verb.start : verb.stop],))
    elif verb.start < SEAL_CHUNK_BYTES:
        # The header comes before the requested range, so one request returns both.
        stream = yield Pull(verb.ref, 0, sealed_stop(verb.stop))
        chosen = span(stream.value.size_bytes, verb.start, verb.stop)
        yield from chunks_of(stream, Opener(key, descriptions(known or stream.value), chosen))
    else:
        head: Stream[Artifact] = yield Pull(verb.ref, 0, HEADER_BYTES)
        chosen = span(head.value.size_bytes, verb.start, verb.stop)
        opener = Opener(key, descriptions(known or head.value), chosen, (yield head))
        yield from chunks_of((yield Pull(verb.ref, chosen.start, chosen.stop)), opener)


def descriptions(artifact: Artifact) -> tuple[bytes, bytes]:
    """Return the hash of a description as it is sealed now, and as earlier versions sealed it."""
    try:
        return describing(artifact), describing(artifact, artifact.provenance.created_by)
    except Invalid:
        raise decryption_error() from None
