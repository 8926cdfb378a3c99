"""The user's cache folder: the key that briefs are signed by, and a table that counts tokens.

Both are made once and serve every project; removing them costs nothing but time.

Rule: a count is the same with the table and with the tokenizer. Where the table cannot be kept, or
is damaged, the tokenizer is loaded again, and nothing else fails.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from contextrelay.project.byte_pairs import Pairs

_KEY, _KEY_BYTES = "briefs.key", 32
_TABLE = "o200k_base.ranks"


def signing_key() -> bytes | None:
    """Random bytes of this user, made at the first call; None where they cannot be kept.

    What we write into a project's folder is signed by them, to know it from what came with it.
    """
    found = _read_key()
    if found is None:
        with suppress(OSError, RuntimeError):
            _write(_KEY, os.urandom(_KEY_BYTES))
        found = _read_key()
    return found


def _read_key() -> bytes | None:
    with suppress(OSError, RuntimeError):
        handle = os.open(_path(_KEY), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            found = os.read(handle, _KEY_BYTES + 1)
        finally:
            os.close(handle)
        return found if len(found) == _KEY_BYTES else None
    return None


def token_counter() -> Callable[[str], int]:
    """A function that counts the tokens of a short text."""
    pairs = _read_table()
    if pairs is None:
        from contextrelay.project.byte_pairs import packed

        with suppress(OSError, RuntimeError):
            _write(_TABLE, packed(_tokens()))
        pairs = _read_table()

    def count(text: str) -> int:
        counted = pairs.count(text) if pairs else None
        if counted is not None:
            return counted
        # Lazily: it takes longer to load than Python to start.
        from contextrelay.content.tokens import count_tokens

        return count_tokens(text)

    return count


def table_path() -> Path:
    return _path(_TABLE)


def _read_table() -> Pairs | None:
    from mmap import ACCESS_READ, mmap

    from contextrelay.project.byte_pairs import Pairs

    with suppress(OSError, ValueError):
        handle = os.open(table_path(), os.O_RDONLY)
        try:
            found = Pairs(memoryview(mmap(handle, 0, access=ACCESS_READ)))
        finally:
            os.close(handle)
        return found if found.is_whole() else None
    return None


def _tokens() -> Iterator[tuple[bytes, int]]:
    """Every token of the tokenizer and its rank, without the special ones."""
    from splintr import Tokenizer

    from contextrelay.content.tokens import TOKENIZER_DEFAULT

    encoder = Tokenizer.from_pretrained(TOKENIZER_DEFAULT)
    special = set(encoder.special_tokens().values())
    for rank in range(min(special)):
        with suppress(ValueError):
            yield encoder.decode_token_bytes(rank), rank


def _path(name: str) -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "contextrelay" / name


def _write(name: str, content: bytes) -> None:
    """Write a file of the cache, whole or not at all, for this user alone."""
    path = _path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{name}.{os.urandom(8).hex()}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
