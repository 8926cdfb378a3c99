"""Diffs: files with numbers of added and removed lines, and the lines of their hunks."""

from __future__ import annotations

import re
from itertools import takewhile

from msgspec import Struct

from contextrelay.content.outline.layout import JOINED, OutlineDraft, OutlinePiece, shorten
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_PIECES_MAX

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")
_COMMIT = re.compile(r"(?:commit|From) ([0-9a-f]{7,40})\b")
_HUNKS_SHOWN = 6
_STATUS = {
    "new file mode": "new",
    "deleted file mode": "deleted",
    "rename from": "renamed",
    "Binary files": "binary",
    "GIT binary patch": "binary",
}
_STARTS = tuple(_STATUS)
_SUBJECT = re.compile(r"Subject: (?:\[PATCH[^\]]*\] )?(.*)")


class _File(Struct, gc=False):
    path: str
    line: int
    added: int = 0
    removed: int = 0
    # Start line in the new file, number of lines there, and the enclosing definition.
    hunks: list[tuple[str, int, str]] = []
    status: str = ""


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a diff, or None if it has no files."""
    files, commits = _read(source.short_lines)
    if not files:
        return None
    added, removed = sum(each.added for each in files), sum(each.removed for each in files)
    hunks = sum(len(each.hunks) for each in files)
    changed = sum(bool(each.hunks) for each in files)
    inside = "" if changed == len(files) else f" ({changed} with hunks)"
    counts = f"{len(files)} files{inside}, {hunks} hunks, +{added} -{removed}"
    pieces = [OutlinePiece(0, (f"diff, {counts}, {source.measure()}",))]
    pieces += [OutlinePiece(3, (shorten(text, 70), shorten(text, 120))) for text in commits[:50]]
    folder = None
    paths = [each.path for each in files]
    pairs = zip(min(paths).split("/")[:-1], max(paths).split("/")[:-1], strict=False)
    # Strip the folder that all files have in common, with its slash.
    above = "".join(f"{one}/" for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    if above:
        pieces.append(OutlinePiece(0, (f"all in {shorten(above, 200)}",)))
    for each in files[:OUTLINE_PIECES_MAX]:
        parent, _, name = each.path.removeprefix(above).rpartition("/")
        if parent != folder:
            folder = parent
            pieces.append(OutlinePiece(2, (f"{shorten(parent, 120) or '.'}/:",)))
        pieces.append(OutlinePiece(2, _forms(each, name), JOINED))
    first = files[0]
    names = dict.fromkeys(path.rpartition("/")[2] for path in paths)
    return OutlineDraft("diff", pieces, f"--lines {first.line}:{first.line + 40}", names=names)


def _forms(each: _File, name: str) -> tuple[str, ...]:
    """Return forms for a file: name and size of the change, with its line, then with its hunks."""
    name = shorten(name, 80)
    status = f" {each.status}" if each.status else ""
    short = f"{name}{status} +{each.added} -{each.removed}"
    where = f"{short}:{each.line}"
    if not each.hunks:
        return name, short, where
    shown = [
        (f"{start}-{int(start) + count - 1}" if count > 1 else start, inside)
        for start, count, inside in each.hunks[:_HUNKS_SHOWN]
    ]
    left = len(each.hunks) - len(shown)
    more = f", {left} more" if left else ""
    ranges = ", ".join(lines for lines, _ in shown)
    inside = ", ".join(f"{lines} {shorten(inside, 40)}".rstrip() for lines, inside in shown)
    return name, short, where, f"{where} ({ranges}{more})", f"{where} ({inside}{more})"


def _read(lines: list[str]) -> tuple[list[_File], list[str]]:
    files: list[_File] = []
    commits: list[str] = []
    old_left = new_left = 0
    file = _File("", 0)
    for number, line in enumerate(lines, 1):
        if old_left > 0 or new_left > 0:
            sign = line[:1]
            if sign in ("+", "-", " ", "", "\\"):
                file.added += sign == "+"
                file.removed += sign == "-"
                new_left -= sign in ("+", " ", "")
                old_left -= sign in ("-", " ", "")
                continue
            old_left = new_left = 0
        if line[:6] == "index " or not line:
            continue
        hunk = _HUNK.match(line) if line[:2] == "@@" else None
        if hunk and files:
            old_left = int(hunk[2] or 1)
            new_left = int(hunk[4] or 1)
            file = files[-1]
            file.hunks.append((hunk[3], new_left, hunk[5]))
        else:
            _header(files, commits, number, line)
    return files, commits


def _header(files: list[_File], commits: list[str], number: int, line: str) -> None:
    start = line[:4]
    if start == "+++ ":
        if files and line == f"+++ b/{files[-1].path}" and not files[-1].hunks:
            return  # As already announced.
        path = _path(line[4:])
        if files and not files[-1].hunks and files[-1].line >= number - 20:
            if path != "/dev/null":
                files[-1].path = path
        else:
            files.append(_File(path, number))
    elif start == "--- ":
        if not files or files[-1].hunks:
            files.append(_File(_path(line[4:]), number))
    elif start == "diff" and line.startswith("diff --git "):
        files.append(_File(_path(line.rpartition(" b/")[2]), number))
    elif line.startswith(("commit ", "From ")) and (commit := _COMMIT.match(line)):
        commits.append(f"commit {commit[1][:12]}")
    elif start == "    " and commits and line.strip() and " " not in commits[-1][7:]:
        commits[-1] += f" {line.strip()}"  # The subject line, in a log.
    elif line.startswith("Subject: ") and (subject := _SUBJECT.match(line)):
        commits.append(subject[1])
    elif files and line.startswith(_STARTS):
        files[-1].status = next(_STATUS[start] for start in _STARTS if line.startswith(start))


def _path(text: str) -> str:
    text = text.partition("\t")[0].strip().strip('"')
    return text[2:] if text.startswith(("a/", "b/")) else text
