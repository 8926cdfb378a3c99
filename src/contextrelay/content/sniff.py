"""Sniffing: guess the type of a body from its first bytes.

Rule: conservative. A guess needs signs that do not occur in ordinary prose; otherwise the body is
plain text.

Every push without a name or a type is sniffed, so each test first looks for a character that its
patterns require, and tries them only on a text that has it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, filterfalse, islice

import msgspec

from contextrelay.content.language import (
    Guess,
    language,
    shebang,
    without_comments,
    without_strings,
    without_traces,
)
from contextrelay.content.prefilter import Prefilters, loosened, unspaced
from contextrelay.content.source import without_colours
from contextrelay.limits import HEAD_BYTES_MAX

_ROWS_MIN, _ROWS_MAX = 3, 50
# The start of a YAML line: a key, a list entry or a document marker.
_YAML_ROW = re.compile(r"---|%YAML|\.\.\.|- |-$|[\w.\"'/$@-][\w .\"'/$@-]{0,80}:(?:\s|$)|[\]}]")
_YAML_KEY = re.compile(r"( *)(?:- )*[\w.\"'/$@-]{1,80}:(?:\s|$)")
_FLAT_KEY = re.compile(r"([a-z_][\w.-]*):(?:\s|$)")
_FLAT_KEYS_MIN = 5
_INI_SECTION = re.compile(r"\[{1,2}[\w .:\"'/@*+#-]{1,120}\]{1,2}\s*(?:[#;].*)?$")
_INI_KEY = re.compile(r"([\w.\"'/*@:$\[\]-]{1,120})\s*=")
# Values in TOML syntax, with their types.
_TYPED = re.compile(r"[^=]{1,120}=\s*(?:[\"'\[{]|true\b|false\b|-?\d)")
# Comments, and template tags on lines of their own.
_ASIDE = re.compile(r"\s*(?:[#;!]|\{\{|\{%)")
_SETTINGS_SHARE = 0.9
_YAML_SHARE, _YAML_BEGUN_SHARE = 0.3, 0.1


def settings(rows: list[str]) -> Guess | None:
    """Return the type of settings in the rows, or None."""
    text = "\n".join(rows)
    if text.count("=") < 2 and text.count(":") < _ROWS_MIN:
        return None
    left = filterfalse(_ASIDE.match, rows)
    if '"""' in text or "'''" in text:
        left = without_strings(left)
    first = list(islice(left, _ROWS_MAX))
    logical = _logical_rows(chain(first, left))
    return _named(list(islice(logical, _ROWS_MAX))) or _yaml(first)


def _outer(rows: list[str]) -> list[str]:
    return [row for row in rows if not row[0].isspace() and row[0] not in "]})\"'"]


def _named(rows: list[str]) -> Guess | None:
    """Detect `name = value`, with or without sections."""
    outer = _outer(rows)
    if len(outer) < _ROWS_MIN:
        return None
    if sum("=" in row or row[0] == "[" for row in outer) < _SETTINGS_SHARE * len(outer):
        return None
    sections = sum(_INI_SECTION.match(row) is not None for row in outer)
    keys = [match[1] for row in outer if (match := _INI_KEY.match(row))]
    if len(keys) + sections < _SETTINGS_SHARE * len(outer) or len(keys) <= 1:
        return None
    if sections:
        return "text", "application/toml"
    # The same names in each row are records; a `;` at the end means code.
    is_code = sum(row.endswith((";", "{")) for row in outer) > len(outer) // 4
    is_set = not is_code and len(set(keys)) > len(keys) // 2
    if not is_set:
        return None
    is_typed = all(map(_TYPED.match, outer))
    return "text", "application/toml" if is_typed else "text/x-java-properties"


def _yaml(rows: list[str]) -> Guess | None:
    if not all(map(_YAML_ROW.match, _outer(rows))):
        return None
    found = list(filter(None, map(_YAML_KEY.match, rows)))
    # A single level of `name: value` may be headers, or a dialogue.
    is_nested = len({len(match[1]) for match in found}) > 1
    # With a document marker, the rest may be mostly long texts.
    is_begun = bool(rows) and rows[0].startswith(("---", "%YAML"))
    share = _YAML_BEGUN_SHARE if is_begun else _YAML_SHARE
    if is_nested and len(found) >= max(_ROWS_MIN, share * len(rows)):
        return "text", "application/yaml"
    flat = {match[1] for match in map(_FLAT_KEY.match, rows) if match}
    is_flat = len(flat) >= max(_FLAT_KEYS_MIN, _SETTINGS_SHARE * len(rows))
    return ("text", "application/yaml") if is_flat else None


