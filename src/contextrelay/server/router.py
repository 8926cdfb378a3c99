"""Paths: which function answers which method on which path, and the types that it takes.

Rule: what OpenAPI says of an endpoint is made of its types and of the handler's docstring.

`{name}` stands for one part of a path, and `{name...}` at the end for all the rest, slashes and
all. A part that is written out goes before one that stands for any.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from contextrelay.errors import RelayError
from contextrelay.verbs.routes import FROM_HEADER, KEY_HEADER

if TYPE_CHECKING:
    from contextrelay.server.request import Exchange

Handler = Callable[["Exchange"], Awaitable[None]]

RELAY, PLAIN_THREADS, SERVER = "relay", "threads, plain", "server"
"""Tags: the paths of seed 000, those of seed 002, and those about the server itself."""
UNKNOWN = "invalid or missing API token"
"""Seed 002's error text for a missing or wrong token."""
WRITES = (KEY_HEADER, FROM_HEADER)
"""The headers of requests that write."""


class NotAllowed(RelayError):
    """The path is there, but not for this method."""

    code, status = "method_not_allowed", 405


class Endpoint(Struct, frozen=True, kw_only=True):
    """One method on one path that is not a verb's own."""

    http: str
    """Like "POST /threads"."""
    handler: Handler
    id: str = ""
    """In OpenAPI, where it is not the handler's name."""
    tag: str = PLAIN_THREADS
    query: type[Struct] | None = None
    """Its fields are the query's; those that the path names are left out."""
    takes: Any = None
    """The type of the JSON body."""
    takes_bytes: bool = False
    """Whether the body may be anything else, too."""
    form: type[Struct] | None = None
    """The fields of a form, where that is taken as well; the content is in its part `file`."""
    gives: Any = None
    """The type of the JSON reply; a tuple where it may be one of several."""
    status: int = 200
    also: dict[int, tuple[str, ...]] = {}
    """More replies: statuses, and the media types that each may come with."""
    headers: tuple[str, ...] = ()
    """Request headers that matter here."""
    fails: tuple[int, ...] = ()
    """HTTP statuses of its errors, besides those that follow from its method and path."""
    takes_token: bool = False
    """Whether the token may be in the query: a browser can send no header with it."""

    @property
    def name(self) -> str:
        """In OpenAPI: new_thread is newThread."""
        first, *rest = self.handler.__name__.split("_")
        return self.id or first + "".join(map(str.title, rest))

    @property
    def method(self) -> str:
        return self.http.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.http.partition(" ")[2]


class RoutedPath:
    """One path: what can be done there."""

    __slots__ = (
        "has_text_errors",
        "is_open",
        "is_page",
        "methods",
        "path",
        "takes_token",
        "unknown",
    )

    def __init__(self, path: str) -> None:
        self.path = path
        self.methods: dict[str, Handler] = {}
        self.has_text_errors = False
        """Whether errors here are plain text, as seed 000 has them."""
        self.unknown = ""
        """The error text for a missing or wrong token, where it is not the usual one."""
        self.takes_token = False
        """Whether the token may be in the query."""
        self.is_open = False
        """Whether it needs no token."""
        self.is_page = False
        """Whether it is for browsers: signed in by a cookie, and errors are pages."""

    def allowed(self) -> str:
        """The value of an Allow header."""
        head = ["HEAD"] if "GET" in self.methods else []
        return ", ".join(sorted([*self.methods, *head, "OPTIONS"]))


class Paths:
    """A tree of path parts."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self.places: dict[str, RoutedPath] = {}

    def add_endpoint(self, endpoint: Endpoint) -> None:
        place = self.add(endpoint.method, endpoint.path, endpoint.handler)
        place.has_text_errors = endpoint.tag == RELAY
        place.unknown = UNKNOWN if endpoint.tag == PLAIN_THREADS else ""
        place.takes_token = endpoint.takes_token

    def add(self, method: str, path: str, handler: Handler) -> RoutedPath:
        node = self._root
        for part in path.split("/")[1:]:
            name = ("..." if part.endswith("...}") else "{}") if part.startswith("{") else part
            node = node.setdefault(name, {})
        place = self.places.setdefault(path, RoutedPath(path))
        assert method not in place.methods, f"{method} {path} is answered twice"
        place.methods[method] = handler
        assert node.get("/", place) is place, f"{path} is spelled in two ways"
        node["/"] = place
        return place

    def find(self, parts: list[str]) -> tuple[RoutedPath, dict[str, str]] | None:
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

    def _find(self, node: dict[str, Any], parts: list[str], index: int) -> RoutedPath | None:
        if index == len(parts):
            return node.get("/")
        part = parts[index]
        if part in node and part != "/" and (found := self._find(node[part], parts, index + 1)):
            return found
        if "{}" in node and part and (found := self._find(node["{}"], parts, index + 1)):
            return found
        return node["..."]["/"] if "..." in node else None
