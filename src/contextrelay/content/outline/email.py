"""Emails: sender, recipients, date, subject and attachments."""

from __future__ import annotations

import re
from email.header import decode_header

from contextrelay.content.outline.layout import OutlineDraft, OutlinePiece, shorten
from contextrelay.content.source import Source

_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9-]{0,60}):[ \t]*(.*)")
_SHOWN = ("from", "to", "cc", "date", "subject", "reply-to", "in-reply-to", "message-id")
_PART = re.compile(
    r"^content-(?:type|disposition):[^\n]{0,300}(?:\n[ \t][^\n]{0,300}){0,3}",
    re.IGNORECASE | re.MULTILINE,
)
_FILE_NAME = re.compile(r"(?:file)?name\*?=\"?([^\";\n]{1,200})", re.IGNORECASE)
_HEADER_LINES_MAX = 500


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of an email, or of the first in a mailbox; None if it has no headers."""
    fields, body_at = _fields(source.short_lines)
    if not fields:
        return None
    pieces = [OutlinePiece(0, (f"email, {source.measure()}, body at line {body_at + 1}",))]
    for index, name in enumerate(_SHOWN):
        if name in fields:
            field = f"{name}: {shorten(_decoded(fields[name]), 200)}"
            pieces.append(OutlinePiece(1 if index < 5 else 3, (field,)))
    parts = _PART.findall(source.text)
    names = list(dict.fromkeys(match[1] for part in parts if (match := _FILE_NAME.search(part))))
    if names:
        some = ", ".join(shorten(name, 60) for name in names[:20])
        pieces.append(OutlinePiece(1, (f"{len(names)} attachments: {some}",)))
    body = source.short_lines[body_at:]
    quotes = sum(line.startswith(">") for line in body)
    pieces.append(OutlinePiece(2, (f"{len(body)} lines of body, {quotes} of them quoted",)))
    previous = ""
    for number, line in enumerate(body[:2_000], body_at + 1):
        if line.strip() and not previous.strip() and not line.startswith((">", "--")):
            forms = (f"{number}: {shorten(line, 80)}", f"{number}: {shorten(line, 200)}")
            pieces.append(OutlinePiece(3, forms))
        previous = line
    return OutlineDraft("email", pieces, f"--lines {body_at + 1}:{body_at + 41}")


def _fields(lines: list[str]) -> tuple[dict[str, str], int]:
    """Return the headers by lower-case name, and the number of lines they take."""
    fields: dict[str, str] = {}
    name = ""
    for index, line in enumerate(lines[:_HEADER_LINES_MAX]):
        if not line.strip():
            return fields, index + 1
        if line[0] in " \t" and name:
            fields[name] += " " + line.strip()
        elif match := _FIELD.match(line):
            name = match[1].lower()
            fields.setdefault(name, match[2].rstrip())
        elif index and not line.startswith("From "):
            return ({}, 0) if not fields else (fields, index)
    return fields, len(lines[:_HEADER_LINES_MAX])


def _decoded(text: str) -> str:
    try:
        return "".join(
            part.decode(charset or "ascii", "replace") if isinstance(part, bytes) else part
            for part, charset in decode_header(text[:1_000])
        )
    except (ValueError, LookupError):
        return text