def _logical_rows(rows: Iterable[str]) -> Iterator[str]:
    """Yield the rows that do not continue a value after a backslash."""
    goes_on = False
    for row in rows:
        if not goes_on:
            yield row
        goes_on = row.endswith("\\")


_SEPARATORS = (
    ("\t", "text/tab-separated-values"),
    (",", "text/csv"),
    (";", "text/csv"),
    ("|", "text/csv"),
)
_LINES_MIN = 3
_CELL_LINES_MAX = 5
_SHARE = 0.9
# With so few columns it may be chance: then all rows must have them.
_FEW_COLUMNS = 3
_QUOTED = re.compile(r'"[^"]*"')
_COLUMN = re.compile(r"[\w@%$#][\w .()/%#:&'+$?-]{0,60}")
_LETTER = re.compile(r"[^\W\d]")
_VALUE = re.compile(r"\s*(?:[-+]?[\d.,:/%-]+(?:e[-+]?\d+)?)?\s*", re.IGNORECASE)


def headed_table(rows: list[str]) -> Guess | None:
    """Detect a table whose first row has column names, whatever the other rows contain."""
    rows = _whole(rows)
    for separator, media_type in _SEPARATORS if len(rows) >= _LINES_MIN else ():
        if separator not in rows[0]:
            continue
        head = _QUOTED.sub(lambda cell, each=separator: cell[0].replace(each, " "), rows[0])
        names = [name.strip().strip('"') for name in head.split(separator)]
        if len(names) < 2 or len(set(names)) < len(names):
            continue
        if not all(map(_COLUMN.fullmatch, names)) or not any(map(_LETTER.search, names)):
            continue
        widths = [row.count(separator) + 1 for row in map(_unquoted, rows[1:])]
        least = len(widths) * (1 if len(names) < _FEW_COLUMNS else _SHARE)
        is_even = sum(width == len(names) for width in widths) >= least
        # Empty cells at the end may be omitted with their separators.
        is_even = (
            is_even or len(names) // 2 < min(widths) <= max(widths) <= len(names) > _FEW_COLUMNS
        )
        if is_even and (len(names) >= _FEW_COLUMNS or not _is_prose(rows, separator)):
            return "csv", media_type
    return None


def plain_table(rows: list[str]) -> Guess | None:
    """Detect lines with the same number of a separator that are not sentences."""
    if len(rows) < _LINES_MIN:
        return None
    rows = list(map(_unquoted, _whole(rows)))
    if not rows:
        return None
    text = "".join(rows)
    for separator, media_type in _SEPARATORS:
        if text.count(separator) < _SHARE * len(rows):
            continue
        if sum(separator in row for row in rows) < _SHARE * len(rows):
            continue
        counts = Counter(row.count(separator) for row in rows)
        count, times = counts.most_common(1)[0]
        is_even = count and times >= len(rows) * (1 if count < _FEW_COLUMNS else _SHARE)
        if is_even and (separator == "\t" or not _is_prose(rows, separator)):
            return "csv", media_type
    return None


def _unquoted(row: str) -> str:
    return _QUOTED.sub("", row) if '"' in row else row


def _whole(rows: list[str]) -> list[str]:
    """Join the rows that form one quoted cell of several lines."""
    if '"' not in "".join(rows):
        return rows
    whole: list[str] = []
    is_open = False
    begin = 0
    for place, row in enumerate(rows):
        if is_open:
            whole[-1] += f" {row}"
        else:
            whole.append(row)
            begin = place
        is_open ^= row.count('"') % 2 == 1
    if not is_open:
        return whole
    # An unclosed quote is not a quote; one that has just opened may be closed further down.
    return rows if len(rows) - begin > _CELL_LINES_MAX else whole[:-1]


