"""Artifacts: a list, and one artifact with a view of a part of its body.

Rule: foreign HTML and images are shown only where they are harmless: in a sandboxed frame, or as
an image.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from msgspec import DecodeError
from msgspec.json import decode

from contextrelay.cli import display
from contextrelay.client.seal.pull import descriptions
from contextrelay.content.untrusted.hidden_chars import hidden_in_script
from contextrelay.documents.pointer import find, parse
from contextrelay.errors import Invalid, NotFound, RelayError, TooLarge
from contextrelay.limits import KIB, MIB, PAGE_PIECE_TOKENS, PAGE_ROWS
from contextrelay.model.artifact import Artifact
from contextrelay.verbs import Pull
from contextrelay.web.screen import BytesReply, Done, PageVisit, Screen

# The number of lines of a body per screen.
PAGE_LINES = 200
PAGE_TABLE_ROWS = 100
# The maximum size of Markdown to render. Hostile text of this size takes about a second.
PAGE_MARKDOWN_BYTES = 32 * KIB
PAGE_MATCHES = 50
PAGE_HEX_BYTES = 4_096
# The maximum size of an image, or of HTML in its frame.
PAGE_FRAME_BYTES_MAX = 2 * MIB
# The maximum size of an encrypted body that the browser decrypts.
PAGE_SEALED_BYTES_MAX = 16 * MIB


IMAGES = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml"}
)
Answer = dict[str, Any]


def artifacts(visit: PageVisit) -> Screen:
    """List artifacts, newest first, filtered by name, type or thread."""
    asked = {name: given for name in ("name", "type", "thread") if (given := visit.text(name))}
    listing = visit.relay.list(PAGE_ROWS, visit.text("after"), **asked)  # pyright: ignore[reportArgumentType] (checked there)
    options = [f"--{flag} {display.quoted(given)}" for flag, given in asked.items()]
    return Screen(
        template="artifacts",
        title="Artifacts",
        command=" ".join(["relay artifact list", *options]),
        answer={
            "artifacts": listing.artifacts,
            "next": listing.next,
            "is_filtered": bool(asked),
        },
        place="artifacts",
    )


def artifact(visit: PageVisit) -> Screen:
    """Show an artifact, its outline, and one view of its body."""
    ref = visit.ref()
    peeked = visit.relay.peek(ref)
    views = _views(peeked)
    view = visit.text("view") or views[0]
    if view not in views:
        raise NotFound(f"unknown view {view[:40]!r}", f"views: {', '.join(views)}")
    short = display.short(ref)
    command, body = _BODIES[view](visit, peeked) if view in _BODIES else (f"relay peek {short}", {})
    answer: Answer = {
        "artifact": peeked,
        "views": views,
        "view": view,
        "lineage": visit.relay.lineage(ref),
        "outline": None,
        **body,
    }
    if peeked.is_text and not peeked.sealed:
        answer["outline"] = _unless_refused(lambda: visit.relay.outline(ref))
    drawn: Answer = {"outlined": [], "described": ""}
    if answer["outline"] is not None:
        outline = answer["outline"]
        drawn["outlined"] = list(_outlined(outline.text, outline.kind))
    if peeked.sealed:
        drawn["described"] = " ".join(each.hex() for each in descriptions(peeked))
        drawn["hidden"] = hidden_in_script()
    return Screen(
        template="artifact",
        title=peeked.name or short,
        command=command,
        answer=answer,
        drawn=drawn,
        place="artifacts",
    )


def _views(peeked: Artifact) -> list[str]:
    """Return the names of the views that a body has, the best first."""
    if peeked.sealed:
        return ["sealed"]
    first = {"json": "tree", "csv": "table", "html": "frame", "markdown": "read"}.get(peeked.type)
    if peeked.media_type in IMAGES:
        first = "image"
    kinds = [first] if first else []
    if peeked.is_text:
        kinds += ["lines", "grep", "search"]
    return [*kinds, "preview", "hex", "diff"]


def _unless_refused(ask: Any) -> Any:
    try:
        return ask()
    except RelayError:
        return None


# Bodies


def _read(visit: PageVisit, peeked: Artifact) -> tuple[str, Answer]:
    """Return the beginning of a Markdown text as HTML."""
    text = visit.relay.pull(peeked.ref, 0, PAGE_MARKDOWN_BYTES).decode(errors="replace")
    is_whole = peeked.size_bytes <= PAGE_MARKDOWN_BYTES
    answer = {"text": text if is_whole else text.rpartition("\n")[0], "is_whole": is_whole}
    return f"relay pull {display.short(peeked.ref)}", answer


def _lines(visit: PageVisit, peeked: Artifact) -> tuple[str, Answer]:
    """Return a page of numbered lines, with links to the previous and the next page."""
    total = peeked.preview.line_count
    first = visit.number("line", 1, least=1)
    first = max(1, min(first, total or 1))
    span = f"{first}:{first + PAGE_LINES}"
    piece = visit.relay.slice(peeked.ref, lines=span, tokens_max=PAGE_PIECE_TOKENS)
    last = int(piece.at.partition(":")[2] or first)
    answer = {
        "piece": piece,
        "first": first,
        "earlier": max(1, first - PAGE_LINES) if first > 1 else 0,
        "later": last if last <= total else 0,
        "total": total,
    }
    return f"relay get {display.short(peeked.ref)} --lines {span}", answer


def _tree(visit: PageVisit, peeked: Artifact) -> tuple[str, Answer]:
    """Return the part of a JSON document at a pointer, as a tree."""
    pointer = visit.text("pointer")
    if peeked.size_bytes > PAGE_FRAME_BYTES_MAX:
        piece = visit.relay.slice(peeked.ref, json_pointer=pointer, tokens_max=PAGE_PIECE_TOKENS)
        answer: Answer = {"pointer": pointer, "value": None, "piece": piece}
    else:
        try:
            value = find(decode(visit.relay.pull(peeked.ref)), parse(pointer))
        except (DecodeError, UnicodeError, RecursionError) as error:
            raise Invalid(f"not valid JSON: {error}", "use the view Lines") from error
        answer = {"pointer": pointer, "value": value, "piece": None}
    return f"relay get {display.short(peeked.ref)} --json-pointer {display.quoted(pointer)}", answer


def _table(visit: PageVisit, peeked: Artifact) -> tuple[str, Answer]:
    """Return rows and columns of a table."""
    start = visit.number("row", 0)
    columns = tuple(each for each in visit.text("columns").split(",") if each)
    span = f"{start}:{start + PAGE_TABLE_ROWS}"
    piece = visit.relay.slice(peeked.ref, rows=span, columns=columns, tokens_max=PAGE_PIECE_TOKENS)
    rows = list(csv.reader(piece.text.splitlines(keepends=True)))
    answer = {
        "columns": rows[0] if rows else [],
        "rows": rows[1:],
        "row": start,
        "later": start + PAGE_TABLE_ROWS if len(rows) > PAGE_TABLE_ROWS else 0,
        "notes": piece.notes,
        "left_out": piece.left_out,
    }
    return f"relay get {display.short(peeked.ref)} --rows {span}", answer


def _grep(visit: PageVisit, peeked: Artifact) -> tuple[str, Answer]:
    """Return the lines that match a pattern."""
    pattern, short = visit.text("pattern"), display.short(peeked.ref)
    if not pattern:
        return f"relay grep PATTERN {short}", {"found": None, "later": 0}
    is_fixed = visit.text("regex") != "on"
    found = visit.relay.grep(
        pattern,
        peeked.ref,
        is_fixed=is_fixed,
        ignore_case=True,
        after_line=visit.number("after_line", 0),
        matches_max=PAGE_MATCHES,
        tokens_max=PAGE_PIECE_TOKENS,
    )
    fixed = "--fixed " if is_fixed else ""
    later = found.matches[-1].line if found.left_out and found.matches else 0
    command = f"relay grep -i {fixed}{display.quoted(pattern)} {short}"
    return command, {"found": found, "later": later}


def _search(visit: PageVisit, peeked: Artifact) -> tuple[str, Answer]:
    """Return the passages that match a query."""
    query, short = visit.text("words"), display.short(peeked.ref)
    if not query:
        return f"relay search WORDS --ref {short}", {"hits": None}
    hits = visit.relay.search(query, ref=peeked.ref, tokens_max=PAGE_PIECE_TOKENS)
    return f"relay search {display.quoted(query)} --ref {short}", {"hits": hits}


def _diff(visit: PageVisit, peeked: Artifact) -> tuple[str, Answer]:
    """Return the differences from another artifact."""
    other, short = visit.text("other").strip(), display.short(peeked.ref)
    if not other:
        return f"relay diff OTHER {short}", {"differing": None, "like": _like(visit, peeked)}
    old = display.resolve(visit.relay, other)
    differing = visit.relay.diff(old, peeked.ref, tokens_max=PAGE_PIECE_TOKENS)
    return f"relay diff {display.short(old)} {short}", {"differing": differing, "like": ()}


def _like(visit: PageVisit, peeked: Artifact) -> list[Artifact]:
    """Return other artifacts that have the same name."""
    if not peeked.name:
        return []
    listed = visit.relay.list(PAGE_ROWS, name=peeked.name).artifacts
    return [each for each in listed if each.ref != peeked.ref and each.name == peeked.name][:10]


def _hex(visit: PageVisit, peeked: Artifact) -> tuple[str, Answer]:
    """Return a page of bytes in hexadecimal."""
    start = visit.number("byte", 0) // 16 * 16
    body = visit.relay.pull(peeked.ref, start, start + PAGE_HEX_BYTES)
    rows = [
        (
            f"{start + at:08x}",
            part.hex(" "),
            "".join(chr(b) if 32 <= b < 127 else "." for b in part),
        )
        for at in range(0, len(body), 16)
        if (part := body[at : at + 16])
    ]
    stop = start + len(body)
    answer = {"bytes": rows, "later": stop if stop < peeked.size_bytes else 0, "byte": start}
    return f"relay get {display.short(peeked.ref)} --bytes {start}:{stop}", answer


_NO_SIGN = re.compile(r"[^ -~]")
_BODIES = {
    "read": _read,
    "lines": _lines,
    "tree": _tree,
    "table": _table,
    "grep": _grep,
    "search": _search,
    "diff": _diff,
    "hex": _hex,
}


class OutlinePart(NamedTuple):
    """A part of an outline line, and the number of the line of the body to which it links, or 0 for
    none.
    """

    text: str
    line: int


_HEAD = re.compile(r"^(?:x\d+ )?(\d{1,9})(?: x\d+)?[:,]")
# The seconds in a time of day are not a line number.
_PLACE = re.compile(r"(?<!\d:\d\d):(\d{1,9})(?=,? |$)")
_ONE_PLACE = frozenset({"markdown", "html", "text", "log", "table", "json"})
"""Kinds of content whose outlines have one line number per line, at its end. Code may have several.
"""


def _outlined(text: str, kind: str) -> Iterator[list[OutlinePart]]:
    for line in islice(text.splitlines(), PAGE_LINES):
        if head := _HEAD.match(line):
            yield [OutlinePart(line, int(head[1]))]
            continue
        parts: list[OutlinePart] = []
        at = 0
        for place in _PLACE.finditer(line):
            if kind in _ONE_PLACE and place.end() < len(line):
                continue
            # Details that follow the line number of a name do not belong to the next name.
            comma = line.find(", ", at, place.end())
            if at and comma < 0:
                continue
            begin = comma + 2 if at else 0
            parts.append(OutlinePart(line[at:begin], 0))
            parts.append(OutlinePart(line[begin : place.end()], int(place[1])))
            at = place.end()
        yield [*parts, OutlinePart(line[at:], 0)]


# Responses of bytes


def image(visit: PageVisit) -> BytesReply:
    """Return an image. Shown as an image, it can neither run nor load anything."""
    peeked = visit.relay.peek(visit.ref(), shown_chars=0)
    if peeked.media_type not in IMAGES or peeked.sealed:
        raise Invalid("not an image that browsers show", "choose another view")
    return BytesReply(body=_small(visit, peeked), media_type=peeked.media_type, is_framed=True)


def frame(visit: PageVisit) -> BytesReply:
    """Return foreign HTML for the sandboxed frame."""
    peeked = visit.relay.peek(visit.ref(), shown_chars=0)
    if peeked.type != "html" or peeked.sealed:
        raise Invalid("not HTML", "use the view Lines")
    return BytesReply(
        body=_small(visit, peeked), media_type="text/html; charset=utf-8", is_framed=True
    )


def _small(visit: PageVisit, peeked: Artifact) -> bytes:
    if peeked.size_bytes > PAGE_FRAME_BYTES_MAX:
        raise TooLarge(
            f"{display.size(peeked.size_bytes)} is too large for a page",
            f"use: relay pull {display.short(peeked.ref)} -o FILE",
        )
    return visit.relay.pull(peeked.ref)


def sealed(visit: PageVisit) -> BytesReply:
    """Return encrypted bytes, which the browser decrypts. The key is never sent to the server."""
    peeked = visit.relay.peek(visit.ref(), shown_chars=0)
    if peeked.sealed is None or peeked.size_bytes > PAGE_SEALED_BYTES_MAX:
        raise TooLarge(
            "the browser cannot decrypt this content",
            "use: relay pull URL, with the whole part after the #",
        )
    body = visit.relay.transport.ask(Pull(peeked.ref)).whole()
    return BytesReply(body=body, media_type="application/octet-stream")


# Changes


def pin(visit: PageVisit) -> Done:
    """Pin an artifact."""
    ref = visit.ref()
    visit.relay.pin(ref)
    return Done(to=visit.link("a", ref), note="pinned")


def unpin(visit: PageVisit) -> Done:
    """Unpin an artifact."""
    ref = visit.ref()
    visit.relay.unpin(ref)
    return Done(to=visit.link("a", ref), note="unpinned")
