"""Notebooks: cells by number, kind and first line."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from contextrelay.content.outline.json import read
from contextrelay.content.outline.layout import OutlineDraft, OutlinePiece, shorten
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_PIECES_MAX

_KINDS_SHOWN_MAX = 8


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a Jupyter notebook, or None for other JSON."""
    if '"cells"' not in source.text or '"nbformat"' not in source.text:
        return None
    try:
        document = read(source)
    except ValueError:
        return None
    cells = _list(_dict(document).get("cells"))
    if not cells:
        return None
    kinds = Counter(_word(_dict(cell).get("cell_type")) for cell in cells)
    language = _dict(_dict(_dict(document).get("metadata")).get("kernelspec")).get("language", "")
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(_KINDS_SHOWN_MAX))
    of_language = f", {shorten(_word(language), 30)}" if language else ""
    title = f"notebook, {len(cells)} cells ({counts}){of_language}, {source.measure()}"
    pieces = [OutlinePiece(0, (title,))]
    for index, cell in enumerate(cells[:OUTLINE_PIECES_MAX]):
        pieces.append(_cell(index, _dict(cell)))
    return OutlineDraft("notebook", pieces, "--json-pointer /cells/0/source")


def _cell(index: int, cell: dict[str, Any]) -> OutlinePiece:
    text = cell.get("source")
    if isinstance(text, list):
        text = "".join(map(_word, cast("list[Any]", text)[:200]))
    kind = "md" if cell.get("cell_type") == "markdown" else _word(cell.get("cell_type"))[:8]
    lines = (text if isinstance(text, str) else "").strip().split("\n")
    outputs = map(_dict, _list(cell.get("outputs")))
    failed = next((each for each in outputs if each.get("output_type") == "error"), None)
    error = ""
    if failed:
        named, why = _word(failed.get("ename")), _word(failed.get("evalue"))
        error = f" !{shorten(named, 40)}: {shorten(why, 60)}"
    is_heading = lines[0].startswith("#") and kind == "md"
    head = f"/cells/{index} {kind} "
    short = f"{head}{shorten(lines[0], 50)}{error}"
    more = f" ({len(lines)} lines)" if len(lines) > 1 else ""
    long = f"{head}{shorten(lines[0], 100)}{more}{error}"
    return OutlinePiece(0 if failed else 1 if is_heading else 2, (short, long))


def _word(value: Any) -> str:
    """Return a text, or the type name of another value, which could have any length."""
    return value if isinstance(value, str) else f"({type(value).__name__})"


def _dict(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