def _is_prose(rows: list[str], separator: str) -> bool:
    """Return True if rows are sentences: with spaces after separators, or final punctuation."""
    columns = zip(*(row.split(separator) for row in rows[1:]), strict=False)
    if any(any(column) and all(map(_VALUE.fullmatch, column)) for column in columns):
        return False  # A separator in numbers or dates.
    text = "\n".join(rows)
    blanks = text.count(f"{separator} ")
    ends = sum(row.endswith((".", ";", "{", separator)) for row in rows)
    return blanks > text.count(separator) // 2 or ends > len(rows) // 2


_MAGIC: tuple[tuple[re.Pattern[bytes], Guess], ...] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), ("image", "image/png")),
    (re.compile(rb"\xff\xd8\xff"), ("image", "image/jpeg")),
    (re.compile(rb"GIF8[79]a"), ("image", "image/gif")),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), ("image", "image/webp")),
    (re.compile(rb"%PDF-"), ("pdf", "application/pdf")),
)

_LINES_MAX = 50
# Usually enough for _LINES_MAX rows without comments.
_BARE_ROWS = 4 * _LINES_MAX
_LOG_LINES_MIN = 3
_LOG_SHARE = 0.6
_MARKDOWN_POINTS_MIN = 3
_FRONT_POINTS = 2
# If the first lines are a licence or a long comment, all lines are used.
_CODE_SHARE = 0.02


# Headings of tracebacks, which would otherwise look like settings.
_TRACE_TITLES = frozenset({"Caused by:", "Stack backtrace:", "stack backtrace:", "Stack trace:"})
# Without one of these, `without_traces` returns all rows.
_TRACE_SIGNS = ("^", "~", "Traceback")


def sniff_binary(head: bytes) -> Guess:
    """Recognise images and PDF by their magic bytes."""
    for magic, guess in _MAGIC:
        if magic.match(head):
            return guess
    return "binary", "application/octet-stream"


def sniff_text(head: bytes) -> Guess:
    """Distinguish types of text, by the most reliable signs first."""
    text = head.decode(errors="ignore").lstrip("\ufeff \t\r\n")
    text = without_colours(text)
    is_cut = len(head) >= HEAD_BYTES_MAX
    text = text.replace("\r", "\n") if "\n" not in text else text  # Old Mac line ends.
    lines = text.split("\n")
    if "\r" in text:
        lines = [line.rstrip("\r") for line in lines]
    # The last line of a truncated text is incomplete.
    more = [line for line in (lines[:-1] if is_cut else lines) if line.strip()]
    rows = more[:_LINES_MAX]
    bare = _bare(more[:_BARE_ROWS])
    if len(bare) <= _LINES_MAX and len(more) > _BARE_ROWS:
        bare = _bare(more)
    signs = possible_signs(text)
    has_time = "time" in signs
    return (
        _json(text, rows, is_cut)
        or shebang(lines[0])
        or _markup(text)
        or _diff(text)
        or _email(lines)
        or (None if _is_entry(rows, signs) else headed_table(rows))
        or (_run(more) if "test run" in signs else None)
        or (_log(rows) if "log" in signs else None)
        or (
            _markdown(rows, signs)
            if ("```" in text or "~~~" in text)
            and any(row.startswith(("```", "~~~")) for row in bare[:_LINES_MAX])
            else None
        )
        or language(bare[:_LINES_MAX])
        or (None if _TRACE_TITLES.isdisjoint(rows) else ("text", "text/plain"))
        or settings(more)
        or _markdown(rows, signs)
        or plain_table(rows)
        or (_timed(text, rows) if has_time else None)
        or (language(_bare(more), _CODE_SHARE) if len(more) > _LINES_MAX else None)
        or ("text", "text/plain")
    )


def _bare(rows: list[str]) -> list[str]:
    """Return rows without comments and without what tracebacks quote."""
    text = "\n".join(rows)
    if "//" in text or "/*" in text:
        rows = without_comments(rows)
    if any(sign in text for sign in _TRACE_SIGNS):
        rows = without_traces(rows)
    return rows


_JSON_START = re.compile(
    r"""\{\s*"(?:[^"\\\n]|\\.){0,200}"\s*:"""
    # A line with only `[[name]]` starts a section of TOML.
    r"""|(?!\[\[[^\[\]\n]{1,200}\]\][ \t]*(?:\#.*)?\n)\[\s*(?:[\[{"]|-?\d[\d.eE+-]*\s*,)"""
)


