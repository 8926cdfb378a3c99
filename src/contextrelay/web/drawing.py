"""Drawing: pictures as inline SVG; colours are classes of the style, for both schemes.

Rule: a text goes in through `format` of Markup, which escapes it; templates take what comes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from contextrelay.cli.display import clean

_BAR_HEIGHT, _LABEL_WIDTH, _AMOUNT_WIDTH, _LABEL_CHARS = 26, 110, 90, 16


def bars(rows: Sequence[tuple[str, int, str]], room: int = 220) -> Markup:
    """Amounts as bars: a label, a number and the class of its colour each."""
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
    """A node of a graph: a name, a line below it, where it leads and the class of its state."""

    name: str
    label: str = ""
    to: str = ""
    state: str = ""


class Edge(NamedTuple):
    """From one node to another."""

    start: str
    stop: str
    label: str = ""
    width: int = 1


_BOX, _HIGH, _ACROSS, _DOWN, _ROOM = 170, 44, 30, 46, 14
_CHARS = 22


def rows_of(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Names in rows, each below those before it, as far as there is no cycle."""
    depth = dict.fromkeys(names, 0)
    seen: list[tuple[str, str]] = []
    for start, stop in pairs:
        if start != stop and not _leads(seen, stop, start):
            seen.append((start, stop))
    for _ in names:  # At most as many rounds as there are rows.
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
    """Whether there is a way from one to the other."""
    reached, open_names = {start}, [start]
    while open_names:
        name = open_names.pop()
        for first, second in pairs:
            if first == name and second not in reached:
                reached.add(second)
                open_names.append(second)
    return stop in reached


def graph(rows: Sequence[Sequence[str]], boxes: Mapping[str, Box], edges: Sequence[Edge]) -> Markup:
    """Boxes in rows, with lines from one to another; each box is a link that a key can reach."""
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
    # Who gives back goes up on the right of who gave down.
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
