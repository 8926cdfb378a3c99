"""Sealing: bodies are encrypted before a push, and the key is only in the URL.

Rule: every push has a new key, which is never sent to a server or a channel. A server learns only
the size of a sealed body and its description. The server cannot change the description unnoticed
(k2).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import get_args

from msgspec.structs import asdict, replace

from contextrelay.client.flow import AsyncBody, to_blocking_body
from contextrelay.errors import Failed, Invalid, TooLarge
from contextrelay.limits import BODY_BYTES_MAX, CHUNK_BYTES
from contextrelay.model.artifact import Artifact, SealFormat
from contextrelay.seal.keys import KEY_BYTES, SEAL_ID_BYTES, SealKey, hide_keys
from contextrelay.seal.stream import (
    PREFIX_BYTES,
    SealedBody,
    description_hash,
    sealed,
)
from contextrelay.verbs import Body, Push

# Fernet cannot be streamed, so a body sealed with Fernet is in memory as a whole.
SEAL_WHOLE_BYTES_MAX = BODY_BYTES_MAX


class Pushed(Artifact, frozen=True, kw_only=True):
    """A newly stored artifact, with its URL.

    If the artifact was sealed, the URL contains the key: anyone with the URL can read the body. The
    object is equal to any other description of the same artifact.
    """

    url: str

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Artifact):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _DESCRIBED)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in asdict(self).items())
        return f"{type(self).__name__}({hide_keys(fields)})"


_DESCRIBED = Artifact.__struct_fields__
_description = attrgetter(*_DESCRIBED)


class PushAndSeal(Push, frozen=True, kw_only=True):
    """Store a body once and return the artifact with its ref and its URL.

    `ttl_s` unset: the body is kept for a day, or as the store's setting says; None pins the
    artifact. `seal`: encrypt the body first, with a key that is only in the URL: True or "k2" for
    any body, "k1" for text that clients of seed 000 can read. `sealed`: the body is already
    encrypted, in that format.
    """

    seal: SealFormat | bool = False


class Sealing:
    """A push ready to be sent: the verb, the body, and the key, which is not sent."""

    __slots__ = ("body", "key", "verb")

    def __init__(self, verb: Push, body: AsyncBody, seal: SealFormat | bool) -> None:
        self.verb = verb
        self.body = body
        self.key: SealKey | None = None
        if seal is False:
            return
        if seal not in (True, *get_args(SealFormat)):
            # Do not quote the value in the error: it may be a password passed by mistake.
            raise Invalid(
                "invalid seal format",
                'use seal=True, "k1" or "k2"; the key is created automatically',
            )
        if verb.sealed is not None:
            raise Invalid("the body is sealed already", "pass seal or sealed, not both")
        format: SealFormat = "k2" if seal is True else seal
        # Declare everything that a server would otherwise detect. The content is not inspected, so
        # its type comes from the caller or from the name.
        from contextrelay.content.artifact_type import declared_type

        type, media_type = declared_type(verb.type, verb.name, verb.media_type)
        self.verb = replace(verb, type=type, media_type=media_type, sealed=format)
        self.key = new_key(format)
        # Asynchronous content is awaited from the thread that sends it.
        here = to_blocking_body(body)
        if format == "k1":
            from contextrelay.client.seal.fernet import seal_bytes

            whole = isinstance(here, bytes)
            self.body = seal_bytes(here, self.key) if whole else _fernet(here, self.key)
        else:
            prefix, described = os.urandom(PREFIX_BYTES), describing(self.verb)
            self.body = _chunked(here, self.key, prefix, described)

    def pushed(self, artifact: Artifact, url: str) -> Pushed:
        """Return the artifact with its URL, including the key.

        Raises:
            Failed: the server's description differs from the sealed one.
        """
        if self.key is not None:
            if self.key.format == "k2" and describing(artifact) != describing(self.verb):
                raise Failed(
                    f"the relay changed the description of {artifact.ref}, "
                    "so that it cannot be decrypted",
                    "push again, with a name, type and metadata that the server does not change",
                )
            url += self.key.fragment
        described = dict(zip(_DESCRIBED, _description(artifact), strict=True))
        return Pushed(**described, url=url)


def new_key(format: SealFormat) -> SealKey:
    """Return a new random key for a seal format."""
    seal_id = os.urandom(SEAL_ID_BYTES) if format == "k2" else b""
    return SealKey(format, os.urandom(KEY_BYTES), seal_id)


def describing(about: Artifact | Push, created_by: str = "") -> bytes:
    """Return the hash of a description. A seal of format k2 authenticates this hash.

    The author is not part of it, because a server puts the name of the key in front. Earlier
    versions included the author.
    """
    by = about if isinstance(about, Push) else about.provenance
    return description_hash(
        name=about.name,
        type=about.type,
        media_type=about.media_type,
        metadata=about.metadata,
        created_by=created_by,
        capability=by.capability,
    )


def _chunked(body: Body, key: SealKey, prefix: bytes, described: bytes) -> Body:
    if isinstance(body, bytes):
        whole = SealedBody(body, key, prefix, described)
        # A small body is sent in one piece.
        return b"".join(whole) if len(whole) <= CHUNK_BYTES else whole
    return sealed(body, key, prefix, described)


def _fernet(body: Iterable[bytes], key: SealKey) -> Iterator[bytes]:
    """Yield a body sealed with Fernet. It is read completely, because Fernet has no chunks."""
    parts: list[bytes] = []
    size_bytes = 0
    for chunk in body:
        parts.append(chunk)
        size_bytes += len(chunk)
        if size_bytes > SEAL_WHOLE_BYTES_MAX:
            raise TooLarge(
                f"the body is larger than {SEAL_WHOLE_BYTES_MAX} bytes, the limit of k1",
                "use seal k2, which has no such limit",
            )
    from contextrelay.client.seal.fernet import seal_bytes

    yield seal_bytes(b"".join(parts), key)