def _json(text: str, rows: list[str], is_cut: bool) -> Guess | None:
    if not text.startswith(("{", "[")):
        return None
    if not is_cut and _is_json(text):
        return "json", "application/json"
    if len(rows) > 1 and all(row.startswith("{") and _is_json(row) for row in rows):
        return "json", "application/x-ndjson"
    is_begun = _JSON_START.match(text) is not None and (is_cut or _is_first(text))
    return ("json", "application/json") if is_begun else None


def _is_first(text: str) -> bool:
    """Return True if another document follows the first."""
    import json

    try:
        end = json.JSONDecoder().raw_decode(text)[1]
    except (ValueError, RecursionError):
        return False
    return text[end:].lstrip().startswith(text[0])


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


_HTML = re.compile(
    r"(?:<\?xml[^>]*>\s*)?(?:<!--.{0,2000}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_HTML_PIECE = re.compile(
    r"<(div|p|table|h[1-6]|span|ul|ol|section|article|main|nav|script|style|form)\b[^<>]*>",
    re.IGNORECASE,
)


_COMMENTS = re.compile(r"\A(?:<!(?:--(?:[^-]|-(?!->))*--|[A-Z][^<>]*)>\s*)+")
_DECLARED = re.compile(r"<\?xml[^>]*>\s*")
_ELEMENT = re.compile(r"<[A-Za-z_][\w:.-]*(?:\s[^<>]*)?>\s*<")
_MARKED_SHARE = 0.6


_HASHED = re.compile(r"^#{1,6} \S", re.MULTILINE)
_HASHED_MIN = 2


def _is_headed(text: str) -> bool:
    """Return True if a text that starts with a tag has Markdown headings."""
    rows = text.split("\n", 2 * _LINES_MAX)[:-1]
    marked = sum(row.lstrip().startswith("<") for row in rows)
    return len(_HASHED.findall(text)) >= _HASHED_MIN and 2 * marked < len(rows)


def _markup(text: str) -> Guess | None:
    if not text.startswith("<"):
        return None
    if _HTML.match(text):
        return "html", "text/html"
    text = _COMMENTS.sub("", text, count=1)
    piece = _HTML_PIECE.match(text)
    if piece and f"</{piece[1].lower()}>" in text.lower() and not _is_headed(text):
        return "html", "text/html"
    if text.startswith("<?php"):
        return "code", "text/x-php"
    if _COMMENTS.sub("", _DECLARED.sub("", text, count=1), count=1).startswith("<svg"):
        return "text", "image/svg+xml"
    if text.startswith("<?xml "):
        return "text", "application/xml"
    rows = [row.lstrip() for row in text.split("\n", _LINES_MAX)[:-1] if row.strip()]
    is_marked = sum(row.startswith("<") for row in rows) >= _MARKED_SHARE * len(rows)
    is_xml = _ELEMENT.match(text) and (is_marked or text.rstrip()[-1:] == ">")
    return ("text", "application/xml") if is_xml else None


_DIFF = re.compile(
    r"(?:diff --git \S|(?:Index: [^\n]*\n=+\n)?--- [^\n]+\n\+\+\+ [^\n]+\n@@ -\d"
    r"|\d+(?:,\d+)?[acd]\d+(?:,\d+)?\n[<>] "
    r"|From [0-9a-f]{40} [^\n]*\nFrom: |commit [0-9a-f]{40}\b[^\n]*\n(?:Merge: [^\n]*\n)?Author: )"
)
_HUNK = re.compile(r"^--- [^\n]+\n\+\+\+ [^\n]+\n@@ -\d", re.MULTILINE)
_ABOUT_CHARS_MAX = 4_000


def _diff(text: str) -> Guess | None:
    """Detect a diff, possibly after an introduction."""
    if _DIFF.match(text):
        return "diff", "text/x-diff"
    has_hunk = text.find("\n@@ -", 0, _ABOUT_CHARS_MAX) >= 0
    hunk = _HUNK.search(text, 0, _ABOUT_CHARS_MAX) if has_hunk else None
    return ("diff", "text/x-diff") if hunk and "```" not in text[: hunk.start()] else None


