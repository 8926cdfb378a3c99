"""Sealing on this side of a push: bodies are encrypted, and the key goes into the URL alone.

Rule: every push has a key of its own, which is never sent: not to a server, not to a channel. Of
what is sealed a server learns the size, and the description, which it cannot change unnoticed (k2).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import get_args

from msgspec.structs import asdict, replace

from contextrelay.client.flow import AsyncBody, brought
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

# Fernet cannot be streamed: what is sealed so is in memory whole.
SEAL_WHOLE_BYTES_MAX = BODY_BYTES_MAX


class Pushed(Artifact, frozen=True, kw_only=True):
    """An artifact as it was just stored, with the URL that stands for it.

    Where it was sealed, the URL carries the key: who has it can read the body. Equal to any other
    description of the same artifact.
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
    """Store a body once and get back the artifact with its ref and its URL.

    `ttl_s` unset: a day, or what the store is set to; None pins it. `seal`: encrypt the body first,
    with a key that only the URL has: True or "k2" for any body, "k1" for text that clients of seed
    000 are to read. `sealed`: it is encrypted already, in that format.
    """

    seal: SealFormat | bool = False


class Sealing:
    """A push as it is sent: what is asked, the body, and the key that stays here."""

    __slots__ = ("body", "key", "verb")

    def __init__(self, verb: Push, body: AsyncBody, seal: SealFormat | bool) -> None:
        self.verb = verb
        self.body = body
        self.key: SealKey | None = None
        if seal is False:
            return
        if seal not in (True, *get_args(SealFormat)):
            # Not repeated in the message: somebody may take it for the place of a password.
            raise Invalid("seal is no format", 'seal=True, "k1" or "k2"; the key is made here')
        if verb.sealed is not None:
            raise Invalid("it is sealed already", "give seal or sealed, not both")
        format: SealFormat = "k2" if seal is True else seal
        # A push that says everything which a server would find out otherwise. The content is not
        # looked at: its type is what the caller says, or what the name says.
        from contextrelay.content.artifact_type import declared_type

        type, media_type = declared_type(verb.type, verb.name, verb.media_type)
        self.verb = replace(verb, type=type, media_type=media_type, sealed=format)
        self.key = new_key(format)
        # What comes asynchronously is awaited from the thread that sends it.
        here = brought(body)
        if format == "k1":
            from contextrelay.client.seal.fernet import seal_bytes

            whole = isinstance(here, bytes)
            self.body = seal_bytes(here, self.key) if whole else _fernet(here, self.key)
        else:
            prefix, described = os.urandom(PREFIX_BYTES), describing(self.verb)
            self.body = _chunked(here, self.key, prefix, described)

    def pushed(self, artifact: Artifact, url: str) -> Pushed:
        """The artifact with its URL, and with the key in that.

        Raises:
            Failed: the server has another description than the one that was sealed.
        """
        if self.key is not None:
            if self.key.format == "k2" and describing(artifact) != describing(self.verb):
                raise Failed(
                    f"the relay describes {artifact.ref} otherwise than it was pushed, "
                    "so that it cannot be opened",
                    "push it again, with a name, type and metadata that it keeps as they are",
                )
            url += self.key.fragment
        described = dict(zip(_DESCRIBED, _description(artifact), strict=True))
        return Pushed(**described, url=url)


def new_key(format: SealFormat) -> SealKey:
    """A fresh key."""
    seal_id = os.urandom(SEAL_ID_BYTES) if format == "k2" else b""
    return SealKey(format, os.urandom(KEY_BYTES), seal_id)


def describing(about: Artifact | Push) -> bytes:
    """The hash of a description, which a seal of format k2 holds fast."""
    by = about if isinstance(about, Push) else about.provenance
    return description_hash(
        name=about.name,
        type=about.type,
        media_type=about.media_type,
        metadata=about.metadata,
        created_by=by.created_by,
        capability=by.capability,
    )


def _chunked(body: Body, key: SealKey, prefix: bytes, described: bytes) -> Body:
    if isinstance(body, bytes):
        whole = SealedBody(body, key, prefix, described)
        # What is small is sent in one piece.
        return b"".join(whole) if len(whole) <= CHUNK_BYTES else whole
    return sealed(body, key, prefix, described)


def _fernet(body: Iterable[bytes], key: SealKey) -> Iterator[bytes]:
    """Seal a whole body, which is collected when it is sent: Fernet has no chunks."""
    parts: list[bytes] = []
    size_bytes = 0
    for chunk in body:
        parts.append(chunk)
        size_bytes += len(chunk)
        if size_bytes > SEAL_WHOLE_BYTES_MAX:
            raise TooLarge(
                f"the body is over {SEAL_WHOLE_BYTES_MAX} bytes, and k1 seals it in one piece",
                "seal it as k2, which has no such limit",
            )
    from contextrelay.client.seal.fernet import seal_bytes

    yield seal_bytes(b"".join(parts), key)
