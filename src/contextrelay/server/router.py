"""Routing: the handler of each method and path, and the types of the request and response.

Rule: the OpenAPI description of an endpoint is made from its types and the handler's docstring.
`{name}` matches one path segment, and `{name...}` at the end matches the rest including slashes. A
literal segment has precedence over a placeholder.
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
"""Tags of the paths of seed 000, of the paths of seed 002, and of the paths of the server itself.
"""
UNKNOWN = "invalid or missing API token"
"""Seed 002's error text for a missing or invalid token."""
WRITES = (KEY_HEADER, FROM_HEADER)
"""The request headers of endpoints that write."""


class NotAllowed(RelayError):
    """The path exists, but does not support this method."""

    code, status = "method_not_allowed", 405


class Endpoint(Struct, frozen=True, kw_only=True):
    """An endpoint that is not a verb: a method on a path."""

    http: str
    """The method and path, for example "POST /threads"."""
    handler: Handler
    id: str = ""
    """The OpenAPI operation id, if it is not the handler's name."""
    tag: str = PLAIN_THREADS
    query: type[Struct] | None = None
    """The type whose fields may be in the query. Fields that are in the path are left out."""
    takes: Any = None
    """The type of the JSON body."""
    takes_bytes: bool = False
    """If True, bodies other than JSON are accepted too."""
    form: type[Struct] | None = None
    """The type of the form fields, or None if forms are not accepted. The part `file` is the
    content.
    """
    gives: Any = None
    """The type of the JSON response, or a tuple of alternative types."""
    status: int = 200
    also: dict[int, tuple[str, ...]] = {}
    """Further responses: for each status, the media types."""
    headers: tuple[str, ...] = ()
    """Request headers that the endpoint uses."""
    fails: tuple[int, ...] = ()
    """Error statuses, except those that follow from the method and the path."""
    takes_token: bool = False
    """True if the token may be in the query, because browsers cannot send headers with this
    request.
    """

    @property
    def name(self) -> str:
        """Return the OpenAPI operation id in camel case: new_thread becomes newThread."""
        first, *rest = self.handler.__name__.split("_")
        return self.id or first + "".join(map(str.title, rest))

    @property
    def method(self) -> str:
        return self.http.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.http.partition(" ")[2]


class RoutedPath:
    """A path with the handlers of its methods."""

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
        """True if errors are plain text, as in seed 000."""
        self.unknown = ""
        """The error text for a missing or invalid token, if it differs from the usual one."""
        self.takes_token = False
        """True if the token may be in the query."""
        self.is_open = False
        """True if no token is needed."""
        self.is_page = False
        """True for pages, which have sign-in by cookie and errors as HTML."""

    def allowed(self) -> str:
        """Return the value of the Allow header."""
        head = ["HEAD"] if "GET" in self.methods else []
        return ", ".join(sorted([*self.methods, *head, "OPTIONS"]))


class Paths:
    """A tree of path segments."""

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
        assert method not in place.methods, f"duplicate route {method} {path}"
        place.methods[method] = handler
        assert node.get("/", place) is place, f"{path} has two names for the same segment"
        node["/"] = place
        return place

    def find(self, parts: list[str]) -> tuple[RoutedPath, dict[str, str]] | None:
        """Return the route of a path and the values of its placeholders, or None."""
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