_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]{1,60}):[ \t]|[ \t]+\S")
_MAIL_HEADERS = frozenset(
    {"from", "to", "cc", "subject", "date", "message-id", "received", "mime-version"}
    | {"return-path", "delivered-to", "reply-to", "content-type"}
)


def _email(lines: list[str]) -> Guess | None:
    seen: set[str] = set()
    for line in lines:
        match = _HEADER.match(line)
        if not match:
            break
        seen.add((match[1] or "").lower())
    is_mail = "from" in seen and len(seen & _MAIL_HEADERS) >= 3
    return ("email", "message/rfc822") if is_mail else None


# Progress lines of pytest, unittest, go, cargo, jest, TAP, vitest and mocha.
RUN_LINE = re.compile(
    r"""(?:
        =+[ ](?:test[ ]session[ ]starts|FAILURES|ERRORS|X?PASSES|XFAILURES|warnings[ ]summary
            |short[ ]test[ ]summary[ ]info|\d+[ ][a-z]+[^=]{0,200}[ ]in[ ][\d.]+s\b[^=]{0,40})[ ]=+
        |(?:FAIL|ERROR):[ ]\w+[ ]\([\w.]+\)
        |===[ ]RUN[ ]+\S+|---[ ](?:FAIL|PASS|SKIP):[ ]\S+[ ]\([\d.]+s\)
        |running[ ]\d+[ ]tests?
        |(?:PASS|FAIL)[ ]{1,2}\S+\.(?:test|spec)\.[cm]?[jt]sx?(?:[ ]\([\d.]+[ ]m?s\))?
        |TAP[ ]version[ ]\d+
        |[ ]+(?:RUN[ ]+v\d[\d.]*|Test[ ]Files[ ]+\d+)[ ].*
        |[ ]+\d+[ ](?:passing[ ]\([\d.]+m?s\)|failing)
    )\s*""",
    re.VERBOSE,
)
RUN_STARTS = ("=", "FAIL", "ERROR: ", "---", "running ", "PASS ", "TAP ", " ")
# After these prefixes such a line is a quotation.
_DOCUMENT = ("```", "~~~", "## ")


def _run(rows: list[str]) -> Guess | None:
    """Detect a test run, which may show code; not code or a document that contains one."""
    for index, row in enumerate(rows):
        if not row.startswith((*_DOCUMENT, *RUN_STARTS)):
            continue
        if row.startswith(_DOCUMENT):
            return None
        if RUN_LINE.fullmatch(row):
            return None if language(without_comments(rows[:index])) else ("log", "text/x-log")
    return None


LOG_LINE = re.compile(
    r"""(?:
        \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[ ]?[+-]\d\d:?\d\d)?\]?[\s|:-]+\S
        |\[?\d{4}/\d\d/\d\d[ ]\d\d:\d\d:\d\d\]?\s+\S
        |[A-Z][a-z]{2}[ ]{1,2}\d{1,2}[ ]\d\d:\d\d:\d\d\s+\S
        |\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?\s+\S
        |\S+[ ]\S+[ ]\S+[ ]\[\d\d/[A-Z][a-z]{2}/\d{4}:
        |[\[<(]?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)[\])>]?[\s:]\s*\S
    )""",
    re.VERBOSE,
)


def _is_entry(rows: list[str], signs: set[str]) -> bool:
    """Return True if the first line has a time that does not look like a column name."""
    if not rows:
        return False
    if "log" in signs and LOG_LINE.match(rows[0]):
        return True
    return "time" in signs and TIMED.search(rows[0]) is not None


def _log(rows: list[str]) -> Guess | None:
    hits = 0
    for left, row in zip(reversed(range(len(rows))), rows, strict=True):
        hits += LOG_LINE.match(row) is not None
        if hits + left < _LOG_SHARE * len(rows):
            return None  # Not even if all other rows are log lines.
    return ("log", "text/x-log") if hits >= _LOG_LINES_MIN else None


