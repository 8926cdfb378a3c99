"""Settings: sections and keys of TOML and INI files, line by line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice

from msgspec import Struct

from contextrelay.content.outline.layout import JOINED, OutlineDraft, OutlinePiece, shorten
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_PIECES_MAX

_SECTION = re.compile(r"\s*\[{1,2}([^\[\]]{1,120})\]{1,2}\s*(?:[#;].*)?")
_SECTION_STARTS = frozenset("[ \t")
_KEY = re.compile(r"([A-Za-z0-9_.\"'/-]{1,80})\s*[=:]\s*(.*)")
_DIGITS = bytes.maketrans(b"0123456789", b"##########")
# Up to this number, sections are shown by their own names.
_SECTIONS_MIN = 40
_SECTIONS_FEW = 8
# Minimum number of sections below one name to form a group.
_CHILDREN_MIN = 8
_LEAF = re.compile(r"(?<=\S)([.:/ ])(?:\"[^\"\n]*\"|[^.:/ \"\n]+)$", re.MULTILINE)
_MIDDLE = re.compile(
    r"^([^.:/ \n]+[.:/ ])[^\n]+([.:/ ](?:\"[^\"\n]*\"|[^.:/ \"\n]+))$", re.MULTILINE
)
# How many names of a group are shown; more if there is room.
_NAMES_SHOWN = (3, 20, 100)
_ARRAY_LINES = 12
# A short part of each value comes before more of one.
_VALUE_CHARS = (30, 80)
_SETTINGS = ("application/toml", "text/x-java-properties")
_NAMES = (".ini", ".cfg", ".conf", ".env", ".properties", ".toml")


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a settings file, or None for other text."""
    is_settings = source.media_type in _SETTINGS or source.name.lower().endswith(_NAMES)
    return _sections(source) if is_settings else None


class _Section(Struct):
    """A section or a group of similar ones: names, first and last line, keys."""

    label: str
    first: int
    last: int = 0
    count: int = 0
    names: dict[str, None] = {}
    last_name: str = ""
    keys: dict[str, str] = {}
    varying: set[str] = set()  # Keys whose values differ between the sections.

    def heading(self) -> tuple[str, ...]:
        """Return its heading in several forms, shortest first."""
        name = shorten(self.label if len(self.names) > 1 else self.last_name, 100)
        if self.count <= 1:
            return (f"[{name}]:{self.first}",)
        where = f"x{self.count}, lines {self.first}-{self.last}"
        if len(self.names) <= 1:
            return (f"[{name}] {where}",)
        if not self.label.endswith("*"):
            first = shorten(next(iter(self.names)), 100)
            return (f"[{first}] .. [{shorten(self.last_name, 100)}] {where}",)
        leaves = ((each, _LEAF.search(each)) for each in self.names)
        names = [shorten(each[leaf.end(1) :] if leaf else each, 60) for each, leaf in leaves]
        some = [f"({', '.join(names[:count])} …) " for count in _NAMES_SHOWN]
        return tuple(f"[{name}] {listed}{where}" for listed in ("", *some))


def _sections(source: Source) -> OutlineDraft | None:
    lines = source.short_lines
    headers = {
        number: name
        for number, line in enumerate(lines, 1)
        if line[:1] in _SECTION_STARTS and (name := _section(line))
    }
    labels = _labels(list(headers.values()))
    found: dict[str, _Section] = {}
    current = found[""] = _Section("", 0)
    keys = 0
    for number, line in enumerate(lines, 1):
        name = headers.get(number)
        if name is not None:
            label = labels.get(name, name)
            current = found.get(label) or _Section(label, number)
            if label in found or len(found) < OUTLINE_PIECES_MAX:
                found[label] = current
            current.count, current.last, current.last_name = current.count + 1, number, name
            if len(current.names) < _NAMES_SHOWN[-1]:
                current.names[name] = None
        elif line.partition("=")[0].rstrip() in current.varying:
            keys += 1  # Repeats the keys of earlier sections, so nothing more is shown.
        elif line and not line[0].isspace() and line[0] not in "#;" and (match := _KEY.match(line)):
            keys += 1
            if len(current.keys) < OUTLINE_PIECES_MAX:
                key, value = match[1], match[2].rstrip()
                if key not in current.keys:
                    is_open = value == "["
                    entries = lines[number : number + _ARRAY_LINES] if is_open else ()
                    current.keys[key] = _array(entries) if is_open else value
                elif current.keys[key] != value:
                    current.varying.add(key)
    if not headers and not keys:
        return None
    measure = f"{len(headers)} sections, {keys} keys, {source.measure()}"
    pieces = [OutlinePiece(0, (f"settings, {measure}",))]
    # All sections come before more keys of one.
    keys_each = max(1, OUTLINE_PIECES_MAX // len(found) - 1)
    left_out = 0
    for each in found.values():
        # If there are many sections, those that belong to a group give way to names.
        rank = 2 if labels and each.count == 1 else 1
        if each.label:
            pieces.append(OutlinePiece(rank, each.heading()))
        for index, (key, value) in enumerate(islice(each.keys.items(), keys_each)):
            more = " …" if key in each.varying else ""
            shown = dict.fromkeys(shorten(value, chars) for chars in _VALUE_CHARS if value)
            forms = (key, *(f"{key} = {some}{more}" for some in shown))
            pieces.append(OutlinePiece(rank + 1, forms, JOINED if each.label or index else "\n"))
        left_out += max(0, len(each.keys) - keys_each)
    names = dict.fromkeys(chain.from_iterable(each.keys for each in found.values()))
    names.update(dict.fromkeys(chain.from_iterable(each.names for each in found.values())))
    # Groups, and a few sections, keep their lines when names need the room.
    kept_rank = int(bool(labels) or len(found) <= _SECTIONS_FEW)
    return OutlineDraft("settings", pieces, "--lines 1:41", left_out, names, kept_rank)


def _section(line: str) -> str:
    name = line[1:-1]
    if line[0] == "[" and line[-1] == "]" and name.replace(".", "").isalnum():
        return name  # The common case, which is faster.
    match = _SECTION.fullmatch(line)
    return match[1] if match is not None else ""


def _labels(names: Sequence[str]) -> dict[str, str]:
    """Return group labels for many sections that differ only in numbers, or share a parent."""
    if len(names) <= _SECTIONS_MIN:
        return {}
    # All names are masked in one pass, which takes a third of the time.
    distinct = list(dict.fromkeys(names))
    text = "\n".join(distinct).encode("utf-8", "replace").translate(_DIGITS)
    while b"##" in text:
        text = text.replace(b"##", b"#")
    labels = dict(zip(distinct, text.decode().split("\n"), strict=True))
    for pattern, by in ((_LEAF, r"\1*"), (_MIDDLE, r"\1*\2")):
        counts = Counter(labels.values())
        lone = [name for name, label in labels.items() if counts[label] < _CHILDREN_MIN]
        others = pattern.sub(by, "\n".join(labels[name] for name in lone)).split("\n")
        counts = Counter(others)
        found = zip(lone, others, strict=False)
        labels.update((name, other) for name, other in found if counts[other] >= _CHILDREN_MIN)
    return labels


def _array(lines: Sequence[str]) -> str:
    entries = [line.strip() for line in lines]
    end = next((at for at, text in enumerate(entries) if text.startswith("]")), None)
    joined = " ".join(entries[:end])
    return f"[{joined} …" if end is None else f"[{joined.rstrip(',')}]"
