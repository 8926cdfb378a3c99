"""Descriptions: the same for a body in one piece and in any pieces."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from contextrelay.content.description import Description
from contextrelay.limits import MIB


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
