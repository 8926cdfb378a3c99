"""Rendering: templates, their filters, and charts and graphs as inline SVG.

Rule: text is inserted with the `format` method of Markup, which escapes it. Templates insert the
result. Colours are classes of the style sheet, for light and dark mode.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape
from msgspec.json import encode, format

from contextrelay.cli import display, state_display
from contextrelay.cli.display import clean
from contextrelay.content.untrusted.hidden_chars import spell_hidden
from contextrelay.limits import PAGE_ROWS
from contextrelay.model.artifact import Artifact

PAGE_MARKDOWNS_MAX = 16
PAGE_TREE_ITEMS = 100
# The maximum depth and number of items of a JSON tree that is shown.
PAGE_TREE_DEPTH = 6
# The maximum size of a text that a screen shows as a whole: a report, or the log of a step.
PAGE_TEXT_CHARS = 20_000


_BAR_HEIGHT, _LABEL_WIDTH, _AMOUNT_WIDTH, _LABEL_CHARS = 26, 110, 90, 16


def bars(rows: Sequence[tuple[str, int, str]], room: int = 220) -> Markup:
    """Return a bar chart as SVG. Each row has a label, a number and the class of its colour."""
    most = max((abs(amount) for _, amount, _ in rows), default=0) or 1
    said = ", ".join(f"{label} {amount:,}" for label, amount, _ in rows)
    lines = [
        Markup(
            '<svg class="bars" viewBox="0 0 {0} {1}" width="{0}" role="img" aria-label="{2}">'
        ).format(_LABEL_WIDTH + room + _AMOUNT_WIDTH, len(rows) * _BAR_HEIGHT, clean(said))
    ]
    for index, (label, amount, colour) in enumerate(rows):
        top = index * _BAR_HEIGHT
        width = max(2, round(room * max(0, amount) / most))
        lines.append(
            Markup(
                '<text x="0" y="{}">{}</text>'
                '<rect class="fill-{}" x="{}" y="{}" width="{}" height="14" rx="3"/>'
                '<text x="{}" y="{}">{}</text>'
            ).format(
                top + 17,
                clean(label)[:_LABEL_CHARS],
                colour,
                _LABEL_WIDTH,
                top + 6,
                width,
                _LABEL_WIDTH + width + 8,
                top + 17,
                f"{amount:,}",
            )
        )
    return Markup("").join([*lines, Markup("</svg>")])


class Box(NamedTuple):
    """A node of a graph: its name, a second line of text, its link, and the class of its state."""

    name: str
    label: str = ""
    to: str = ""
    state: str = ""


class Edge(NamedTuple):
    """An edge between two nodes of a graph."""

    start: str
    stop: str
    label: str = ""
    width: int = 1


_BOX, _HIGH, _ACROSS, _DOWN, _ROOM = 170, 44, 30, 46, 14
_CHARS = 22


def rows_of(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Return names in rows, each below its predecessors. Edges that close a cycle are ignored."""
    depth = dict.fromkeys(names, 0)
    seen: list[tuple[str, str]] = []
    for start, stop in pairs:
        if start != stop and not _leads(seen, stop, start):
            seen.append((start, stop))
    for _ in names:  # There are at most as many rounds as there are rows.
        moved = False
        for start, stop in seen:
            if depth[stop] <= depth[start]:
                depth[stop], moved = depth[start] + 1, True
        if not moved:
            break
    rows: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, row in depth.items():
        rows[row].append(name)
    return rows


def _leads(pairs: Sequence[tuple[str, str]], start: str, stop: str) -> bool:
    """Return True if a path of edges leads from one name to another."""
    reached, open_names = {start}, [start]
    while open_names:
        name = open_names.pop()
        for first, second in pairs:
            if first == name and second not in reached:
                reached.add(second)
                open_names.append(second)
    return stop in reached


def graph(rows: Sequence[Sequence[str]], boxes: Mapping[str, Box], edges: Sequence[Edge]) -> Markup:
    """Return a graph as SVG: boxes in rows, and edges between them. Each box is a link that the
    keyboard can reach.
    """
    wide = max(len(row) for row in rows) * (_BOX + _ACROSS) - _ACROSS + 2 * _ROOM
    high = len(rows) * (_HIGH + _DOWN) - _DOWN + 2 * _ROOM
    corner: dict[str, tuple[int, int]] = {}
    for number, row in enumerate(rows):
        left = (wide - len(row) * (_BOX + _ACROSS) + _ACROSS) // 2
        for column, name in enumerate(row):
            corner[name] = left + column * (_BOX + _ACROSS), _ROOM + number * (_HIGH + _DOWN)
    lines = [
        Markup('<svg viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="group">{2}').format(
            wide, high, _ARROW
        )
    ]
    lines += [_edge(each, corner) for each in edges]
    lines += [_box(boxes[name], *place) for name, place in corner.items()]
    return Markup("\n").join([*lines, Markup("</svg>")])


_ARROW = Markup(
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="9" markerHeight="9"'
    ' markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker>'
    "</defs>"
)


