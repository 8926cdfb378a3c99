"""The tools of a run, and the git-tracked files that a run may list and read.

Rule: only tracked files are read. No link is followed, even if a link has replaced a folder in the
meantime. Programs that a repository configures are never run.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from msgspec import DecodeError, Meta, Struct, ValidationError
from msgspec.json import decode, schema_components

from contextrelay import verbs
from contextrelay.client.entries import now
from contextrelay.client.flow import Flow, InThread, SendBody
from contextrelay.client.inspect import PieceChoice
from contextrelay.content.untrusted.defuse import defuse
from contextrelay.content.untrusted.fence import fenced_hits, fenced_piece, noted, plain_line
from contextrelay.documents.values import is_list, is_object
from contextrelay.errors import Failed, Invalid, NotFound, RelayError, TooLarge
from contextrelay.limits import KIB, MIB, NAME_CHARS_MAX, PIECE_TOKENS_DEFAULT, QUERY_CHARS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.inspect import Found, Outlined, Piece
from contextrelay.model.ref import parse_ref
from contextrelay.runs.draft import Draft, RelayState
from contextrelay.runs.provider import Tool, ToolCall, ToolResult

RUN_ARGUMENTS_BYTES_MAX = MIB
RUN_PIECE_TOKENS_MAX = 8_000
# Limits of tracked files: the size of one file, the total size of all names, and the number of
# listed files.
RUN_FILE_BYTES_MAX = 4 * MIB
RUN_WHOLE_FILE_BYTES_MAX = 8 * KIB
RUN_FILES_BYTES_MAX = 8 * MIB
RUN_FILES_SHOWN_MAX = 500
RUN_FILES_S_MAX = 20


_REGULAR = (b"100644", b"100755")
_GIT = (
    "git",
    "-c",
    "safe.bareRepository=explicit",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
)
# In a partial clone, git runs a configured command to fetch objects, and this may be any command.
_NO_TRANSPORT = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}


class TrackedFiles:
    """The files that git tracks in a folder and below."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: list[str] | None = None

    def paths(self) -> list[str]:
        """Return the paths of all tracked files that are not links, relative to the folder, in
        order.

        Raises:
            Failed: git is not installed, fails, or takes too long.
            TooLarge: there are too many files.
        """
        if self._paths is None:
            lines = _listed(self._folder).split(b"\0")
            entries = (line.partition(b"\t") for line in lines if line)
            tracked = (
                os.fsdecode(path) for about, _, path in entries if about.split()[0] in _REGULAR
            )
            self._paths = sorted(filter(_is_below, tracked))
        return self._paths

    def matching(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern such as `src/*.py`. `*` also matches slashes."""
        every = self.paths()
        return [path for path in every if fnmatchcase(path, pattern)] if pattern else every

    def read(self, path: str) -> bytes:
        """Return the content of a tracked file.

        Raises:
            NotFound: git does not track the file here.
            Invalid: it is not a regular file.
            TooLarge: the file is too large to be shown.
        """
        if path not in self.paths():
            raise NotFound(f"git does not track {path!r} here", "list them with relay_files")
        try:
            with open(_opened(self._folder, path), "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise Invalid(f"{path!r} is not a regular file", "read another file")
                content = file.read(RUN_FILE_BYTES_MAX + 1)
        except OSError as error:
            raise Invalid(f"cannot read {path!r}: {error.strerror}", "read another file") from error
        if len(content) > RUN_FILE_BYTES_MAX:
            raise TooLarge(f"{path!r} is too large", f"the limit is {RUN_FILE_BYTES_MAX:,} bytes")
        return content


def is_tracked_folder(folder: Path) -> bool:
    """Return True if a folder seems to be in the work tree of a git repository."""
    return any((each / ".git").exists() for each in (folder, *folder.parents))


def _listed(folder: Path) -> bytes:
    """Return the output of `git ls-files` for a folder, with limits on size and time."""
    command = [*_GIT, "-C", str(folder), "ls-files", "-z", "--stage", "--", "."]
    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_NO_TRANSPORT},
        ) as git:
            try:
                found, _ = git.communicate(timeout=RUN_FILES_S_MAX)
            finally:
                with suppress(OSError):
                    git.kill()
    except FileNotFoundError as error:
        raise Failed("git is not installed, so files cannot be listed", "install git") from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"git took more than {RUN_FILES_S_MAX} s to list files", "retry") from error
    if git.returncode:
        raise Failed("git cannot list files here", "run relay in the work tree of a git repository")
    if len(found) > RUN_FILES_BYTES_MAX:
        raise TooLarge(
            f"git tracks {len(found):,} bytes of file names here",
            f"the limit is {RUN_FILES_BYTES_MAX:,}: run relay in a folder with fewer files",
        )
    return found


def _is_below(path: str) -> bool:
    """Return True if a path is below the folder and not part of .git.

    git itself adds no other paths, but the index of a repository by somebody else may contain any
    path.
    """
    return not any(part.lower() in ("", ".", "..", ".git") for part in path.split("/"))


def _opened(folder: Path, path: str) -> int:
    """Open a file below a folder without following links, and return its descriptor."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    place = os.open(folder, flags & ~os.O_NOFOLLOW | os.O_DIRECTORY)
    *folders, name = path.split("/")
    try:
        for each in folders:
            inner = os.open(each, flags | os.O_DIRECTORY, dir_fd=place)
            os.close(place)
            place = inner
        # Opening a pipe must not block. The type of the file is checked next.
        return os.open(name, flags | os.O_NONBLOCK, dir_fd=place)
    finally:
        os.close(place)


_PREFIX_CHARS_MIN = 6
# There is no search tool here, because it would find results of other steps, but a result may
# depend only on what the model was shown.
_LOOKS = ("relay_get",)
_TokensMax = Annotated[
    int, Meta(ge=50, le=RUN_PIECE_TOKENS_MAX, description="Maximum size of the answer.")
]


class GetArgs(PieceChoice, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ref: Annotated[str, Meta(min_length=6, max_length=200, description="The ref of an artifact.")]
    tokens_max: _TokensMax = PIECE_TOKENS_DEFAULT


class RelaySearch(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(min_length=1, max_length=QUERY_CHARS_MAX)]
    ref: Annotated[str, Meta(description="Search only this artifact.")] | None = None
    tokens_max: _TokensMax = PIECE_TOKENS_DEFAULT


class RelayPut(Struct, frozen=True, forbid_unknown_fields=True):
    content: Annotated[str, Meta(min_length=1)]
    name: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=NAME_CHARS_MAX,
                description="A file name, for example plan.md",
            ),
        ]
        | None
    ) = None


