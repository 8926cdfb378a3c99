"""Seals: sealing and opening against bare AES-256-GCM on chunks of 64 KiB."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bench.measure import Curve, Result, faster, interleaved, timed
from contextrelay import Relay
from contextrelay.limits import CHUNK_BYTES, MIB, SEAL_CHUNK_BYTES
from contextrelay.seal.keys import SealKey
from contextrelay.seal.stream import (
    PREFIX_BYTES,
    SEALED_CHUNK_BYTES,
    Opener,
    sealed,
    span,
)

SIZE_BYTES = 50 * MIB
KEY = SealKey("k2", os.urandom(32), os.urandom(16))
PREFIX = os.urandom(PREFIX_BYTES)
ABOUT = os.urandom(32)


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    body = os.urandom(SIZE_BYTES)
    sent = b"".join(sealed((body,), KEY, PREFIX, ABOUT))
    bare = b"".join(_bare(body))
    yield faster(
        "seal 50 MiB that come in 256 KiB / AES-GCM on 64 KiB",
        *interleaved(
            lambda: _ms(sealed(_cut(body, CHUNK_BYTES), KEY, PREFIX, ABOUT)),
            lambda: _ms(_bare(body)),
        ),
        "ms",
        0.5,
    )
    yield faster(
        "open 50 MiB that come in 256 KiB / AES-GCM on 64 KiB",
        *interleaved(
            lambda: _ms(_open(_cut(sent, CHUNK_BYTES), len(sent))), lambda: _ms(_bare_back(bare))
        ),
        "ms",
        0.5,
    )
    yield from through_a_relay(folder, body)


def through_a_relay(folder: Path, body: bytes) -> Iterator[Result]:
    """A push and a pull as people do them: the rest is storing, and is done for both."""
    with Relay(folder / "store") as relay:
        plain, url = relay.push(body).ref, relay.push(body, seal=True).url
        yield faster(
            "pull 50 MiB sealed / plain",
            *interleaved(
                lambda: _ms(relay.stream(url)),
                lambda: _ms(relay.stream(plain)),
            ),
            "ms",
            0.0,
        )
        yield faster(
            "pull 64 KiB of 50 MiB sealed / plain",
            *interleaved(
                lambda: 1_000 * timed(lambda: relay.pull(url, 20 * MIB, 20 * MIB + 65_536)),
                lambda: 1_000 * timed(lambda: relay.pull(plain, 20 * MIB, 20 * MIB + 65_536)),
            ),
            "ms",
            0.0,
        )


def _cut(body: bytes, size_bytes: int) -> Iterator[bytes]:
    return (body[at : at + size_bytes] for at in range(0, len(body), size_bytes))


def _bare(body: bytes) -> Iterator[bytes]:
    """What anybody would write: a cipher, and a nonce that counts."""
    cipher = AESGCM(KEY.secret)
    for number, chunk in enumerate(_cut(body, SEAL_CHUNK_BYTES)):
        yield cipher.encrypt(number.to_bytes(12, "big"), chunk, ABOUT)


def _bare_back(sent: bytes) -> Iterator[bytes]:
    """The same, back."""
    cipher = AESGCM(KEY.secret)
    for number, chunk in enumerate(_cut(sent, SEALED_CHUNK_BYTES)):
        yield cipher.decrypt(number.to_bytes(12, "big"), chunk, ABOUT)


def _open(chunks: Iterable[bytes], size_bytes: int) -> Iterator[bytes]:
    opener = Opener(KEY, [ABOUT], span(size_bytes, 0, None))
    for chunk in chunks:
        yield from opener.feed(chunk)
    opener.finish()


def _ms(chunks: Iterable[bytes]) -> float:
    """How long it takes to read all of something."""

    def read() -> None:
        for _ in chunks:
            pass

    return 1_000 * timed(read)
