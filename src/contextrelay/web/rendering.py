"""Rendering: templates filled with the answers of verbs.

Rule: everything that is not a template is somebody's text: it is escaped where it is put in, and
what cannot be seen in it is spelled out. Only `Markup` of drawing.py is taken as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec.json import encode, format

from contextrelay.cli import display, state_display
from contextrelay.content.untrusted.hidden_chars import spell_hidden
from contextrelay.limits import PAGE_ROWS, PAGE_TEXT_CHARS, PAGE_TREE_DEPTH, PAGE_TREE_ITEMS
from contextrelay.model.artifact import Artifact
from contextrelay.web.markdown import rendered

FOLDER = Path(__file__).parent
AGENT_COLOURS = 8

PLACES = (
    ("home", "", "Home"),
    ("threads", "threads", "Threads"),
    ("artifacts", "artifacts", "Artifacts"),
    ("channels", "channels", "Channels"),
    ("handoffs", "handoffs", "Handoffs"),
    ("runs", "runs", "Pipelines"),
    ("project", "project", "Project"),
    ("search", "search", "Search"),
    ("health", "health", "Health"),
)
"""The menu: a name, an address below the root of the page, a label."""

NOTES = {
    "restored": "Restored: the old version is now the newest.",
    "forked": "Forked: this is the new thread.",
    "published": "Published.",
    "pinned": "Pinned: it stays until it is removed.",
    "unpinned": "Unpinned: it expires again.",
    "decided": "Decided.",
    "cancelled": "Cancelled: what was under way was ended.",
    "resumed": "Resumed: it goes on in the background.",
    "changed": "Changed.",
    "swept": "Swept: what was due is gone.",
}
"""What a screen says after a change, by the name that stands in its address."""


class Fields(dict[str, str]):
    """The fields of a query; one that is not there is empty."""

    def __missing__(self, name: str) -> str:
        return ""


def _shown(value: Any) -> Any:
    """Any value as a template puts it in."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return spell_hidden(value)
    return "" if value is None else value


def agent(name: str) -> int:
    """The colour of an agent: the same everywhere."""
    return hashlib.sha256(name.encode(errors="replace")).digest()[0] % AGENT_COLOURS


def tokens_of(artifact: Artifact) -> str:
    return "sealed" if artifact.sealed else display.tokens_of(artifact)


def at(moment: datetime | None) -> Markup:
    """A time: how long ago it was, with the exact one to point at."""
    if moment is None:
        return Markup("never")
    left_s = (moment - datetime.now(UTC)).total_seconds()
    said = f"in {display.span(left_s)}" if left_s > 0 else display.age(moment)
    exact = f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return Markup(f'<time datetime="{moment.isoformat()}" title="{exact}">{said}</time>')


def marked(text: str, words: Sequence[str]) -> Markup:
    """A text in which some words are marked, wherever they begin."""
    if not words:
        return escape(spell_hidden(text))
    either = re.compile(rf"\b({'|'.join(map(re.escape, words))})\w*", re.IGNORECASE)
    parts, place = list[str](), 0
    for match in either.finditer(text):
        parts += [escape(spell_hidden(text[place : match.start()])), "<mark>", escape(match[0])]
        parts.append("</mark>")
        place = match.end()
    return Markup("".join([*parts, escape(spell_hidden(text[place:]))]))


def cut(text: str, chars: int = PAGE_TEXT_CHARS) -> str:
    return display.cut(text, chars)


def pretty(value: Any) -> str:
    """A value as JSON over several lines, cut where it is long."""
    return cut(format(encode(value), indent=2).decode())


def with_query(path: str, query: dict[str, str], **changed: Any) -> str:
    """An address with its query, in which some fields are others."""
    fields = {**query, **{name: str(value) for name, value in changed.items()}}
    kept = {name: value for name, value in fields.items() if value not in ("", "None")}
    return f"{path}?{urlencode(kept)}" if kept else path


FILTERS: dict[str, Any] = {
    "agent": agent,
    "at": at,
    "clean": display.clean,
    "count": display.count,
    "cut": cut,
    "event": state_display.event,
    "life": display.life,
    "markdown": rendered,
    "marked": marked,
    "path": partial(quote, safe=""),
    "pretty": pretty,
    "short": display.short,
    "size": display.size,
    "span": display.span,
    "text": state_display.text_of,
    "tokens_of": tokens_of,
}
GLOBALS: dict[str, Any] = {
    "with_query": with_query,
    "NOTES": NOTES,
    "ROWS": PAGE_ROWS,
    "TREE_ITEMS": PAGE_TREE_ITEMS,
    "TREE_DEPTH": PAGE_TREE_DEPTH,
}


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    cast("dict[str, Any]", made.filters).update(FILTERS)
    cast("dict[str, Any]", made.globals).update(GLOBALS)
    return made


ENVIRONMENT = _environment()


def render(template: str, **values: Any) -> bytes:
    """A template as bytes; half of a pair of surrogates, which cannot be written, is spelled."""
    return ENVIRONMENT.get_template(template).render(**values).encode(errors="replace")
