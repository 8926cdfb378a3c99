"""Helpers of commands: format sizes, times and artifacts, find the artifact of a ref, read and
write files.
"""

from __future__ import annotations

import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from unicodedata import category, combining, east_asian_width

from msgspec.structs import replace

from contextrelay.cli.place import places
from contextrelay.client import names
from contextrelay.client.flow import run
from contextrelay.client.relay import Relay
from contextrelay.content.artifact_type import NOT_TEXT
from contextrelay.errors import Invalid, RelayError
from contextrelay.identity import user_name
from contextrelay.limits import CHUNK_BYTES
from contextrelay.model.artifact import Artifact
from contextrelay.store.durable_files import write_whole

SHORT_REF_CHARS = 8
DOOR = names.InterfaceNames(
    list_artifacts="relay artifact list",
    list_threads="relay thread list",
    new_thread="relay thread new",
)
clean = names.clean


def size(size_bytes: int) -> str:
    """Format a size in bytes, for example 1,234 as 1.2 kB."""
    amount = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError


def tokens(size_bytes: int) -> str:
    """Format an estimated token count: a quarter of the number of bytes."""
    return f"~{estimated(size_bytes):,} tok"


def estimated(size_bytes: int) -> int:
    """Return the token count estimated from a size in bytes."""
    return (size_bytes + 3) // 4


def tokens_in(artifact: Artifact) -> int:
    """Return the token count of an artifact, estimated if it is unknown, or 0 for binary
    content.
    """
    if isinstance(artifact.tokens, int):
        return artifact.tokens
    return 0 if artifact.type in NOT_TEXT else estimated(artifact.size_bytes)


def tokens_of(artifact: Artifact) -> str:
    """Format the token count of an artifact, marked with ~ if it is an estimate, or "" for binary
    content.
    """
    count = tokens_in(artifact)
    if not count and artifact.type in NOT_TEXT:
        return ""
    return f"{'' if artifact.token_basis == 'measured' else '~'}{count:,} tok"


