"""Edits of JSON texts: the least change of a text that makes it say a new value.

Rule: what stays the same stays as it is written: the order of members, white space, comments, the
spelling of numbers. What is new is written as its neighbours are: a diff shows the change alone.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from contextrelay.documents.value_types import is_list, is_object, same
from contextrelay.errors import Invalid
from contextrelay.project.files.decode import newline_of
from contextrelay.project.files.json_text import Node, parse

_REMARK = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)")
_INDENT_DEFAULT = "  "


class Edit(NamedTuple):
    """Text in place of what is from `start` to `stop`."""

    start: int
    stop: int
    text: str


class Style(NamedTuple):
    """How a file is written."""

    newline: str
    indent: str
    """Of one level; "" where all is in one line."""
    is_ascii: bool
    comma: str
    colon: str


def edited(text: str, new: Any, name: str) -> str:
    """The text, changed so that it says `new`.

    Raises:
        Broken: the text is no JSON.
        Invalid: `new` holds half a character, which no file can.
    """
    root = parse(text, name)
    found = _Changes(text, _style(text, root))
    found.change(root, new)
    pieces: list[str] = []
    end = 0
    for edit in sorted(found.edits, key=lambda each: (each.start, each.stop)):
        pieces += (text[end : edit.start], edit.text)
        end = edit.stop
    return "".join([*pieces, text[end:]])


def written(value: Any) -> str:
    """A new file that says a value."""
    return _spelled(value, Style("\n", _INDENT_DEFAULT, False, ", ", ": "), "", True) + "\n"


def _style(text: str, root: Node) -> Style:
    first = root.children[0] if root.children else None
    indent = _INDENT_DEFAULT
    if first is not None:
        before = _before(text, first)
        indent = before[before.rfind("\n") + 1 :] if "\n" in before else ""
        if "\n" in before and not indent:
            indent = _deeper_indent(text, root)
    is_ascii = text.isascii() and "\\u" in text
    tight = first is not None and first.name and text[first.value_start - 1] == ":"
    tight_comma = re.search(r',(?=["{\[0-9])', text) and '", "' not in text and "\n" not in text
    return Style(
        newline_of(text), indent, is_ascii, "," if tight_comma else ", ", ":" if tight else ": "
    )


def _deeper_indent(text: str, root: Node) -> str:
    """Of files whose first level is not indented: as the second is, if at all."""
    for child in root.children:
        if child.children:
            before = _before(text, child.children[0])
            if "\n" in before:
                return before[before.rfind("\n") + 1 :]
    return ""


def _before(text: str, node: Node) -> str:
    """The white space before a value or member."""
    start = node.start
    while start > 0 and text[start - 1] in " \t\r\n":
        start -= 1
    return text[start : node.start]


class _Changes:
    """Collects the edits of one text."""

    def __init__(self, text: str, style: Style) -> None:
        self.text = text
        self.style = style
        self.edits: list[Edit] = []

    def change(self, node: Node, new: Any) -> None:
        if same(node.value, new):
            return
        if node.kind == "object" and is_object(new):
            self._object(node, new)
        elif node.kind == "list" and is_list(new):
            self._list(node, new)
        else:
            self._replace(node, new)

    def _replace(self, node: Node, new: Any) -> None:
        is_wide = not node.children or "\n" in self.text[node.value_start : node.stop]
        spelled = _spelled(new, self.style, self._indent_at(node.start), is_wide)
        self.edits.append(Edit(node.value_start, node.stop, spelled))

    def _indent_at(self, index: int) -> str:
        """The white space that the line of an index begins with."""
        start = self.text.rfind("\n", 0, index) + 1
        line = self.text[start:index]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _object(self, node: Node, new: dict[str, Any]) -> None:
        last = {child.name: child for child in node.children}
        kept = [child.name in new for child in node.children]
        for name, child in last.items():
            if name in new:
                self.change(child, new[name])
        added = [(name, value) for name, value in new.items() if name not in last]
        self._arrange(node, kept, {len(node.children): added} if added else {})

    def _list(self, node: Node, new: list[Any]) -> None:
        pairs = _paired(node.value, new)
        if pairs is None:
            self._replace(node, new)
            return
        kept = [False] * len(node.children)
        added: dict[int, list[tuple[str, Any]]] = {}
        behind = 0
        for index, value in enumerate(new):
            old = pairs.get(index)
            if old is None:
                added.setdefault(behind, []).append(("", value))
            else:
                kept[old], behind = True, old + 1
                self.change(node.children[old], value)
        self._arrange(node, kept, added)

    def _arrange(
        self, node: Node, kept: list[bool], added: dict[int, list[tuple[str, Any]]]
    ) -> None:
        """Remove children and add new ones, each before the child of its index."""
        children = node.children
        if not any(kept):
            new = [each for index in sorted(added) for each in added[index]]
            if new or children:
                self._refill(node, new)
            return
        last_kept = max(index for index, is_kept in enumerate(kept) if is_kept)
        first_kept = kept.index(True)
        for index, items in added.items():
            # Behind the nearest kept child before it, or else before the first kept one.
            before = max((i for i in range(index) if kept[i]), default=-1)
            spelled = [self._child(node, each) for each in items]
            gap = self._gap(node)
            if before < 0:
                place = children[first_kept].start
                self.edits.append(Edit(place, place, "".join(f"{one},{gap}" for one in spelled)))
            else:
                is_last = before == last_kept == len(children) - 1
                self._insert(children[before].stop, is_last, gap, spelled)
        index = 0
        while index < len(children):
            stop = index
            while stop < len(children) and not kept[stop]:
                stop += 1
            if stop > index:
                if stop < len(children):
                    self.edits.append(Edit(children[index].start, children[stop].start, ""))
                else:
                    self.edits.append(Edit(children[index - 1].stop, children[-1].stop, ""))
            index = stop + 1

    def _insert(self, stop: int, is_last: bool, gap: str, spelled: list[str]) -> None:
        """Add children behind the end of another; a remark at the end of its line stays there."""
        remark = _REMARK.match(self.text, stop)
        text = ",".join(f"{gap}{one}" for one in spelled)
        if remark and is_last and "\n" in gap:
            self.edits.append(Edit(stop, stop, ","))
            self.edits.append(Edit(remark.end(), remark.end(), text))
        else:
            self.edits.append(Edit(stop, stop, f",{text}"))

    def _refill(self, node: Node, new: list[tuple[str, Any]]) -> None:
        """Give new children to a container that keeps none."""
        value: Any = dict(new) if node.kind == "object" else [each for _, each in new]
        inside = self.text[node.value_start + 1 : node.stop - 1]
        if node.children or not inside.strip():
            self._replace(node, value)
            return
        # Nothing but remarks inside: they stay, behind what is new.
        compact = _spelled(value, self.style._replace(indent=""), "", False)
        self.edits.append(Edit(node.value_start + 1, node.value_start + 1, compact[1:-1] + " "))

    def _gap(self, node: Node) -> str:
        """What is between a comma and the next child: a line and its indent, or a space."""
        last = node.children[-1]
        before = _before(self.text, last)
        if "\n" in before:
            return self.style.newline + before[before.rfind("\n") + 1 :]
        return self.style.comma[1:] if len(node.children) < 2 or not before else before

    def _child(self, node: Node, child: tuple[str, Any]) -> str:
        name, value = child
        siblings = [each for each in node.children if each.children]
        is_wide = not siblings or "\n" in self.text[siblings[-1].start : siblings[-1].stop]
        indent = self._indent_at(node.children[-1].start)
        if "\n" not in _before(self.text, node.children[-1]):
            is_wide = False
        spelled = _spelled(value, self.style, indent, is_wide)
        if node.kind == "list":
            return spelled
        return json.dumps(name, ensure_ascii=self.style.is_ascii) + self.style.colon + spelled


def _paired(old: list[Any], new: list[Any]) -> dict[int, int] | None:
    """Which new item is which old one, by index; None where they changed places."""
    old_ids, new_ids = _ids(old), _ids(new)
    if old_ids is None or new_ids is None:
        if len(old) == len(new):
            return {index: index for index in range(len(new))}
        old_keys, new_keys = [_key(each) for each in old], [_key(each) for each in new]
    else:
        old_keys, new_keys = old_ids, new_ids
    places: dict[str, list[int]] = {}
    for index in range(len(old_keys) - 1, -1, -1):
        places.setdefault(old_keys[index], []).append(index)
    pairs: dict[int, int] = {}
    behind = -1
    for index, key in enumerate(new_keys):
        there = places.get(key)
        if not there:
            continue
        place = there.pop()
        if place < behind:
            return None
        pairs[index] = behind = place
    return pairs


def _ids(items: list[Any]) -> list[str] | None:
    """The ids of items that all have one of their own."""
    ids = [item.get("id") if is_object(item) else None for item in items]
    texts = [each for each in ids if type(each) is str]
    return texts if len(texts) == len(items) and len(set(texts)) == len(texts) else None


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _spelled(value: Any, style: Style, indent: str, is_wide: bool) -> str:
    """A value as text that begins in a line of that indent."""
    try:
        if is_wide and style.indent:
            text = json.dumps(
                value,
                indent=style.indent,
                ensure_ascii=style.is_ascii,
                separators=(",", style.colon),
            )
            text = text.replace("\n", style.newline + indent)
        else:
            text = json.dumps(
                value, ensure_ascii=style.is_ascii, separators=(style.comma, style.colon)
            )
        text.encode()
    except UnicodeEncodeError as error:
        raise Invalid("the text holds half a character", "write it as UTF-8") from error
    return text
