"""The content that may be pushed, and its conversion to bytes."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import IO, Any, cast

from contextrelay.client.flow import AsyncBody
from contextrelay.errors import Invalid
from contextrelay.limits import BODY_BYTES_MAX, CHUNK_BYTES

Content = (
    str
    | bytes
    | bytearray
    | memoryview
    | dict[str, Any]
    | list[Any]
    | IO[str]
    | IO[bytes]
    | Iterable[bytes]
    | AsyncIterable[bytes]
)
"""Text, bytes, an open file, or chunks of bytes; or a dict or list, which is stored as JSON."""

_TAKEN = "push text, bytes, a dict or list (stored as JSON), an open file, or chunks of bytes"


def as_body(content: Content, is_async: bool = False) -> AsyncBody:
    """Convert content to the bytes that are stored, at once or chunk by chunk.

    Asynchronous chunks are accepted only if `is_async` is set, for `AsyncRelay`.

    Raises:
        TypeError: the content has an invalid type, or cannot be encoded as JSON. For an invalid
        chunk,
            this is raised when the chunk is read.
        Invalid: a text contains invalid Unicode.
    """
    if isinstance(content, bytes):
        return content
    if isinstance(content, str):
        return _encoded(content)
    if isinstance(content, bytearray | memoryview):
        return bytes(content)
    given = cast("object", content)
    if isinstance(given, dict):
        return _as_json(cast("object", given))
    if isinstance(given, list):
        items = cast("list[bytes]", given)
        return items if items and all(type(item) is bytes for item in items) else _as_json(items)
    if isinstance(given, AsyncIterable) and is_async:
        return _checked_awaited(cast("AsyncIterable[object]", given))
    if callable(read := getattr(content, "read", None)):
        return _checked(iter(lambda: read(CHUNK_BYTES) or None, None), is_file=True)
    if isinstance(given, tuple):
        # Return one object, so that it can be sent again.
        return tuple(_bytes_of(chunk, is_file=False) for chunk in cast("tuple[object]", given))
    if isinstance(given, Iterable) and not isinstance(given, set | frozenset | range):
        return _checked(cast("Iterable[object]", given))
    raise TypeError(f"cannot push a {type(content).__name__}: {_TAKEN}")


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"invalid Unicode in the text: {error}", "push it as bytes") from error


def _as_json(content: object) -> bytes:
    from contextrelay.documents.bounds import check_json

    try:
        return check_json(content, f"a {type(content).__name__}", BODY_BYTES_MAX)
    except Invalid as error:
        raise TypeError(f"{error.message}: {_TAKEN}") from error


def _checked(chunks: Iterable[object], is_file: bool = False) -> Iterator[bytes]:
    return (_bytes_of(chunk, is_file) for chunk in chunks)


async def _checked_awaited(chunks: AsyncIterable[object]) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        yield _bytes_of(chunk, is_file=False)


def _bytes_of(chunk: object, is_file: bool) -> bytes:
    if isinstance(chunk, bytes):
        return chunk
    if isinstance(chunk, bytearray | memoryview):
        return bytes(cast("memoryview[int]", chunk))
    if is_file and isinstance(chunk, str):
        return _encoded(chunk)
    raise TypeError(f"invalid chunk: expected bytes, got {type(chunk).__name__}: {_TAKEN}")
