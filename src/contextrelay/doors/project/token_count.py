"""Counting for briefs: by a table beside the user's other caches, else by the tokenizer itself.

Rule: the count is the same either way. Who had to load the tokenizer leaves the table for the next;
where it cannot be kept, or was spoilt, the tokenizer is loaded again, and nothing else fails.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from contextrelay.doors.project.user_cache import cache_path
from contextrelay.logic.token_pairs import Pairs, packed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FILE = "o200k_base.ranks"


def counter() -> Callable[[str], int]:
    """What counts the tokens of a line, or of a brief."""
    pairs = _kept()
    if pairs is None:
        _keep()
        pairs = _kept()

    def count(text: str) -> int:
        counted = pairs.count(text) if pairs else None
        if counted is not None:
            return counted
        # Lazily: it takes longer to load than Python to start.
        from contextrelay.logic.tokens import count_tokens

        return count_tokens(text)

    return count


def table_path() -> Path:
    """Where the table is kept; whoever removes it loses nothing."""
    return cache_path(_FILE)


def _kept() -> Pairs | None:
    from mmap import ACCESS_READ, mmap

    with suppress(OSError, ValueError):
        handle = os.open(table_path(), os.O_RDONLY)
        try:
            found = Pairs(memoryview(mmap(handle, 0, access=ACCESS_READ)))
        finally:
            os.close(handle)
        return found if found.is_whole() else None
    return None


def _keep() -> None:
    from tempfile import NamedTemporaryFile

    with suppress(OSError, RuntimeError):
        path = table_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, prefix=_FILE, delete=False) as draft:
            try:
                draft.write(packed(_tokens()))
                draft.flush()
                os.replace(draft.name, path)
            except BaseException:
                os.unlink(draft.name)
                raise


def _tokens() -> Iterator[tuple[bytes, int]]:
    """Every token of the tokenizer and its rank; those with a meaning of their own are none."""
    from splintr import Tokenizer

    from contextrelay.logic.tokens import TOKENIZER_DEFAULT

    encoder = Tokenizer.from_pretrained(TOKENIZER_DEFAULT)
    special = set(encoder.special_tokens().values())
    for rank in range(min(special)):
        with suppress(ValueError):
            yield encoder.decode_token_bytes(rank), rank
