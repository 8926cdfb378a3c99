"""Drawing: pictures as inline SVG; colours are classes of the style, for both schemes.

Rule: a text goes in through `format` of Markup, which escapes it; templates take what comes out.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

_BAR_WIDTH, _BAR_HEIGHT, _LABEL_WIDTH, _AMOUNT_WIDTH = 640, 26, 110, 110


def bars(rows: Sequence[tuple[str, int, str]]) -> Markup:
    """Amounts as bars: a label, a number and the class of its colour each."""
    most = max((abs(amount) for _, amount, _ in rows), default=0) or 1
    room = _BAR_WIDTH - _LABEL_WIDTH - _AMOUNT_WIDTH
    said = ", ".join(f"{label} {amount:,}" for label, amount, _ in rows)
    lines = [
        Markup('<svg class="bars" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
            _BAR_WIDTH, len(rows) * _BAR_HEIGHT, said
        )
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
                label,
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
