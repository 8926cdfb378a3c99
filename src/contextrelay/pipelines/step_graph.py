"""The graph of a pipeline: an order in which its steps can be run, and how it looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from html import escape

from contextrelay.pipelines.yaml_nodes import Place, refuse

_BOX_WIDTH, _BOX_HEIGHT, _GAP_ACROSS, _GAP_DOWN, _EDGE = 168, 40, 24, 36, 12
_LABEL_CHARS_MAX = 22


def order(
    file: str, needs: Mapping[str, Sequence[str]], place_of: Callable[[str, str], Place]
) -> list[str]:
    """Names, each after those that it needs, otherwise in the order of the file.

    `place_of`: where a step names one that it needs.

    Raises:
        Invalid: steps need each other; the message shows the cycle.
    """
    sorter = TopologicalSorter(needs)
    try:
        sorter.prepare()
    except CycleError as error:
        # graphlib gives each step before the one that it is needed by.
        cycle: list[str] = list(reversed(error.args[1]))
        shown = " needs ".join(cycle)
        place = place_of(cycle[0], cycle[1])
        refuse(file, place, f"a cycle: {shown}", "take one of these out of needs:")
    rank = {name: number for number, name in enumerate(needs)}
    done: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=rank.__getitem__)
        done += ready
        sorter.done(*ready)
    return done


def layers(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The steps in rows: each in the first row below all that it needs. `needs` is in order."""
    depth: dict[str, int] = {}
    for name, before in needs.items():
        depth[name] = 1 + max((depth[each] for each in before), default=-1)
    rows: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, row in depth.items():
        rows[row].append(name)
    return rows


def as_text(needs: Mapping[str, Sequence[str]], labels: Mapping[str, str]) -> str:
    """One line a step, indented by its row: what it is, and what it waits for."""
    lines: list[str] = []
    for row, names in enumerate(layers(needs)):
        for name in names:
            after = f"  ← {', '.join(needs[name])}" if needs[name] else ""
            lines.append(f"{'  ' * row}{name}  {labels[name]}{after}")
    return "\n".join(lines) + "\n"


def as_mermaid(needs: Mapping[str, Sequence[str]], labels: Mapping[str, str]) -> str:
    """The graph for tools that draw Mermaid."""
    number = {name: f"s{index}" for index, name in enumerate(needs)}
    lines = ["flowchart TD"]
    for name in needs:
        # In Mermaid's own notation a quote cannot be escaped but by its code.
        label = f"{name}: {labels[name]}".replace('"', "#quot;")
        lines.append(f'  {number[name]}["{label}"]')
    lines += (f"  {number[before]} --> {number[name]}" for before, name in _edges(needs))
    return "\n".join(lines) + "\n"


def as_svg(
    needs: Mapping[str, Sequence[str]],
    labels: Mapping[str, str],
    colours: Mapping[str, str] | None = None,
) -> str:
    """The graph as a picture; `colours` of the boxes by name."""
    rows = layers(needs)
    most = max(map(len, rows))
    across, down = _BOX_WIDTH + _GAP_ACROSS, _BOX_HEIGHT + _GAP_DOWN
    width, height = most * across + 2 * _EDGE, len(rows) * down - _GAP_DOWN + 2 * _EDGE
    corner: dict[str, tuple[float, float]] = {}
    for row, names in enumerate(rows):
        left = (width - len(names) * across + _GAP_ACROSS) / 2
        for column, name in enumerate(names):
            corner[name] = (left + column * across, _EDGE + row * down)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = 'font-family="system-ui, sans-serif" font-size="12"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {font}>',
        f"<title>{escape(', '.join(needs))}</title>",
    ]
    for before, name in _edges(needs):
        (left, top), (right, bottom) = corner[before], corner[name]
        start = f"{left + _BOX_WIDTH / 2:g} {top + _BOX_HEIGHT}"
        stop = f"{right + _BOX_WIDTH / 2:g} {bottom}"
        middle = (top + _BOX_HEIGHT + bottom) / 2
        bend = f"{left + _BOX_WIDTH / 2:g} {middle:g} {right + _BOX_WIDTH / 2:g} {middle:g}"
        lines.append(f'<path d="M{start} C{bend} {stop}" fill="none" stroke="#888"/>')
    for name, (left, top) in corner.items():
        colour = (colours or {}).get(name, "#8882")
        lines.append(
            f'<g><rect x="{left:g}" y="{top:g}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6" '
            f'fill="{escape(colour)}" stroke="#888"/>'
            f'<text x="{left + 10:g}" y="{top + 17:g}" font-weight="600" fill="currentColor">'
            f"{_label(name)}</text>"
            f'<text x="{left + 10:g}" y="{top + 32:g}" fill="currentColor">'
            f"{_label(labels[name])}</text></g>"
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def _edges(needs: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, str]]:
    return ((before, name) for name, all_before in needs.items() for before in all_before)


def _label(text: str) -> str:
    return escape(text if len(text) <= _LABEL_CHARS_MAX else text[: _LABEL_CHARS_MAX - 1] + "…")
