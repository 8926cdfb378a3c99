"""Tables: a mapping of the file, read by the fields that it may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from contextrelay.documents.values import shown
from contextrelay.errors import Invalid, TooLarge
from contextrelay.pipelines import fields
from contextrelay.pipelines.yaml_nodes import Node, Place, refuse


class Table:
    """A mapping of the file, read by a table of its fields."""

    def __init__(self, file: str, node: Node, what: str, table: Mapping[str, fields.Field]) -> None:
        if not isinstance(node.value, dict):
            refuse(file, node.place, f"{what} is no mapping", f"write {next(iter(table))}: ...")
        self.file = file
        self.node = node
        self.table = table
        for name in node.keys:
            if name not in table:
                meant = suggestion(name, table)
                refuse(file, node.keys[name], f"{what} has no {shown(name)}", meant)
        for name, field in table.items():
            if field.is_required and name not in node.keys:
                refuse(file, node.place, f"{what} without {name}:", f"add {name}: to it")

    def values(self) -> dict[str, Any]:
        """The fields that are there, read."""
        return {
            name: _read(self.file, node, name, self.table[name])
            for name, node in self.node.items()
            if self.table[name].read is not fields.nested
        }

    def part(self, name: str, what: str, table: Mapping[str, fields.Field]) -> Table:
        node = self.node.value.get(name) or Node({}, self.node.place)
        return Table(self.file, node, what, table)

    def entries(self, name: str) -> list[tuple[str, Node]]:
        """A mapping of names that the pipeline chooses."""
        node: Node | None = self.node.value.get(name)
        if node is None or node.value is None:
            return []
        if not isinstance(node.value, dict):
            refuse(self.file, node.place, f"{name} is no mapping", f"write {name}: and NAME: below")
        for each in node.keys:
            if not fields.NAME.fullmatch(each):
                hint = "letters, digits, - and _, a letter first, at most 64"
                refuse(self.file, node.keys[each], f"{shown(each)} is no name", hint)
        return node.items()

    def place_of(self, name: str) -> Place:
        return self.node.keys.get(name, self.node.place)


def _read(file: str, node: Node, name: str, field: fields.Field) -> Any:
    try:
        return field.read(node.plain())
    except (Invalid, TooLarge) as error:
        refuse(file, node.place_in(error.details), f"{name}: {error.message}", error.hint)


def suggestion(name: str, known: Iterable[str]) -> str:
    """What was meant by a name that is not known."""
    names = list(known)
    near = get_close_matches(name, names, 1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
