"""Pieces: the bodies of several pushes, sent as one stream."""

from __future__ import annotations

from collections.abc import Iterator

from contextrelay.errors import Invalid
from contextrelay.verbs import Body


def pieces_of(body: Body, sizes: list[int]) -> Iterator[bytes]:
    """Split a stream of concatenated bodies; yield each body."""
    chunks = iter((body,) if isinstance(body, bytes) else body)
    rest = b""
    for index, size in enumerate(sizes):
        parts = [rest]
        have = len(rest)
        while have < size:
            chunk = next(chunks, None)
            if chunk is None:
                raise Invalid(
                    "the bodies are shorter than the sum of sizes", "send complete bodies"
                )
            parts.append(chunk)
            have += len(chunk)
        joined = b"".join(parts)
        rest = joined[size:]
        if index + 1 == len(sizes):
            _check_end(rest, chunks)  # Check the end of the stream before the last body is stored.
        yield joined[:size]
    if not sizes:
        _check_end(rest, chunks)


def _check_end(rest: bytes, chunks: Iterator[bytes]) -> None:
    if rest or any(chunks):
        raise Invalid("the bodies are longer than the sum of sizes", "send one size per body")