def _edge(edge: Edge, corner: Mapping[str, tuple[int, int]]) -> Markup:
    (left, top), (right, bottom) = corner[edge.start], corner[edge.stop]
    is_down = bottom > top
    # An edge that leads back up is drawn to the right of the edge that leads down.
    aside = 0 if is_down else _BOX // 4
    x1, x2 = left + _BOX // 2 + aside, right + _BOX // 2 + aside
    y1, y2 = (top + _HIGH, bottom) if is_down else (top, bottom + _HIGH)
    if top == bottom:
        y1 = y2 = top
        x1, x2 = left + _BOX * 3 // 4, right + _BOX // 4
    middle = (y1 + y2) // 2 if top != bottom else top - _DOWN // 2
    said = Markup('<text x="{}" y="{}">{}</text>').format((x1 + x2) // 2 + 4, middle, edge.label)
    return Markup(
        '<path class="edge" stroke-width="{}" marker-end="url(#arrow)"'
        ' d="M{} {} C{} {} {} {} {} {}"/>{}'
    ).format(edge.width, x1, y1, x1, middle, x2, middle, x2, y2, said if edge.label else "")


def _box(box: Box, left: int, top: int) -> Markup:
    drawn = Markup(
        '<rect class="box {}" x="{}" y="{}" width="{}" height="{}" rx="7"/>'
        '<text x="{}" y="{}" class="strong">{}</text><text x="{}" y="{}">{}</text>'
    ).format(
        box.state,
        left,
        top,
        _BOX,
        _HIGH,
        left + 10,
        top + (18 if box.label else 27),
        clean(box.name)[:_CHARS],
        left + 10,
        top + 35,
        clean(box.label)[: _CHARS + 4],
    )
    said = f"{clean(box.name)} {clean(box.label)} {box.state}".strip()
    title = Markup("<title>{}</title>").format(said)
    if not box.to:
        return Markup("<g>{}{}</g>").format(title, drawn)
    return Markup('<a href="{}" aria-label="{}">{}{}</a>').format(
        quote(box.to, safe="/?=#&"), said, title, drawn
    )


_ELSEWHERE = ("http://", "https://", "mailto:")


@lru_cache(PAGE_MARKDOWNS_MAX)
def rendered(text: str) -> Markup:
    """Return Markdown as safe HTML."""
    return Markup(_parser().render(spell_hidden(text)))


@cache
def _parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    made.add_render_rule("link_open", _link)
    return made


def _link(_: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    to = str(tokens[index].attrGet("href") or "")
    if not to.lower().startswith(_ELSEWHERE):
        return "<a>"
    return Markup('<a href="{0}" title="{0}" rel="noopener noreferrer nofollow">').format(
        escape(to)
    )


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
"""The menu: for each entry, its name, its address below the root of the page, and its label."""

NOTES = {
    "restored": "Restored: the old version is now the newest.",
    "forked": "Forked: this is the new thread.",
    "published": "Published.",
    "pinned": "Pinned: it stays until it is deleted.",
    "unpinned": "Unpinned: it can expire again.",
    "decided": "Decided.",
    "cancelled": "Cancelled: running steps were stopped.",
    "resumed": "Resumed in the background.",
    "changed": "Changed.",
    "swept": "Cleanup done.",
}
"""The messages that are shown after a change, by the names that the address contains."""


class Fields(dict[str, str]):
    """The fields of a query. A missing field has the value ""."""

    def __missing__(self, name: str) -> str:
        return ""


def _shown(value: Any) -> Any:
    """Return a value in the form in which a template shows it."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return spell_hidden(value)
    return "" if value is None else value


def agent(name: str) -> int:
    """Return the number of the colour of an agent, which is the same on every page."""
    return hashlib.sha256(name.encode(errors="replace")).digest()[0] % AGENT_COLOURS


def tokens_of(artifact: Artifact) -> str:
    return "sealed" if artifact.sealed else display.tokens_of(artifact)


def at(moment: datetime | None) -> Markup:
    """Return a time as HTML that shows its age, with the exact time as a tooltip."""
    if moment is None:
        return Markup("never")
    left_s = (moment - datetime.now(UTC)).total_seconds()
    said = f"in {display.span(left_s)}" if left_s > 0 else display.age(moment)
    exact = f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return Markup(f'<time datetime="{moment.isoformat()}" title="{exact}">{said}</time>')


def marked(text: str, words: Sequence[str]) -> Markup:
    """Return a text as HTML in which words are marked that begin with one of the given words."""
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
    """Return a value as indented JSON, shortened if it is long."""
    return cut(format(encode(value), indent=2).decode())


def with_query(path: str, query: dict[str, str], **changed: Any) -> str:
    """Return a path with a query, in which some fields are changed. Empty fields are left out."""
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
    """Return a rendered template as bytes. Lone surrogates, which UTF-8 cannot encode, are written
    as names.
    """
    return ENVIRONMENT.get_template(template).render(**values).encode(errors="replace")
