"""Text of a project file: decoded without changing it, and broken text named by its place.

Rule: decoding and encoding again gives the same bytes: a byte order mark, line ends and a missing
last newline stay as they were.
"""

from __future__ import annotations

import re
from hashlib import sha256

from contextrelay.errors import Broken, TooLarge
from contextrelay.limits import PROJECT_FILE_BYTES_MAX
from contextrelay.model.project import Texts

MARK = "\ufeff"
_STAMP_CHARS = 12
_CONFLICT = re.compile(r"^(?:<{7}|>{7}|\|{7})(?: |$)", re.MULTILINE)


def decoded(content: bytes, name: str) -> str:
    """The text of a file, with its byte order mark, if it has one.

    Raises:
        TooLarge: it is over the limit.
        Broken: it is no UTF-8, or holds what an unfinished merge leaves.
    """
    check_size(len(content), name)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].decode(errors="replace")
        raise broken(
            name, before, len(before), "is no UTF-8", "save it as UTF-8; nothing was changed"
        ) from error
    check_markers(text, name)
    return text


def check_size(size_bytes: int, name: str, bytes_max: int = PROJECT_FILE_BYTES_MAX) -> None:
    """Refuse a file that no person wrote.

    Raises:
        TooLarge: it is over the limit.
    """
    if size_bytes > bytes_max:
        raise TooLarge(
            f"{name} has {size_bytes:,} bytes",
            f"the limit is {bytes_max:,} bytes; move what is old to another file",
            {"file": name},
        )


def check_markers(text: str, name: str) -> None:
    """Refuse a text in which a merge was left unfinished.

    Raises:
        Broken: it is such a text.
    """
    found = _CONFLICT.search(text)
    if found:
        raise broken(
            name,
            text,
            found.start(),
            "holds the marks of an unfinished merge",
            "choose one side, or both, and remove the lines <<<<<<<, ======= and >>>>>>>;"
            " then: relay project doctor",
        )


def broken(name: str, text: str, index: int, says: str, hint: str) -> Broken:
    """An error that names a place in a file."""
    line, column = place_of(text, index)
    return Broken(
        f"{name}, line {line}, column {column}: {says}",
        hint,
        {"file": name, "line": line, "column": column},
    )


def place_of(text: str, index: int) -> tuple[int, int]:
    """The line and the column of an index, both from 1, as an editor counts them."""
    start = text.rfind("\n", 0, index) + 1
    is_marked = start == 0 and text.startswith(MARK)
    return text.count("\n", 0, index) + 1, index - start + (0 if is_marked else 1)


def newline_of(text: str) -> str:
    """The line end that a text uses first."""
    found = text.find("\n")
    return "\r\n" if found > 0 and text[found - 1] == "\r" else "\n"


def stamp_of(texts: Texts) -> str:
    """A short name for the files as they are."""
    digest = sha256()
    for name, text in texts.named().items():
        content = b"" if text is None else text.encode()
        digest.update(f"{name} {-1 if text is None else len(content)}\n".encode() + content)
    return digest.hexdigest()[:_STAMP_CHARS]
