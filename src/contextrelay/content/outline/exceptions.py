"""Exceptions: the kinds of tracebacks in a text, each with type, message and last own frame.

A traceback has a head, which says what was raised, and frames: lines with a mark (`at`, `from`,
`#1`) or just a position, a file with a line. The head is above the frames, whose innermost comes
first; in Python it is below them, and the innermost is last. Some heads include a position. This
covers Java, JavaScript, C#, Go, Rust, Ruby, PHP, Perl, Elixir, C and Python.

Rule: only lines with a mark are examined, up to a limit, each by linear patterns, with a few lines
above or below it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from contextrelay.content.outline.layout import OutlinePiece, shorten
from contextrelay.content.source import Source

# Maximum number of lines that may be frames; tracebacks after them are not searched.
OUTLINE_FRAMES_MAX = 30_000

_LINE_CHARS = 500
_FRAME_CHARS = 100
_KINDS_MAX = 200
_MESSAGE_CHARS, _FEW, _FIRST = 160, 8, 3
_OUTERMOST = "{main}"
# A line without any of these is neither a frame nor a head without frames.
_MARKS = (
    *('File "', "\tat ", "  at ", "\tfrom ", "  from ", " called at ", "panicked at "),
    *(".rb:", ".go:", ".ex:", "#0 ", "#1 "),
)
_NUMBERED = tuple(f"#{number} " for number in range(2, 10))
_PYTHON = re.compile(r"File \"([^\"]{1,300})\", line (\d{1,9})(?:, in (.{1,100}))?")
_RAISED = re.compile(r"([A-Za-z_][\w.]{0,120})(?:: (.*))?$")
# After this mark a frame names its position and function; other frames have only a position.
_MARK = re.compile(r"(?:^|[\t ])(?:(?:at|from) |#\d+ +)(?=\S)")
# A Java frame may end with the archive that contains it.
_ARCHIVE = re.compile(r" ~?\[[^\[\]]{0,200}\]$")
_BARE = re.compile(r"\.(?:go:\d+(?=$| \+0x| fp=)|rb:\d+:in .{1,200}'$|exs?:\d+: \S+$)")
# A head with its position: `panicked at PLACE:`, the message below; `PLACE: message (Type)`.
_PANICKED = re.compile(r"panicked at (?:'(.{0,300})', )?([^\s']{1,200}:\d+:\d+):?$")
_PLACED = re.compile(r"([^\s:]{1,200}:\d+:in [`'].{1,100}?'): (.{0,300}) \(([A-Z][\w:]{1,100})\)$")
# If frames are numbered, and in Perl, the head may end with its position.
_PLACE = re.compile(r"(.{0,400}) (?:in|at) (\S{1,300}(?::\d+| line \d+))[.)]?$")
_TYPES = ("Exception", "Error", "Throwable", "Sanitizer")
# Exception and message, for types without a typical suffix.
_HEADS = (
    re.compile(r"(?:^|[\s\]])(panic|fatal error)(?: serving \S{1,100})?: (.+)"),
    re.compile(r"(?:received|with) (signal) (.+)"),
    re.compile(r"\*\* \(([A-Z][\w.]{1,100})\) (.+)"),
    re.compile(r"(?:^|[\s\]])([A-Z][\w:]{1,100}) \((.+)\):$"),
)
_NEXT_HEAD = re.compile(
    r"\s*(?:Caused by: )?((?:[\w$]{1,60}\.){0,12}[A-Z][\w$]{0,60}(?<!State)): (.+)"
)
_DIED = re.compile(r"()(.{1,400} at \S{1,300} line \d+\.?)$")
_NAME = re.compile(r"[\w$.\\]++")
# Text between a type and its message.
_BETWEEN = re.compile(r"(?: \[\w{1,60}\]|\(code: \w{1,60}\))?(?::\s*|$)")
# Frames outside the program: of the language or of installed packages.
_FOREIGN = re.compile(
    r"(?<![\w.])(?:node|dart):|node_modules|(?:site|dist)-packages|/lib/python\d|/usr/(?:local/)?(?:lib|go)/"
    r"|/pkg/mod/|Program Files/Go/|/rustc/|/\.(?:cargo|rustup)/|/gems/|/vendor/|__interceptor"
    r"|[(<](?:anonymous|frozen|native|main)\b|Native Method|\{main|\(elixir "
    r"|(?:^|[ /])(?:java|javax|jdk|sun|com\.sun|kotlin|scala|System|Microsoft)[./]"
)
# Maximum distance of a head from its frames, and of frames from each other.
_ABOVE_LINES, _BELOW_LINES, _APART_LINES = 10, 12, 2
_INNER, _INNER_END, _NESTED_MAX = "---> ", "--- End of inner exception", 10


class ExceptionKind(Struct):
    """Exceptions of one type from one frame."""

    line: int
    type: str
    message: str
    frame: str = ""
    count: int = 0


class Traces(Struct):
    """The tracebacks of a text."""

    kinds: list[ExceptionKind]  # In order of appearance.
    frames: set[int]  # The numbers of lines that are frames.
    unread_from: int = 0  # The first line that was not examined; 0 if all were.


def exceptions(source: Source) -> Traces:
    """Return the kinds of exceptions in a text, and the lines of their frames."""
    marked = _marked(source.text, len(source.short_lines))
    reader = _Reader(source.short_lines)
    for index in marked[:OUTLINE_FRAMES_MAX]:
        reader.read(index)
    kinds: dict[tuple[str, str], ExceptionKind] = {}
    for each in sorted(reader.found, key=lambda each: each.line):
        key = (each.type, each.frame)
        if key in kinds or len(kinds) < _KINDS_MAX:
            kinds.setdefault(key, each).count += 1
    unread = marked[OUTLINE_FRAMES_MAX:]
    return Traces(list(kinds.values()), reader.frames, unread[0] + 1 if unread else 0)


def exception_pieces(traces: Traces) -> list[OutlinePiece]:
    """Return a piece for each kind, with its position if there is room."""
    pieces: list[OutlinePiece] = []
    for index, each in enumerate(traces.kinds):
        times = f" x{each.count}" if each.count > 1 else ""
        head = ": ".join(filter(None, (f"exception {each.line}{times}", each.type)))
        short = f"{head}: {shorten(each.message, 60)}" if each.message else head
        full = f"{head}: {shorten(each.message, _MESSAGE_CHARS)}" if each.message else head
        frame = shorten(each.frame, _LINE_CHARS)
        # A long frame is cut at its start, because file and line are at the end.
        at = f", at {frame if len(frame) <= _FRAME_CHARS else f'…{frame[1 - _FRAME_CHARS :]}'}"
        forms = (short, short + at, full + at)
        # If there are few, each has its position before other lines are shown.
        pieces.append(OutlinePiece(index >= _FIRST, forms[len(traces.kinds) <= _FEW :]))
    if traces.unread_from:
        unread = f"from line {traces.unread_from} on no traces were looked for"
        pieces.append(OutlinePiece(1, (unread,)))
    return pieces


def is_shown(head: ExceptionKind | None, text: str) -> bool:
    """Return True if a line only repeats what is shown of its exception."""
    if head is None or len(head.message) > _MESSAGE_CHARS:
        return False
    return text.endswith(f"{head.type}: {head.message}" if head.message else head.type)


def _marked(text: str, lines_max: int) -> list[int]:
    """Return the indexes of the first marked lines, one more than the limit."""
    found: set[int] = set()
    for mark in (*_MARKS, *(_NUMBERED if "#1 " in text else ())):
        line = at = 0
        for _ in range(OUTLINE_FRAMES_MAX + 1):
            here = text.find(mark, at)
            if here < 0:
                break
            line += text.count("\n", at, here)
            found.add(line)
            at = text.find("\n", here)
            if at < 0:
                break
    return [index for index in sorted(found) if index < lines_max][: OUTLINE_FRAMES_MAX + 1]


def _frame_of(line: str) -> str:
    """Return the frame in a line; "" if there is none."""
    if bare := _BARE.search(line):
        start = max(line.rfind(" ", 0, bare.start()), line.rfind("\t", 0, bare.start())) + 1
        return line[start : bare.end()]
    mark = _MARK.search(line)
    text = _ARCHIVE.sub("", line[mark.end() :].removesuffix(" {")) if mark else ""
    is_placed = ":" in text or "(" in text or " line " in text or text == _OUTERMOST
    return text if is_placed and (text[-1] in ")'}" or text[-1].isdigit()) else ""


class _Reader:
    """Reads marked lines in order; the results are in `found` and `frames`."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.found: list[ExceptionKind] = []
        self.frames: set[int] = set()
        self._lines = lines
        self._known: dict[str, str] = {}  # Frames by line.
        self._heads: dict[tuple[str, bool], tuple[str, str] | None] = {}
        self._last = -_ABOVE_LINES  # The index of the last frame.
        self._is_open = False  # Whether the last exception still lacks a frame of the program.
        self._own = ""  # For a traceback with its head below: the last frame of the program so far.
        self._outer: list[int] = []
        """Heads whose frames follow those of their cause, the innermost last."""

    def read(self, index: int) -> None:
        line = self._line(index)
        if 'File "' in line and (place := _PYTHON.search(line)):
            self._read_python(index, place)
            return
        # A head that includes its position may have no frames.
        head = None
        if "panicked at " in line and (panic := _PANICKED.search(line)):
            margin = max(0, line.find("thread '"))
            below = self._line(index + 1)[margin:] if index + 1 < len(self._lines) else ""
            head = ExceptionKind(index + 1, "panic", panic[1] or below.strip(), panic[2])
        elif ":in " in line and line[-1:] == ")" and (placed := _PLACED.search(line)):
            head = ExceptionKind(index + 1, placed[3], placed[2], placed[1])
        if head is not None:
            self.found.append(head)
            self._is_open = _FOREIGN.search(head.frame) is not None
            # Message and title precede the frames.
            self._last = index + _APART_LINES
            return
        if line not in self._known:
            self._known[line] = _frame_of(line)
        if frame := self._known[line]:
            self._read_frame(index, frame)

    def _line(self, index: int) -> str:
        return self._lines[index][:_LINE_CHARS].rstrip("\r ")

    def _read_python(self, index: int, place: re.Match[str]) -> None:
        here = f"{place[1].rpartition('/')[2]}:{place[2]} in {place[3] or '?'}"
        self._own = self._own if self._own and _FOREIGN.search(place[1]) else here
        margin = max(0, place.start() - 2)
        self.frames.add(index + 1)
        if index and "Traceback (most" in self._lines[index - 1]:
            self.frames.add(index)
        for at in range(index + 1, min(index + 1 + _BELOW_LINES, len(self._lines))):
            line = self._line(at)
            if 'File "' in line:
                return
            if line[margin : margin + 1] in (" ", "\t"):
                self.frames.add(at + 1)
                continue
            if raised := _RAISED.match(line, margin):
                message = (raised[2] or "").strip()
                self.found.append(ExceptionKind(at + 1, raised[1], message, self._own))
            break
        self._own, self._is_open = "", False

    def _read_frame(self, index: int, frame: str) -> None:
        apart = index - self._last
        if apart > 1:
            head = self._above(index)
            if head is not None:
                self.found.append(head)
            self._is_open = head is not None or (self._is_open and apart <= _APART_LINES)
        self.frames.update(range(self._last + 2 if apart <= _APART_LINES else index + 1, index + 2))
        self._last = index
        if not self._is_open:
            return
        kind = self.found[-1]
        if not kind.frame and (place := _PLACE.match(kind.message)):
            kind.message, kind.frame = place[1], place[2]
            self._is_open = _FOREIGN.search(kind.frame) is not None
        is_own = _FOREIGN.search(frame) is None
        if self._is_open and (is_own or not kind.frame):
            kind.frame = frame
            self._is_open = not is_own

    def _above(self, index: int) -> ExceptionKind | None:
        for at in range(index - 1, max(self._last, index - 1 - _ABOVE_LINES, -1), -1):
            line = self._line(at)
            if _INNER_END in line:
                return self._head(self._outer.pop(), True) if self._outer else None
            head = self._head(at, at == index - 1)
            if head is not None:
                # The heads above one that is their cause.
                causes: list[int] = []
                while at and len(causes) < _NESTED_MAX and _INNER in self._line(at):
                    at -= 1
                    causes.append(at)
                self._outer = causes[::-1] or self._outer[-_NESTED_MAX:]
                return head
        return None

    def _head(self, at: int, is_next: bool) -> ExceptionKind | None:
        line = self._line(at)
        if (line, is_next) not in self._heads:
            self._heads[line, is_next] = _head_of(line, is_next)
        head = self._heads[line, is_next]
        return ExceptionKind(at + 1, *head) if head else None


def _head_of(line: str, is_next: bool) -> tuple[str, str] | None:
    """Return type and message of a head above frames; `is_next` means directly above."""
    if any(hint in line for hint in _TYPES):
        for name in _NAME.finditer(line):
            between = _BETWEEN.match(line, name.end()) if name[0].endswith(_TYPES) else None
            if between is None and is_next and line[name.end() : name.end() + 1] in (" ", "["):
                between = name if name[0].endswith(_TYPES) else None
            if between is not None and name[0] != "Exception":
                return name[0], line[between.end() :].strip()
    found = next(filter(None, (head.search(line) for head in _HEADS)), None)
    if found is None and is_next:
        found = _NEXT_HEAD.match(line) or _DIED.match(line)
    return (found[1], found[2].strip()) if found else None