class RelayFiles(Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[
        str, Meta(max_length=200, description="For example src/*.py; default: all.")
    ] = ""


class RelayRead(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    tokens_max: _TokensMax = PIECE_TOKENS_DEFAULT


class Used(Struct, frozen=True):
    """The result of a tool call, and the refs that the call read or created."""

    result: ToolResult
    refs: tuple[str, ...] = ()


class Toolbox:
    """The tools of one run, the refs that they have shown, and the draft that they write."""

    def __init__(
        self, thread: str, run: str, by: str, files: TrackedFiles | None, only_looks: bool = False
    ) -> None:
        self._thread = thread
        self._run = run
        self._by = by
        self._files = files
        self._only_looks = only_looks
        self.draft = Draft()
        self.refs: dict[str, None] = {}
        """The refs that were shown to the model or read by it, in order."""
        self._read: dict[str, Artifact] = {}

    def tools(self) -> tuple[Tool, ...]:
        offered = tools_with(self._files is not None)
        return tuple(each for each in offered if not self._only_looks or each.name in _LOOKS)

    def use(self, call: ToolCall) -> Flow[Used]:
        """Run a tool call of the model, and return its result. An error becomes the result for the
        model.
        """
        takes = {tool.name for tool in self.tools()}
        try:
            if call.name not in takes:
                raise Invalid(
                    f"unknown tool {call.name[:80]!r}", f"tools: {', '.join(sorted(takes))}"
                )
            text, refs = yield from _ACTS[call.name](self, arguments_of(call))
        except RelayError as error:
            hint = f"; {error.hint}" if error.hint else ""
            said = plain_line(f"{error.message}{hint}")
            return Used(ToolResult(call.id, f"error: {said}", is_error=True))
        self.refs.update(dict.fromkeys(refs))
        return Used(ToolResult(call.id, text), refs)

    # The tools

    def get(self, asked: GetArgs) -> Flow[tuple[str, tuple[str, ...]]]:
        ref = self._known(asked.ref)
        ways = asked.ways()
        if asked.grep is not None:
            found: Found = yield verbs.Grep(
                asked.grep,
                ref,
                context=asked.context,
                after_line=asked.after_line,
                tokens_max=asked.tokens_max,
            )
            return fenced_piece(found, ref), (ref,)
        if ways:
            piece: Piece = yield verbs.Slice(ref, **ways, tokens_max=asked.tokens_max)
            return fenced_piece(piece, f"{ref} {piece.way} {piece.at}"), (ref,)
        verb = verbs.Outline if asked.outline else verbs.Digest
        shape: Outlined = yield verb(ref, asked.tokens_max)
        return fenced_piece(shape, ref), (ref,)

    def search(self, asked: RelaySearch) -> Flow[tuple[str, tuple[str, ...]]]:
        # Search only in this thread, because the model was not given other threads.
        ref = None if asked.ref is None else self._known(asked.ref)
        thread = self._thread if ref is None else None
        hits = yield verbs.Search(asked.query, thread, ref, tokens_max=asked.tokens_max)
        return fenced_hits(hits), tuple(dict.fromkeys(hit.ref for hit in hits.hits))

    def note(self, asked: RelayState) -> Flow[tuple[str, tuple[str, ...]]]:
        ids = yield from self._try(self.draft.with_state(asked))
        return noted_text(asked, ids), ()

    def put(self, asked: RelayPut) -> Flow[tuple[str, tuple[str, ...]]]:
        self.draft.check_size()
        push = verbs.Push(name=asked.name, created_by=self._by, metadata={"run": self._run})
        artifact: Artifact = yield SendBody(push, asked.content.encode())
        yield from self._try(self.draft.with_artifact(artifact))
        return f"stored as {artifact.ref}; kept with your answer", (artifact.ref,)

    def list_files(self, asked: RelayFiles) -> Flow[tuple[str, tuple[str, ...]]]:
        assert self._files is not None
        files = self._files
        found: list[str] = yield InThread(lambda: files.matching(asked.pattern))
        shown = found[:RUN_FILES_SHOWN_MAX]
        notes = [f"{len(shown):,} of {len(found):,} files shown", "read one with relay_read"]
        if len(found) > len(shown):
            notes.insert(1, "narrow them with a pattern")
        return noted("\n".join(shown), "files that git tracks", notes, "no file matches"), ()

    def read_file(self, asked: RelayRead) -> Flow[tuple[str, tuple[str, ...]]]:
        assert self._files is not None
        files = self._files
        artifact = self._read.get(asked.path)
        if artifact is None:
            content: bytes = yield InThread(lambda: files.read(asked.path))
            push = verbs.Push(
                name=_file_name(asked.path),
                created_by=self._by,
                metadata={"run": self._run, "path": asked.path},
            )
            artifact = yield SendBody(push, content)
            self._read[asked.path] = artifact
        is_whole = artifact.is_text and artifact.size_bytes <= RUN_WHOLE_FILE_BYTES_MAX
        verb: Any = verbs.Digest(artifact.ref, asked.tokens_max)
        if is_whole and artifact.size_bytes:
            verb = verbs.Slice(artifact.ref, lines="1:", tokens_max=asked.tokens_max)
        piece = yield verb
        about = f"{asked.path}, stored as {artifact.ref}"
        return fenced_piece(piece, about), (artifact.ref,)

    def _try(self, draft: Draft) -> Flow[list[str]]:
        """Add entries to the draft if the state allows the resulting patch, and return the ids of
        the entries.

        Raises:
            Refused: the state does not allow the patch; the draft is unchanged.
        """
        state: dict[str, Any] = decode((yield verbs.ReadState(self._thread)).state)
        ids, operations = draft.operations(state, now())
        yield verbs.TryPatch(self._thread, operations)
        self.draft = draft
        return ids

    def _known(self, text: str) -> str:
        """Return the full ref for a text, which is a ref or the beginning of a ref that was shown
        in this run.
        """
        text = text.strip()
        if len(text) < 36 and len(text) >= _PREFIX_CHARS_MIN:
            found = [ref for ref in self.refs if ref.startswith(text.lower())]
            if len(found) == 1:
                return found[0]
        return parse_ref(text)


_Act = Callable[[Any, Any], Flow[tuple[str, tuple[str, ...]]]]
_OFFERED: dict[str, tuple[type[Any], _Act, str]] = {
    "relay_get": (
        GetArgs,
        Toolbox.get,
        (
            "Read a part of an artifact by its ref, without loading all of it: its outline, lines,"
            " lines that match a pattern, a place in JSON, a section, a symbol. Without options:"
            " a digest of it."
        ),
    ),
    "relay_search": (
        RelaySearch,
        Toolbox.search,
        "Search by words, best passages first, in everything of this thread, or in one artifact.",
    ),
    "relay_state": (
        RelayState,
        Toolbox.note,
        (
            "Record what the next agent has to know: facts, decisions, open questions, next "
            "steps; or"
            " resolve questions and steps by their ids. It is checked now, and stored with your"
            " answer."
        ),
    ),
    "relay_put": (
        RelayPut,
        Toolbox.put,
        (
            "Store a document, for example a plan or code, as an artifact of the thread; returns "
            "its"
            " ref. Your answer itself is stored anyway."
        ),
    ),
    "relay_files": (
        RelayFiles,
        Toolbox.list_files,
        "List the files that git tracks in the user's folder.",
    ),
    "relay_read": (
        RelayRead,
        Toolbox.read_file,
        (
            "Read one of these files. It is stored as an artifact: read further parts with"
            " relay_get and its ref."
        ),
    ),
}
_OF_FILES = ("relay_files", "relay_read")
_ACTS = {name: act for name, (_, act, _) in _OFFERED.items()}


def tools_with(files: bool) -> tuple[Tool, ...]:
    """Return the tools that are offered to a model. File tools are included only if there are
    tracked files.
    """
    return tuple(
        Tool(name, description, _schema(takes))
        for name, (takes, _, description) in _OFFERED.items()
        if files or name not in _OF_FILES
    )


def noted_text(asked: RelayState, ids: list[str]) -> str:
    """Return the reply to a note. The last items of `ids` are the ids of the entries that the note
    added.
    """
    added = ids[len(ids) - len(asked.entries()) :]
    noted_down = ", ".join([*added, *(f"{id} is done" for id in asked.resolve)])
    return f"noted: {plain_line(noted_down)}; kept with your answer"


def arguments_of(call: ToolCall) -> Any:
    """Return the parsed arguments of a call, after checking them.

    Raises:
        Invalid: the arguments are not valid JSON, or do not match the tool.
    """
    takes = _OFFERED[call.name][0]
    expected = f"arguments of {call.name}: {', '.join(takes.__struct_fields__)}"
    if len(call.arguments.encode(errors="replace")) > RUN_ARGUMENTS_BYTES_MAX:
        raise Invalid("arguments too long", f"the limit is {RUN_ARGUMENTS_BYTES_MAX:,} bytes")
    try:
        given = decode(call.arguments or "{}")
        if is_object(given):  # Models send null for arguments that they omit.
            given = {name: value for name, value in given.items() if value is not None}
        return verbs.from_json(given, takes)
    except (DecodeError, ValidationError, UnicodeError, RecursionError) as error:
        raise Invalid(f"invalid arguments for {call.name}: {error}", expected) from error


def _file_name(path: str) -> str | None:
    """Return the last part of a path if it is a valid artifact name, or None."""
    name = PurePosixPath(path).name
    is_plain = name == defuse(name).text and name.isprintable() and "\\" not in name
    return name[:NAME_CHARS_MAX] if is_plain else None


# Schemas are sent with every call and cost tokens. So they contain no limits: these are checked
# here, and an error names a limit that was exceeded.
_NOT_SENT = ("title", "default", "minLength", "maxLength", "maxItems")


def _schema(takes: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments, without references and without unions with null."""
    _, components = schema_components([takes], ref_template="{name}")

    def plain(value: Any) -> Any:
        if is_list(value):
            return [plain(each) for each in value]
        if not is_object(value):
            return value
        if "$ref" in value:
            return plain(components[value["$ref"]])
        choices = [each for each in value.get("anyOf", ()) if each != {"type": "null"}]
        if len(choices) == 1:
            return plain({**choices[0], **{k: v for k, v in value.items() if k != "anyOf"}})
        return {name: plain(each) for name, each in value.items() if name not in _NOT_SENT}

    return plain(components[takes.__name__])