# A time with its date, anywhere in the first part of a line.
TIMED = re.compile(
    r"(?:\d{2,4}[-/.]\d\d(?:[-/.]\d\d)?|[A-Z][a-z]{2} [ \d]?\d|\d\d/[A-Z][a-z]{2}/\d{4})[T :,_-]+"
    r"\d\d[:.]\d\d[:.]\d\d|(?<!\d)\d{6} \d{6}(?!\d)|\b\d\d:\d\d:\d\d[.,]\d"
)
# A common part of all formats, which is found many times faster.
_CLOCK = r"\d(?:\d[:.]\d\d[:.]\d\d|\d{5} \d{6})"
_TIMED_CHARS = 90
# Minimum share of lines that start an entry.
_BEGUN_SHARE = 0.1


def _timed(text: str, rows: list[str]) -> Guess | None:
    """Detect lines, or first lines of paragraphs, that mostly have a time in any format."""
    firsts = [part.split("\n", 1)[0] for part in text.split("\n\n", _LINES_MAX)]
    is_log = is_timed(rows, _LOG_SHARE) or is_timed(firsts, _LOG_SHARE)
    return ("log", "text/x-log") if is_log else None


def is_timed(lines: Sequence[str], share: float = 0.4) -> bool:
    """Return True if this share of sampled lines has a time in its first part."""
    return _share_of(lines, TIMED) >= share


_LEVELLED = re.compile(
    r"(?<![\w.=/-])(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|SEVERE|FATAL|CRITICAL)(?![\w.=/-])"
)


def is_levelled(lines: Sequence[str]) -> bool:
    """Return True if most lines have a level in their first part, for unknown time formats."""
    return _share_of(lines, _LEVELLED) >= _LOG_SHARE


def _share_of(lines: Sequence[str], sign: re.Pattern[str]) -> float:
    """Return the share of lines with a sign in their first part, ignoring continuation lines."""
    sample = lines[:: max(1, len(lines) // 200)]
    begun = [line for line in sample if line[:1] not in ("", " ", "\t", "}")]
    hits = sum(sign.search(line, 0, _TIMED_CHARS) is not None for line in begun)
    is_enough = hits >= max(_LOG_LINES_MIN, _BEGUN_SHARE * len(sample))
    return hits / len(begun) if is_enough else 0.0


# Signs of Markdown with their weights: at the start of a line, and within one. A `# heading` alone
# may be a comment in settings.
_MARKDOWN_STARTS = (
    (1, r"# \S"),
    (2, r"#{2,6} \S"),
    (2, r"```|~~~"),
    (2, r"\|?[ ]*:?-{3,}:?[ ]*\|"),
    (1, r"[ ]{0,3}(?:[-*+]|\d{1,3}\.)[ ]{1,3}\S"),
    (1, r"> \S"),
)
MARKDOWN_START = re.compile("|".join(f"({sign})" for _, sign in _MARKDOWN_STARTS))
# A sign within a line, and a character that it requires.
MARKDOWN_WITHIN = (
    (2, "](", re.compile(r"\[[^\]\n]{1,200}\]\((?:https?:|\.|/|#|\w)[^)\s]{0,500}\)")),
    (1, "**", re.compile(r"\*\*[^\s*][^*\n]{0,200}\*\*")),
)


def _markdown(rows: list[str], signs: set[str]) -> Guess | None:
    text = "\n".join(rows)
    points = sum(
        weight for weight, part, sign in MARKDOWN_WITHIN if part in text and sign.search(text)
    )
    if rows and rows[0] == "---" and "---" in rows[1:-1]:
        points += _FRONT_POINTS  # Front matter.
    if "markdown" in signs:
        starts = {match.lastindex or 0 for match in map(MARKDOWN_START.match, rows) if match}
        points += sum(_MARKDOWN_STARTS[index - 1][0] for index in starts)
    return ("markdown", "text/markdown") if points >= _MARKDOWN_POINTS_MIN else None


def possible_signs(text: str) -> set[str]:
    """Return the names of the patterns that may match somewhere in a text, found in one pass."""
    return {_SIGNS[index] for index in _prefilters().find(text)}


_SIGNS = ("time", "test run", "log", "markdown")


@cache
def _prefilters() -> Prefilters:
    starts = (unspaced(RUN_LINE.pattern), unspaced(LOG_LINE.pattern), MARKDOWN_START.pattern)
    return Prefilters((loosened(_CLOCK), *(f"(?m)^(?:{loosened(each)})" for each in starts)))
