"""Opening sealed content: decrypted in the client, with the key from the URL.

Rule: the key in the URL determines what the content must be. A server that claims otherwise is not
trusted, and only authenticated bytes are returned: a whole pull returns everything or raises; a
stream yields authenticated chunks, and raises before its end if the rest is invalid.
"""

from __future__ import annotations

from contextrelay.client.flow import Give, Items, Next, Open
from contextrelay.client.seal.push import describing
from contextrelay.errors import Invalid, Sealed
from contextrelay.limits import SEAL_CHUNK_BYTES
from contextrelay.model.artifact import Artifact
from contextrelay.seal.keys import SealKey, decryption_error
from contextrelay.seal.stream import HEADER_BYTES, Opener, sealed_stop, span
from contextrelay.verbs import Pull, Stream


def unsealed(stream: Stream[Artifact]) -> Stream[Artifact]:
    """Return a reply that needs no key.

    Raises:
        Sealed: it needs one.
    """
    if stream.value.sealed is not None:
        raise Sealed(
            f"{stream.value.ref} is sealed and no key was given",
            "pull it by the URL that push printed, including everything after the #",
        )
    return stream


def chunks_of(stream: Stream[Artifact], opener: Opener | None = None) -> Items[bytes]:
    """Yield the body of a reply, chunk by chunk; through an opener, if it is sealed."""
    chunks = yield Open(stream)
    while (chunk := (yield Next(chunks))) is not None:
        yield Give((chunk,) if opener is None else opener.feed(chunk))
    if opener is not None:
        opener.finish()


def open_sealed(verb: Pull, key: SealKey, known: Artifact | None = None) -> Items[bytes]:
    """Pull sealed content; yield its decrypted bytes as they arrive.

    `known`: the server's earlier description, which must match the sealed one.
    """
    if key.format == "k1":
        from contextrelay.client.seal.fernet import open_bytes

        stream: Stream[Artifact] = yield Pull(verb.ref)
        yield Give((open_bytes((yield stream), key)[verb.start : verb.stop],))
    elif verb.start < SEAL_CHUNK_BYTES:
        # The header comes before the requested range: one request returns both.
        stream = yield Pull(verb.ref, 0, sealed_stop(verb.stop))
        chosen = span(stream.value.size_bytes, verb.start, verb.stop)
        yield from chunks_of(stream, Opener(key, _description(known or stream.value), chosen))
    else:
        head: Stream[Artifact] = yield Pull(verb.ref, 0, HEADER_BYTES)
        chosen = span(head.value.size_bytes, verb.start, verb.stop)
        opener = Opener(key, _description(known or head.value), chosen, (yield head))
        yield from chunks_of((yield Pull(verb.ref, chosen.start, chosen.stop)), opener)


def _description(artifact: Artifact) -> bytes:
    try:
        return describing(artifact)
    except Invalid:
        raise decryption_error() from None