def count(number: int, one: str, many: str = "") -> str:
    """Format a count with its noun: 1 body, 2 bodies."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def span(seconds: float) -> str:
    """Format a number of seconds in the largest fitting unit."""
    for unit, unit_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def life(artifact: Artifact) -> str:
    """Format the time until an artifact expires."""
    if artifact.expires_at is None:
        return "pinned"
    return f"expires in {span((artifact.expires_at - datetime.now(UTC)).total_seconds())}"


def age(at: datetime) -> str:
    return f"{span((datetime.now(UTC) - at).total_seconds())} ago"


def short(ref: str) -> str:
    return ref[:SHORT_REF_CHARS]


def quoted(text: str) -> str:
    """Quote text from elsewhere as one word of a command that a person may copy."""
    escaped = clean(text).replace("'", "'\"'\"'")
    return f"'{escaped}'"


def author(name: str) -> str:
    """Return the display name of an author: "you" for the user of this machine."""
    return "you" if name in ("", user_name()) else clean(name)


def cut(text: str, chars_max: int) -> str:
    """Cut a text to a maximum number of characters, and mark where it was cut."""
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def width(text: str) -> int:
    """Return the number of terminal columns of a text. Wide characters take two, combining
    characters none.
    """
    return sum(map(_columns, text))


def _columns(char: str) -> int:
    if combining(char) or category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def filled(text: str, columns: int) -> str:
    """Pad a text to a number of columns. A longer text is returned unchanged."""
    return text + " " * (columns - width(text))


def column(text: str, columns: int) -> str:
    """Pad or cut a text to exactly this number of columns."""
    if width(text) > columns:
        while width(text) > columns - 1:
            text = text[:-1]
        text += "…"
    return filled(text, columns)


def line(artifact: Artifact) -> str:
    """Format an artifact as one line."""
    name = f"  {clean(artifact.name)}" if artifact.name else ""
    return f"{short(artifact.ref)}  {artifact.type}  {amount(artifact)}  {life(artifact)}{name}"


def amount(artifact: Artifact) -> str:
    """Format the size and the token count of an artifact. The token count of encrypted content is
    unknown.
    """
    size_bytes = artifact.size_bytes
    known = f"sealed {artifact.sealed}" if artifact.sealed else tokens_of(artifact)
    return f"{size(size_bytes)}  {known}".rstrip()


def resolve(relay: Relay, text: str) -> str:
    """Return the full ref for a ref, the beginning of a ref, a URL, or @last.

    Raises:
        NotFound: there is no such artifact.
        Gone: the artifact of @last has expired or was deleted.
        Invalid: several refs have this beginning, or the URL is malformed.
    """
    if text.strip() != names.LAST:
        return run(relay.transport, names.find_ref(text, DOOR))
    door = replace(DOOR, places=tuple(places(relay.transport)))
    return run(relay.transport, names.find_ref(text, door))


def resolve_to_remove(relay: Relay, text: str) -> str:
    """Return the full ref of an artifact to delete. @last is refused, because its meaning may have
    changed.

    Raises:
        NotFound: there is no such artifact.
        Invalid: the text is @last or a malformed URL, or several refs have this beginning.
    """
    if text.strip() == names.LAST:
        ref = resolve(relay, text)
        raise Invalid(
            "@last cannot be used to delete",
            f"pass the ref; @last is now {short(ref)}",
        )
    return resolve(relay, text)


def read_body(file: str | None) -> Iterator[bytes]:
    """Yield the bytes of a file, or of stdin for `-`, in chunks.

    Raises:
        Invalid: the file cannot be read.
    """
    if file is None and sys.stdin.isatty():
        raise Invalid("no input", "name a FILE, or pipe the content in")
    if file is None or file == "-":
        return _chunks_of_stdin()
    if not file or "\0" in file:
        raise Invalid(f"invalid file name {file!r}", "name a FILE, or - for stdin")
    path = Path(file)
    if path.is_dir():
        raise Invalid(
            f"{file} is a folder", "name a file in it, or pack it: tar c FOLDER | relay push"
        )
    if not path.exists():
        raise Invalid(f"file not found: {file}", "check the name, or use - for stdin")
    return _chunks_of(path)


def _chunks_of(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}", "check its permissions") from error


def _chunks_of_stdin() -> Iterator[bytes]:
    while chunk := sys.stdin.buffer.read(CHUNK_BYTES):
        yield chunk


def save(file: str, chunks: Iterable[bytes]) -> int:
    """Write a file atomically and return its size in bytes.

    A device or a pipe, such as /dev/null, is written to and not replaced.

    Raises:
        Invalid: the file cannot be written.
    """
    path = Path(file)
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            with path.open("wb") as special:
                return sum(map(special.write, chunks))
        return write_whole(path, chunks)
    except RelayError:
        raise  # The error was raised by the source of the chunks, not by the file.
    except (OSError, ValueError) as error:
        why = (isinstance(error, OSError) and error.strerror) or str(error)
        raise Invalid(f"cannot write {file}: {why}", "name a file in an existing folder") from error


def write_bytes(chunks: Iterable[bytes], what: str, how: str) -> None:
    """Write bytes to stdout unchanged; to a terminal only if they are text.

    Raises:
        Invalid: the bytes are not text, and stdout is a terminal.
    """
    for index, chunk in enumerate(chunks):
        if index == 0 and sys.stdout.isatty() and _is_binary(chunk):
            raise Invalid(f"{what} is binary: not written to a terminal", how)
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def _is_binary(chunk: bytes) -> bool:
    """Return True if the first chunk of a body is not UTF-8 text. A character that is cut at the
    end is allowed.
    """
    try:
        return "\0" in getincrementaldecoder("utf-8")().decode(chunk)
    except UnicodeDecodeError:
        return True


def name_of(file: str | None, given: str | None) -> str | None:
    """Return the given name, or else the name of the file, or None for stdin."""
    if given is not None or file in (None, "-"):
        return given
    return Path(file).name
