"""The mount of the web page: /ui/ and everything below it, imported at the first request.

Rule: if the server requires keys, nothing is shown without a sign-in, except the style sheet, the
script and the sign-in form.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from contextrelay.server.request import TEXT, Exchange
from contextrelay.server.router import SERVER, Endpoint, Paths
from contextrelay.web.entry import PageOptions

if TYPE_CHECKING:
    from contextrelay.web.page import Page

BARE, PAGE, REST, STATIC, ENTER = "/ui", "/ui/", "/ui/{path...}", "/ui/static/{name}", "/ui/enter"


class MountedPage:
    """The page of one server process."""

    def __init__(self, options: PageOptions) -> None:
        self._options = options

    def add_to(self, paths: Paths) -> None:
        for method, path, handler in (
            ("GET", PAGE, show),
            ("GET", REST, show),
            ("POST", REST, change),
            ("GET", STATIC, static),
            ("POST", ENTER, enter),
        ):
            paths.add(method, path, handler).is_page = True
        paths.places[STATIC].is_open = paths.places[ENTER].is_open = True
        # The browser sends no cookie to this path, so a signed-in browser would be asked for a
        # key.
        paths.places[BARE].is_page = paths.places[BARE].is_open = True

    @cached_property
    def page(self) -> Page:
        from contextrelay.web.page import Page

        return Page(self._options)

    async def stop(self) -> None:
        if "page" in vars(self):
            await self.page.close()


async def show(exchange: Exchange) -> None:
    """Show a screen."""
    await exchange.door.page.page.show(exchange)


async def to_page(exchange: Exchange) -> None:
    """Redirect to the page."""
    await exchange.reply(308, b"", TEXT, [(b"location", b"/ui/")])


async def change(exchange: Exchange) -> None:
    """Handle a form of a screen."""
    await exchange.door.page.page.change(exchange)


async def static(exchange: Exchange) -> None:
    """Return the style, the script or the icon of the page."""
    await exchange.door.page.page.static(exchange)


async def enter(exchange: Exchange) -> None:
    """Sign in."""
    await exchange.door.page.page.enter(exchange)


ENDPOINTS = [
    Endpoint(http=f"GET {BARE}", handler=to_page, tag=SERVER, also={308: ("text/plain",)}),
]
"""The route of the page for people. The paths below it are not part of the API or its
documentation.
"""
