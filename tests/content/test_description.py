"""Descriptions: the same for a body in one piece and in any pieces."""

from __future__ import annotations

import hashlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.content.description import Description
from contextrelay.limits import HEAD_BYTES_MAX, MIB


def described(*chunks: bytes) -> Description:
    description = Description()
    for chunk in chunks:
        description.feed(chunk)
    return description


def everything(description: Description) -> tuple[str, int, int, bytes, bool]:
    return (
        description.sha256,
        description.size_bytes,
        description.line_count,
        description.head,
        description.is_text,
    )


@pytest.mark.parametrize(
    ("body", "lines"),
    [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\n", 1), (b"\n\n", 2), (b"a\r\nb\r\n", 2)],
)
def test_lines_are_counted_with_an_unfinished_last_one(body: bytes, lines: int) -> None:
    """Promise A2."""
    assert described(body).line_count == lines


@pytest.mark.parametrize(
    ("body", "is_text"),
    [
        (b"", True),
        (b"plain", True),
        ("é漢𝄞".encode(), True),
        (b"a\0b", False),
        (b"\xff", False),
        ("é".encode()[:1], False),
        (b"\xed\xa0\x80", False),
        (b"\xc0\xaf", False),
        ("é".encode("latin-1"), False),
        ("text".encode("utf-16"), False),
    ],
)
def test_text_is_strict_utf_8_without_nul(body: bytes, is_text: bool) -> None:
    """Promise A1."""
    assert described(body).is_text is is_text


def test_a_character_may_end_in_the_next_chunk() -> None:
    """Promise A1."""
    first, second = "𝄞".encode()[:2], "𝄞".encode()[2:]

    assert described(first, second).is_text
    assert not described(first).is_text
    assert not described(first, b"plain").is_text


def test_bytes_that_are_not_text_are_not_forgotten() -> None:
    """Promise A1."""
    assert not described(b"\xff", b"plain text").is_text


def test_the_hash_is_of_all_bytes_and_the_head_of_the_first() -> None:
    """Promise A1."""
    body = bytes(range(256)) * 100

    description = described(body)

    assert description.sha256 == hashlib.sha256(body).hexdigest()
    assert description.head == body[:HEAD_BYTES_MAX]
    assert description.size_bytes == len(body)


BODIES = st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode())


@given(BODIES, st.integers(1, 300), st.lists(st.integers(0, 60_000), max_size=6))
def test_any_chunking_gives_the_same_description(body: bytes, times: int, cuts: list[int]) -> None:
    """Promise A1."""
    body *= times
    stops = sorted(min(cut, len(body)) for cut in cuts)

    chunks = [body[start:stop] for start, stop in zip([0, *stops], [*stops, None], strict=True)]

    assert everything(described(*chunks)) == everything(described(body))


def test_a_large_body_is_not_held() -> None:
    """Promise A1."""
    body = "漢字\n".encode() * (8 * MIB // 7)
    description = Description()

    tracemalloc.start()
    description.feed(body)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert description.is_text
    assert peak_bytes < 2 * MIB
