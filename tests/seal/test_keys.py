"""Seal keys: one spelling, and never shown."""

from __future__ import annotations

import copy
import pickle
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import decode

from contextrelay.errors import Invalid, Sealed
from contextrelay.model.ref import parse_ref
from contextrelay.seal.keys import SealKey, hide_keys, split_key

VECTORS: dict[str, Any] = decode((Path(__file__).parent / "seal_vectors.json").read_bytes())
URL = "https://relay.example/pull/5614228f-d07e-4bbb-b9bc-d8018215c40c"
K1 = "#key=Ag3dSe48OSz8hjNFdDAvEL_pi4CqtyjNDEEVqWlpXNc="
K2 = str(VECTORS["cases"][1]["fragment"])


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=16, max_size=16))
def test_a_key_is_read_as_it_was_spelled(secret: bytes, seal_id: bytes) -> None:
    for key in (SealKey("k2", secret, seal_id), SealKey("k1", secret)):
        bare, read = split_key(URL + key.fragment)

        assert bare == URL
        assert read is not None
        assert (read.format, read.secret, read.seal_id) == (key.format, key.secret, key.seal_id)
        assert len(key.fragment) == (5 + 44 if key.format == "k1" else 4 + 43 + 1 + 22)


@pytest.mark.parametrize("which", VECTORS["bad_fragments"])
def test_what_is_almost_a_key_is_none(which: str) -> None:
    """Promise E4. Promise E2."""
    with pytest.raises(Sealed) as refused:
        split_key(URL + VECTORS["bad_fragments"][which])

    assert refused.value.message == "Failed to decrypt: Invalid or missing key"
    assert "#" not in str(refused.value).removesuffix("after the #)")


@pytest.mark.parametrize("spelled", [K1[5:], K2[4:]])
@pytest.mark.parametrize("mark", ["#key=", "#k2="])
def test_keys_of_every_other_length_and_alphabet_are_refused(mark: str, spelled: str) -> None:
    """Promise E2. Promise E4."""
    is_right = (mark, spelled) in (("#key=", K1[5:]), ("#k2=", K2[4:]))
    for length in (*range(len(spelled)), len(spelled) + 1, 1_000, 100_000):
        with pytest.raises(Sealed):
            split_key(URL + mark + (spelled * 3_000)[:length])
    for place in range(len(spelled)):
        for wrong in "+/ %\0é=.#\n":
            if wrong != spelled[place]:
                with pytest.raises(Sealed):
                    split_key(URL + mark + spelled[:place] + wrong + spelled[place + 1 :])
    if is_right:
        assert split_key(URL + mark + spelled)[1] is not None


@given(st.sampled_from([K1, K2]), st.data())
def test_no_other_spelling_is_the_same_key(fragment: str, data: st.DataObject) -> None:
    """Promise E4: a key that differs by one character is another one, or none."""
    start = fragment.index("=") + 1
    place = data.draw(st.integers(start, len(fragment) - 1))
    letter = data.draw(st.sampled_from(string.ascii_letters + string.digits + "-_.="))
    other = fragment[:place] + letter + fragment[place + 1 :]
    same = split_key(fragment)[1]
    assert same is not None
    try:
        read = split_key(other)[1]
    except Sealed:
        return
    assert read is not None
    assert (read.secret + read.seal_id == same.secret + same.seal_id) == (other == fragment)


@pytest.mark.parametrize("fragment", ["", "#", "#section", "#K2=abc", "#k2", "#key", "#keys=1"])
def test_another_fragment_is_no_key(fragment: str) -> None:
    assert split_key(URL + fragment) == (URL, None)


def test_a_percent_encoded_key_is_recognised(subtests: pytest.Subtests) -> None:
    for spelled in (K1.replace("=", "%3D"), K1[:-1] + "%3D", K2.replace(".", "%2E"), K2 + "%20"):
        with subtests.test(spelled):
            if "#key=" not in spelled and "#k2=" not in spelled:
                assert split_key(URL + spelled)[1] is None
                continue
            with pytest.raises(Sealed, match="percent-encoded"):
                split_key(URL + spelled)


def test_a_key_does_not_show_itself() -> None:
    """Promise E3: not in errors, tracebacks or logs."""
    for fragment in (K1, K2):
        key = split_key(fragment)[1]
        assert key is not None
        text = f"{key} {key!r} {[key]} {{'k': key}}"

        assert fragment[5:20] not in text
        assert key.secret.hex() not in text
        for write_down in (pickle.dumps, copy.copy):
            with pytest.raises(TypeError):
                write_down(key)


def test_keys_are_left_out_of_what_is_shown() -> None:
    """Promise E3."""
    text = f"cannot pull '{URL}{K2}' nor {URL}{K1}, see #3"

    assert hide_keys(text) == f"cannot pull '{URL}#k2=...' nor {URL}#key=... see #3"
    with pytest.raises(Invalid) as refused:
        parse_ref(f"https://relay.example/pul/x{K2}")
    assert K2[4:12] not in str(refused.value)


@pytest.mark.parametrize("sign", ["%23", "%2523", "%252523"])
@pytest.mark.parametrize("fragment", [K1, K2])
def test_a_key_that_was_percent_encoded_is_shown_to_nobody_either(sign: str, fragment: str) -> None:
    """Promise E3."""
    mark, _, key = fragment.removeprefix("#").partition("=")
    for equals in ("=", "%3D", "%3d", "%253D"):
        encoded = f"{URL[-36:]}{sign}{mark}{equals}{key}"

        assert key[:4] not in hide_keys(f"{encoded!r} is wrong")
        with pytest.raises(Invalid) as refused:
            parse_ref(encoded)
        assert key[:4] not in str(refused.value)
