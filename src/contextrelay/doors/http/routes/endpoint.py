"""Endpoints: routes that are not a verb's own, with the types of what they take and give.

Rule: what OpenAPI says of such a route is made of these types and of the handler's docstring.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from contextrelay.wire.routes import FROM_HEADER, KEY_HEADER

if TYPE_CHECKING:
    from contextrelay.doors.http.server.router import Handler, Paths

WRITES = (KEY_HEADER, FROM_HEADER)
"""The headers of requests that write."""


class Endpoint(Struct, frozen=True, kw_only=True):
    """One method on one path."""

    http: str
    """Like "POST /threads"."""
    handler: Handler
    id: str
    """In OpenAPI, where the handler's name is not the only one of its kind."""
    query: type[Struct] | None = None
    """Its fields are the query's; those that the path names are left out."""
    takes: Any = None
    """The type of the JSON body."""
    form: type[Struct] | None = None
    """The fields of a form, where that is taken as well; the content is in its part `file`."""
    gives: Any = None
    """The type of the JSON reply."""
    status: int = 200
    also: dict[int, tuple[str, ...]] = {}
    """More replies: statuses, and the media types that each may come with."""
    headers: tuple[str, ...] = ()
    """Request headers that matter here."""
    fails: tuple[int, ...] = ()
    """HTTP statuses of its errors, besides those that follow from its method and path."""

    @property
    def method(self) -> str:
        return self.http.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.http.partition(" ")[2]


def add_endpoints(paths: Paths, endpoints: Iterable[Endpoint], unknown: str) -> None:
    """Register endpoints; `unknown` is the error text for a missing or wrong token."""
    for each in endpoints:
        paths.add(each.method, each.path, each.handler, unknown=unknown)
