"""XML: the root, and the elements with their counts."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

from contextrelay.content.outline.layout import JOINED, OutlineDraft, OutlinePiece, quoted
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_PIECES_MAX, OUTLINE_TAGS_MAX

# Elements in comments are ignored; an unclosed comment extends to the end.
_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<([A-Za-z_][\w:.-]{0,80}+)([^<>]{0,2000}+)>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"(?<![\w:.-])([A-Za-z_][\w:.-]{0,60}+)\s*+=\s*+[\"']")


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of an XML document, or None for other text."""
    head = source.text[:2_000].lstrip()
    if not head.startswith(("<?xml", "<!DOCTYPE", "<svg")) and "xml" not in source.media_type:
        return None
    counts: Counter[str] = Counter()
    attributes: dict[str, Counter[str]] = {}
    firsts: dict[str, int] = {}
    others = place = 0
    line = 1
    tags = _TAG.finditer(source.text)
    for match in islice(tags, OUTLINE_TAGS_MAX):
        name = match[1]
        if name is None:
            continue
        if name not in counts:
            if len(counts) >= OUTLINE_PIECES_MAX:
                others += 1
                continue
            line += source.text.count("\n", place, match.start())
            place = match.start()
            firsts[name], attributes[name] = line, Counter()
        counts[name] += 1
        if counts[name] <= 100:
            attributes[name].update(_ATTRIBUTE.findall(match[2]))
    if not counts:
        return None
    root = next(iter(counts))
    total = sum(counts.values()) + others
    many = f"{'more than ' if next(tags, None) else ''}{total}"
    least = "more than " if others else ""
    title = f"XML, root {quoted(root, 60)}, {many} elements of {least}{len(counts)} kinds"
    pieces = [OutlinePiece(0, (f"{title}, {source.measure()}",)), OutlinePiece(1, ("elements:",))]
    for name, count in counts.most_common():
        held = ", ".join(quoted(each, 40) for each in list(attributes[name])[:8])
        short = f"{quoted(name, 60)} x{count}"
        rich = f"{short} ({held}):{firsts[name]}" if held else f"{short}:{firsts[name]}"
        pieces.append(OutlinePiece(2, (short, rich), JOINED))
    return OutlineDraft(
        "xml", pieces, f"--lines 1:{min(len(source.lines), 40) + 1}", names=counts.keys()
    )
