"""Settings: YAML, TOML and INI by their sections and keys, line by line.

No parser: a few lines of YAML can mean gigabytes, and a key with its line is what a reader needs.
"""

from __future__ import annotations

import re
from itertools import chain

from msgspec import Struct

from contextrelay.limits import OUTLINE_PIECES_MAX
from contextrelay.logic.content.source import Source
from contextrelay.logic.outline.layout import JOINED, Drawn, Piece, quoted

_SECTION = re.compile(r"\s*\[{1,2}([^\[\]]{1,120})\]{1,2}\s*(?:[#;].*)?")
_KEY = re.compile(r"([A-Za-z0-9_.\"'/-]{1,80})\s*[=:]\s*(.*)")
_YAML_KEY = re.compile(r"( *)(?:- )?([A-Za-z0-9_.\"'/$@-][\w .\"'/$@-]{0,80}?):(?: (.*))?")
_DIGITS = re.compile(r"\d+")
# Up to so many sections each is shown by its own name.
_SECTIONS_MIN = 40
_SETTINGS = ("application/toml", "text/x-java-properties")
_NAMES = (".ini", ".cfg", ".conf", ".env", ".properties", ".toml")


def draw(source: Source) -> Drawn | None:
    """The outline of settings; None for other text."""
    name = source.name.lower()
    if source.media_type in ("application/yaml", "text/yaml", "application/x-yaml"):
        return _yaml(source)
    if source.media_type in _SETTINGS or name.endswith(_NAMES):
        return _sections(source)
    return None


def _yaml(source: Source) -> Drawn | None:
    found: list[tuple[int, int, str, str]] = []
    indents: set[int] = set()
    left_out = 0
    for number, line in enumerate(source.short_lines, 1):
        if line.lstrip().startswith("#"):
            continue
        match = _YAML_KEY.fullmatch(line.rstrip())
        if match:
            indents.add(len(match[1]))
            if len(found) < OUTLINE_PIECES_MAX:
                found.append((len(match[1]), number, match[2], (match[3] or "").strip()))
            else:
                left_out += 1
    if not found:
        return None
    depths = sorted(indents)[:4]
    documents = sum(line.startswith("---") for line in source.short_lines)
    several = f", {documents} documents" if documents > 1 else ""
    pieces = [Piece(0, (f"YAML, {source.measure()}{several}",))]
    here: set[str] = set()
    for indent, number, key, value in found:
        if indent not in depths:
            continue
        rank = 1 + depths.index(indent)
        label = f"{' ' * (rank - 1)}{quoted(key, 60)}"
        if rank <= 2:
            here.clear()
            short = f"{label}:{number}"
            rich = f"{label}: {quoted(value, 40)}:{number}" if value else short
            pieces.append(Piece(rank, (label, short, rich)))
        elif key not in here:
            here.add(key)
            pieces.append(Piece(rank, (quoted(key, 60),), JOINED))
    names = dict.fromkeys(key for indent, _, key, _ in sorted(found) if indent in depths)
    after = f"--lines {found[0][1]}:{found[0][1] + 40}"
    return Drawn("yaml", pieces, after, left_out, names)


class _Section(Struct):
    """A section, or several of the same name: where the first and the last are, and their keys."""

    name: str
    first: int
    last: int
    keys: dict[str, str]
    count: int = 1


def _sections(source: Source) -> Drawn | None:
    found: dict[str, _Section] = {}
    current = found[""] = _Section("", 0, 0, {}, 0)
    sections = keys = 0
    for number, line in enumerate(source.short_lines, 1):
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        if match := _SECTION.fullmatch(line):
            sections += 1
            # Sections that differ in a number are of one kind.
            label = _DIGITS.sub("#", match[1]) if sections > _SECTIONS_MIN else match[1]
            current = found.get(label) or _Section(match[1], number, number, {}, 0)
            if label in found or len(found) < OUTLINE_PIECES_MAX:
                found[label] = current
            current.count, current.last = current.count + 1, number
        elif not line[0].isspace() and (match := _KEY.match(text)):
            keys += 1
            if len(current.keys) < OUTLINE_PIECES_MAX:
                current.keys.setdefault(match[1], match[2])
    if not sections and not keys:
        return None
    pieces = [Piece(0, (f"settings, {sections} sections, {keys} keys, {source.measure()}",))]
    for each in found.values():
        times = f" x{each.count}, lines {each.first}-{each.last}" if each.count > 1 else ""
        if each.name:
            pieces.append(Piece(1, (f"[{quoted(each.name, 100)}]{times or f':{each.first}'}",)))
        for index, (key, value) in enumerate(each.keys.items()):
            forms = (key, f"{key} = {quoted(value, 40)}") if each.count <= 1 else (key,)
            glue = JOINED if each.name or index else "\n"
            pieces.append(Piece(2, forms, glue))
    left_out = max(0, len(pieces) - OUTLINE_PIECES_MAX)
    names = dict.fromkeys(chain.from_iterable(each.keys for each in found.values()))
    return Drawn("settings", pieces[:OUTLINE_PIECES_MAX], "--lines 1:41", left_out, names)
