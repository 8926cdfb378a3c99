"""How sizes, times and artifacts are shown, how refs are read, and how files come in and go out."""

from __future__ import annotations

import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from unicodedata import category, combining, east_asian_width

from msgspec.structs import replace

from contextrelay.cli.place import push_places
from contextrelay.client import names
from contextrelay.client.flow import run
from contextrelay.client.relay import Relay
from contextrelay.content.artifact_type import NOT_TEXT
from contextrelay.errors import Invalid, RelayError
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
    """1,234 as 1.2 kB."""
    amount = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError


def tokens(size_bytes: int) -> str:
    """A rough count, marked as one: a quarter of the bytes."""
    return f"~{estimated(size_bytes):,} tok"


def estimated(size_bytes: int) -> int:
    """A rough count of tokens."""
    return (size_bytes + 3) // 4


def tokens_in(artifact: Artifact) -> int:
    """The count of tokens, a rough one where none is known; what is no text has none."""
    if isinstance(artifact.tokens, int):
        return artifact.tokens
    return 0 if artifact.type in NOT_TEXT else estimated(artifact.size_bytes)


def tokens_of(artifact: Artifact) -> str:
    """The count of tokens, marked with ~ if it is an estimate; "" for what is no text."""
    count = tokens_in(artifact)
    if not count and artifact.type in NOT_TEXT:
        return ""
    return f"{'' if artifact.token_basis == 'measured' else '~'}{count:,} tok"


def count(number: int, one: str, many: str = "") -> str:
    """1 body, 2 bodies."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def span(seconds: float) -> str:
    """Seconds as people say them."""
    for unit, unit_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def life(artifact: Artifact) -> str:
    """How long an artifact has to live."""
    if artifact.expires_at is None:
        return "pinned"
    return f"expires in {span((artifact.expires_at - datetime.now(UTC)).total_seconds())}"


def age(at: datetime) -> str:
    return f"{span((datetime.now(UTC) - at).total_seconds())} ago"


def short(ref: str) -> str:
    return ref[:SHORT_REF_CHARS]


def quoted(text: str) -> str:
    """Somebody's text as one word of a command that a person may copy."""
    escaped = clean(text).replace("'", "'\"'\"'")
    return f"'{escaped}'"


def cut(text: str, chars_max: int) -> str:
    """A text of at most so many characters, with a mark where it was cut."""
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def width(text: str) -> int:
    """How many columns of a terminal a text takes: wide characters two, combining ones none."""
    return sum(map(_columns, text))


def _columns(char: str) -> int:
    if combining(char) or category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def filled(text: str, columns: int) -> str:
    """A text that takes so many columns, or more."""
    return text + " " * (columns - width(text))


def column(text: str, columns: int) -> str:
    """A text that takes exactly so many columns: cut with a mark, or filled up."""
    if width(text) > columns:
        while width(text) > columns - 1:
            text = text[:-1]
        text += "…"
    return filled(text, columns)


def line(artifact: Artifact) -> str:
    """An artifact in one line."""
    name = f"  {clean(artifact.name)}" if artifact.name else ""
    return f"{short(artifact.ref)}  {artifact.type}  {amount(artifact)}  {life(artifact)}{name}"


def amount(artifact: Artifact) -> str:
    """How much there is of it; of what is sealed nobody knows the tokens."""
    size_bytes = artifact.size_bytes
    known = f"sealed {artifact.sealed}" if artifact.sealed else tokens_of(artifact)
    return f"{size(size_bytes)}  {known}".rstrip()


def resolve(relay: Relay, text: str) -> str:
    """The ref that a person means: a ref, its beginning, a URL, or @last.

    Raises:
        NotFound: there is none; Gone: it is @last, and that is gone.
        Invalid: several refs start so, or it is a malformed URL.
    """
    if text.strip() != names.LAST:
        return run(relay.transport, names.find_ref(text, DOOR))
    door = replace(DOOR, places=tuple(push_places(relay)))
    return run(relay.transport, names.find_ref(text, door))


def resolve_to_remove(relay: Relay, text: str) -> str:
    """The ref that a person means to remove; @last is refused, for it may be another by now.

    Raises:
        NotFound: there is none.
        Invalid: it is @last, several refs start so, or it is a malformed URL.
    """
    if text.strip() == names.LAST:
        ref = resolve(relay, text)
        raise Invalid(
            "@last is not taken here: what it means may have changed",
            f"it is {short(ref)} now; say that if you mean it",
        )
    return resolve(relay, text)


def read_body(file: str | None) -> Iterator[bytes]:
    """The bytes of a file, or of stdin for `-`, chunk by chunk.

    Raises:
        Invalid: it cannot be read.
    """
    if file is None and sys.stdin.isatty():
        raise Invalid("nothing to store", "name a FILE, or pipe something in")
    if file is None or file == "-":
        return _chunks_of_stdin()
    if not file or "\0" in file:
        raise Invalid(f"{file!r} is no file name", "name a FILE, or - for stdin")
    path = Path(file)
    if path.is_dir():
        raise Invalid(
            f"{file} is a folder", "name a file in it, or pack it: tar c FOLDER | relay push"
        )
    if not path.exists():
        raise Invalid(f"there is no file {file}", "check the name, or use - for stdin")
    return _chunks_of(path)


def _chunks_of(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise Invalid(
            f"{path} cannot be read: {error.strerror}", "check its permissions"
        ) from error


def _chunks_of_stdin() -> Iterator[bytes]:
    while chunk := sys.stdin.buffer.read(CHUNK_BYTES):
        yield chunk


def save(file: str, chunks: Iterable[bytes]) -> int:
    """Write a file, whole or not at all; its size in bytes.

    Raises:
        Invalid: it cannot be written there.
    """
    try:
        return write_whole(Path(file), chunks)
    except RelayError:
        raise  # It is what comes that is not right, not where it goes.
    except (OSError, ValueError) as error:
        why = (isinstance(error, OSError) and error.strerror) or str(error)
        raise Invalid(
            f"{file} cannot be written: {why}", "name a file in a folder that exists"
        ) from error


def write_bytes(chunks: Iterable[bytes], what: str, how: str) -> None:
    """Write bytes to stdout as they are; to a terminal only what is text.

    Raises:
        Invalid: they are not text, and stdout is a terminal.
    """
    for index, chunk in enumerate(chunks):
        if index == 0 and sys.stdout.isatty() and _is_binary(chunk):
            raise Invalid(f"{what} is binary, which a terminal cannot show", how)
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def _is_binary(chunk: bytes) -> bool:
    """Whether the beginning of something is no text; a character may be cut at its end."""
    try:
        return "\0" in getincrementaldecoder("utf-8")().decode(chunk)
    except UnicodeDecodeError:
        return True


def name_of(file: str | None, given: str | None) -> str | None:
    """The artifact's name: as given, else the file's."""
    if given is not None or file in (None, "-"):
        return given
    return Path(file).name
