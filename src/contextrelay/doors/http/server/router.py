"""Paths: which function answers which method on which path.

`{name}` stands for one part of a path, and `{name...}` at the end for all the rest, slashes and
all. A part that is written out goes before one that stands for any.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextrelay.doors.http.app import Door
    from contextrelay.doors.http.server.request import Exchange

Handler = Callable[["Door", "Exchange", dict[str, str]], Awaitable[None]]


class Place:
    """One path: what can be done there."""

    __slots__ = ("has_text_errors", "methods", "path", "unknown")

    def __init__(self, path: str) -> None:
        self.path = path
        self.methods: dict[str, Handler] = {}
        self.has_text_errors = False
        """Whether errors here are plain text, as seed 000 has them."""
        self.unknown = ""
        """The error text for a missing or wrong token, where it is not the usual one."""

    def allowed(self) -> str:
        """The value of an Allow header."""
        head = ["HEAD"] if "GET" in self.methods else []
        return ", ".join(sorted([*self.methods, *head, "OPTIONS"]))


class Paths:
    """A tree of path parts."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self.places: dict[str, Place] = {}

    def add(
        self,
        method: str,
        path: str,
        handler: Handler,
        has_text_errors: bool = False,
        unknown: str = "",
    ) -> None:
        node = self._root
        for part in path.split("/")[1:]:
            name = ("..." if part.endswith("...}") else "{}") if part.startswith("{") else part
            node = node.setdefault(name, {})
        place = self.places.setdefault(path, Place(path))
        assert method not in place.methods, f"{method} {path} is answered twice"
        place.methods[method] = handler
        place.has_text_errors = place.has_text_errors or has_text_errors
        place.unknown = place.unknown or unknown
        assert node.get("/", place) is place, f"{path} is spelled in two ways"
        node["/"] = place

    def find(self, parts: list[str]) -> tuple[Place, dict[str, str]] | None:
        """The place of a path and what its names stand for."""
        found = self._find(self._root, parts, 0)
        if found is None:
            return None
        values: dict[str, str] = {}
        for index, part in enumerate(found.path.split("/")[1:]):
            if part.endswith("...}"):
                values[part[1:-4]] = "/".join(parts[index:])
            elif part.startswith("{"):
                values[part[1:-1]] = parts[index]
        return found, values

    def _find(self, node: dict[str, Any], parts: list[str], index: int) -> Place | None:
        if index == len(parts):
            return node.get("/")
        part = parts[index]
        if part in node and part != "/" and (found := self._find(node[part], parts, index + 1)):
            return found
        if "{}" in node and part and (found := self._find(node["{}"], parts, index + 1)):
            return found
        return node["..."]["/"] if "..." in node else None
