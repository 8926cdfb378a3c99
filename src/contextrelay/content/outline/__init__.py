"""Outlines: the structure of a body by its type, so that a reader can decide what to load.

Rule: equal bodies give equal outlines, in time linear in the body's size. A body that does not
match its declared type is outlined as whatever it can be parsed as, in the end as plain text.
"""

from __future__ import annotations

from importlib import import_module

from contextrelay.content.outline.layout import OutlineDraft, OutlinePiece, fit_outline
from contextrelay.content.shown_lines import has_diagnostics, is_error_line
from contextrelay.content.slicing.source import is_binary
from contextrelay.content.sniff import is_levelled, is_timed, sniff_text
from contextrelay.content.source import Source
from contextrelay.limits import HEAD_BYTES_MAX, OUTLINE_TOKENS_DEFAULT
from contextrelay.model.artifact import ArtifactType
from contextrelay.model.inspect import BodyOutline

# The modules for each type, tried in this order: their `draft_outline` returns None if they cannot
# parse the body. The module for plain text comes last and accepts everything.
_MODULES: dict[ArtifactType, tuple[str, ...]] = {
    "json": ("notebook", "json"),
    "code": ("code.python", "code.grammars", "code.c", "code.by_line"),
    "markdown": ("markdown",),
    "log": ("log",),
    "csv": ("table",),
    "diff": ("diff",),
    "html": ("html",),
    "email": ("email",),
    "text": ("yaml", "config", "xml"),
    "binary": ("binary",),
    "image": ("binary",),
    "pdf": ("binary",),
}
# Types that are read by grammars (code/grammars.py), and therefore only in a parser process.
GRAMMAR_TYPES = (
    "text/javascript",
    "text/x-typescript",
    "text/x-go",
    "text/x-java",
    "text/x-rust",
)
# Types that commands do not print.
_SETTINGS = ("application/toml", "text/x-java-properties", "application/yaml")
_OUTPUTS = ("json", "csv", "diff", "html", "markdown")
_OUTPUT_LINES_MAX = 20_000
_BLANKS_MAX = 0.2


def outline(
    source: Source, kind: ArtifactType, tokens_max: int = OUTLINE_TOKENS_DEFAULT
) -> BodyOutline:
    """Return the outline of a body within a number of tokens."""
    draft = draft_of(source, kind)
    fitted = fit_outline(draft, tokens_max)
    way, _, value = draft.next.removeprefix("--").partition(" ")
    return BodyOutline(
        kind=draft.kind,
        text=fitted.text,
        tokens=fitted.tokens,
        omitted=fitted.omitted,
        way=way.replace("-", "_"),
        value=value,
        patterns=fitted.patterns,
    )


def needs_grammar(media_type: str) -> bool:
    """Return True if a grammar reads this type."""
    return media_type.partition(";")[0].strip().lower() in GRAMMAR_TYPES


def draft_of(source: Source, kind: ArtifactType) -> OutlineDraft:
    """Return the pieces of an outline. They are computed once per body."""
    if kind not in source.drafts:
        source.drafts[kind] = _draft(source, kind)
    return source.drafts[kind]


def _draft(source: Source, kind: ArtifactType) -> OutlineDraft:
    head = source.text[:HEAD_BYTES_MAX].encode("utf-8", "replace")[:HEAD_BYTES_MAX]
    if kind == "binary" and source.is_text and not is_binary(head):
        # This is text in an encoding other than UTF-8, which is stored as binary.
        kind, media_type = sniff_text(head)
        source = source.read_as(media_type)
    if not source.is_text:
        kind = "binary"
    if kind == "text" and _is_undeclared(source):
        kind, media_type = sniff_text(head)
        source = source.read_as(media_type)
    is_printed = kind in ("text", "log", "tool_output") and source.media_type not in _SETTINGS
    source = source.plain() if is_printed else source
    may_run = is_printed or source.media_type == "application/x-ndjson"
    if may_run and (run := _draft_by(source, "test_run")):
        return run
    if kind == "text" and source.media_type not in _SETTINGS and _has_log_lines(source):
        kind = "log"  # The first lines of this log do not show that it is one.
    draft = None
    modules = _MODULES.get(kind, ())
    if kind == "tool_output":
        # By its detected type, or as a log if it has error lines.
        found, media_type = sniff_text(source.body[:HEAD_BYTES_MAX])
        if found in _OUTPUTS:
            draft = _draft_by(source.read_as(media_type), _MODULES[found][-1])
        lines = source.short_lines[:_OUTPUT_LINES_MAX]
        if draft is None and (found == "log" or any(map(is_error_line, lines))):
            modules = ("log",)
    for module in (*modules, "text"):
        draft = draft or _draft_by(source, module)
    assert draft is not None
    return draft


def _is_undeclared(source: Source) -> bool:
    """Return True if neither media type nor name say more than plain text, as for an output."""
    name = source.name.lower()
    says_nothing = "." not in name or name.endswith((".txt", ".text", ".out"))
    return source.media_type == "text/plain" and says_nothing


def _has_log_lines(source: Source) -> bool:
    lines, is_undeclared = source.short_lines, _is_undeclared(source)
    if is_timed(lines) or (is_undeclared and is_levelled(lines)):
        return True
    # Text with many blank lines is prose, which may quote compiler output.
    is_dense = lines.count("") <= _BLANKS_MAX * len(lines)
    return is_undeclared and is_dense and has_diagnostics(source.text, lines)


def _draft_by(source: Source, module: str) -> OutlineDraft | None:
    return import_module(f"contextrelay.content.outline.{module}").draft_outline(source)


def draft_by_lines(source: Source, kind: ArtifactType, note: str) -> OutlineDraft:
    """Return an outline by lines only, used after other parsers exceeded their limits."""
    module = "binary" if not source.is_text else "code.by_line" if kind == "code" else "text"
    draft = _draft_by(source, module)
    assert draft is not None  # These modules accept every text.
    pieces = [*draft.pieces[:1], OutlinePiece(0, (note,)), *draft.pieces[1:]]
    return OutlineDraft(draft.kind, pieces, draft.next)
