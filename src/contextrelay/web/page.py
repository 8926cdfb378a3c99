"""The web page: answers requests for screens, forms and files, and streams notifications of
changes.

Rule: a notification carries numbers only. The page then requests the new content as usual, with the
permissions of its visitor.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar
from urllib.parse import quote

from msgspec.json import encode
from msgspec.structs import replace

from contextrelay.client.flow import in_thread
from contextrelay.client.relay import Relay
from contextrelay.client.transport.address import server_at
from contextrelay.client.transport.local import Local
from contextrelay.client.transport.remote import AsyncRemote, Remote
from contextrelay.errors import Invalid, NotFound, RelayError, Unavailable
from contextrelay.limits import EVENTS_KEEPALIVE_S, KIB
from contextrelay.model.names import channel_log, thread_log
from contextrelay.server.auth import RETRY_AFTER
from contextrelay.server.request import JSON, Exchange, Headers, query_fields
from contextrelay.server.streams.signals import resumed, stream
from contextrelay.verbs import NewKey, Publish, ReadSignals, ShowThread
from contextrelay.verbs.problems import MEDIA_TYPE, problem
from contextrelay.web import entry
from contextrelay.web.entry import FORM_FIELD, PageAccess, PageOptions, root_of, split_session
from contextrelay.web.places import CHANGES, SCREENS
from contextrelay.web.rendering import FOLDER, PLACES, Fields, render
from contextrelay.web.screen import BytesReply, Done, FigureCache, PageVisit, Screen

PAGES_AT_ONCE_MAX = 8
# The maximum number of pages rendered at the same time, and of pages that may wait. Further
# requests are refused.
PAGES_WAITING_MAX = 64
PAGE_FORM_BYTES_MAX = 256 * KIB


async def follow(exchange: Exchange, remote: AsyncRemote | None) -> None:
    """Stream the newest sequence number of a channel or a thread as server-sent events."""
    query = resumed(exchange)
    channel, thread = query.get("channel"), query.get("thread")
    if channel is None and thread is None:
        raise Invalid("missing parameter", "pass channel or thread")
    log = channel_log(channel) if channel is not None else thread_log(thread or "")
    asking = remote or exchange.relay

    async def head() -> int:
        if channel is not None:
            return (await asking.ask(ReadSignals(channel))).head
        return (await asking.ask(ShowThread(thread or ""))).events

    given = query.get("after", "")
    seen = int(given) if given.isdecimal() and len(given) < 16 else await head()

    async def following() -> bytes:
        nonlocal seen
        while not exchange.door.hub.is_closing:
            newest = await head()
            if newest != seen:
                seen = newest
                return b"event: news\nid: %d\ndata: %d\n\n" % (seen, seen)
            if remote is not None:
                await remote.wait_for(log, seen, EVENTS_KEEPALIVE_S)
            else:
                stores = exchange.relay.stores
                await exchange.door.hub.wait_for(stores, log, seen, EVENTS_KEEPALIVE_S)
        return b""

    await stream(exchange, seen, following)


Result = TypeVar("Result")

HTML = b"text/html; charset=utf-8"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# The security policy of foreign HTML in its frame: it can neither run nor load anything.
FRAME_POLICY = (
    "sandbox; default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
GUARDED: Headers = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    # This replaces the server's no-referrer, which makes browsers send forms with `Origin: null`.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
FRESH: Headers = [(b"cache-control", b"no-store")]
_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
PROBLEM = MEDIA_TYPE.encode()
_JSON_END = ".json"
_SIGN_IN = 401


class Page:
    """The web page of one server process."""

    def __init__(self, options: PageOptions) -> None:
        self.entry = PageAccess(options.secret, options.code)
        self._folder, self._address = options.folder, options.address
        self._recents = FigureCache()
        self._server = (
            replace(server_at(options.remote), is_person=True) if options.remote else None
        )
        self._remote = None if self._server is None else _over(Remote(self._server))
        self._news = None if self._server is None else AsyncRemote(self._server)
        self._turns = asyncio.Semaphore(PAGES_AT_ONCE_MAX)
        self._waiting = 0

    async def close(self) -> None:
        if self._remote is not None:
            await in_thread(self._remote.close)
        if self._news is not None:
            await self._news.close()

    # Responses

    async def show(self, exchange: Exchange) -> None:
        """Send the screen of a path as HTML, or its answer as JSON."""
        session, path = split_session(exchange.values.get("path", ""))
        if path == "live":
            await follow(exchange, self._news)
            return
        is_json = path.endswith(_JSON_END)
        found = SCREENS.find(path.removesuffix(_JSON_END))
        if found is None:
            raise NotFound("page not found", "start at /ui/")
        make, values = found
        visit = self._visit(exchange, values, exchange.query(), root_of(session), is_json)

        def made() -> tuple[bytes, bytes, Headers]:
            screen = make(visit)
            if isinstance(screen, BytesReply):
                return screen.body, screen.media_type.encode(), _sent_headers(screen)
            if is_json:
                return encode(screen.answer), JSON, [*GUARDED, *FRESH]
            return self._html(exchange, screen, visit), HTML, [*GUARDED, *FRESH]

        body, media_type, headers = await self._in_turn(made)
        await exchange.reply(200, body, media_type, headers)

    async def change(self, exchange: Exchange) -> None:
        """Handle a form: check its origin and its token, make the change, and redirect the
        browser.
        """
        session, path = split_session(exchange.values["path"])
        root = root_of(session)
        found = CHANGES.find(path)
        if found is None:
            raise NotFound("there is no form at this address", "start at /ui/")
        fields = await self._fields(exchange)
        self.entry.check_form(exchange, fields.pop(FORM_FIELD, ""))
        if path == "leave":
            out = [(b"set-cookie", entry.leave(exchange, root)), (b"location", b"/ui/")]
            await exchange.reply(303, b"", HTML, [*out, *FRESH])
            return
        act, values = found
        visit = self._visit(exchange, values, fields, root)
        done: Done = await self._in_turn(lambda: act(visit))
        note = f"{'&' if '?' in done.to else '?'}done={done.note}" if done.note else ""
        await exchange.reply(303, b"", HTML, [(b"location", (done.to + note).encode()), *FRESH])

    async def enter(self, exchange: Exchange) -> None:
        """Sign in with a token or a code. The form fields are `key` and `next`."""
        fields = await self._fields(exchange)
        try:
            root, cookie = await self.entry.enter(exchange, fields.get("key", "").strip())
        except RelayError as error:
            if error.status != _SIGN_IN:
                raise
            await self._sign_in(exchange, fields.get("next", ""), is_wrong=True)
            return
        to = _in_session(root, fields.get("next", "")).encode()
        await exchange.reply(303, b"", HTML, [(b"set-cookie", cookie), (b"location", to), *FRESH])

    async def static(self, exchange: Exchange) -> None:
        """Return a static file."""
        name = exchange.values["name"]
        if name not in _static_names():
            raise NotFound("file not found", "start at /ui/")
        body, tag = _static(name)
        headers = [(b"etag", tag), (b"cache-control", b"no-cache"), *GUARDED]
        if exchange.headers.get(b"if-none-match") == tag:
            await exchange.start(304, headers)
            await exchange.send(b"", more=False)
            return
        await exchange.reply(200, body, _TYPES[name[name.rindex(".") :]], headers)

    async def refuse(self, exchange: Exchange, error: RelayError) -> None:
        """Send an error page, or the sign-in form if the caller is not signed in."""
        path, more = exchange.scope["path"], [*GUARDED, *FRESH]
        for name, header in ((RETRY_AFTER, b"retry-after"), ("allow", b"allow")):
            if name in error.details:
                more.append((header, str(error.details[name]).encode()))
        if path.endswith(_JSON_END) or not exchange.accepts("text/html"):
            if error.status == _SIGN_IN:
                more.append((b"www-authenticate", b"Bearer"))
            await exchange.refuse(error.status, encode(problem(error)), PROBLEM, more)
            return
        if error.status == _SIGN_IN:
            query = exchange.scope["query_string"].decode("latin-1")
            await self._sign_in(exchange, quote(path) + (f"?{query}" if query else ""))
            return
        root = root_of(split_session(exchange.values.get("path", ""))[0])
        body = await in_thread(lambda: render("error.html", error=error, **_bare(root)))
        await exchange.refuse(error.status, body, HTML, more)

    async def _sign_in(self, exchange: Exchange, to: str, is_wrong: bool = False) -> None:
        body = await in_thread(
            lambda: render(
                "enter.html", next=_in_session("/ui/", to), is_wrong=is_wrong, **_bare("/ui/")
            )
        )
        await exchange.refuse(_SIGN_IN, body, HTML, [*GUARDED, *FRESH])

    # Rendering

    def _visit(
        self,
        exchange: Exchange,
        values: dict[str, str],
        query: dict[str, str],
        root: str,
        is_json: bool = False,
    ) -> PageVisit:
        key = exchange.visitor.key
        relay = self._remote
        if relay is None:
            # Return a relay over the open store, with the caller's permissions.
            local = exchange.relay.blocking()
            relay = _over(local.with_stores(replace(local.stores, is_counted=False)))
        return PageVisit(
            relay=relay,
            values=values,
            query=query,
            root=root,
            can_write=_may(exchange, Publish) and not self._is_read_only(exchange),
            is_admin=_may(exchange, NewKey),
            folder=self._folder,
            address=self._address,
            seen_as="" if key is None else key.id,
            recents=self._recents,
            is_json=is_json,
            part="" if is_json else exchange.header("hx-target"),
        )

    def _is_read_only(self, exchange: Exchange) -> bool:
        return self._remote is None and exchange.relay.stores.engine.is_read_only

    def _html(self, exchange: Exchange, screen: Screen, visit: PageVisit) -> bytes:
        path = exchange.scope["path"]
        return render(
            f"{screen.template}.html",
            **screen.answer,
            **screen.drawn,
            screen=screen,
            query=Fields(visit.query),
            path=path,
            root=visit.root,
            places=PLACES,
            json_path=_json_path(exchange),
            can_write=visit.can_write,
            is_signed_in=bool(entry.cookie_in(exchange)),
            form_token=self.entry.form_token(exchange),
            once=entry.new_once(),
        )

    async def _in_turn(self, make: Callable[[], Result]) -> Result:
        """Run a function in a thread, with a limited number at the same time, and return its
        result.

        Raises:
            Unavailable: too many functions are waiting.
        """
        if self._waiting >= PAGES_WAITING_MAX:
            raise Unavailable(
                f"overloaded: {PAGES_WAITING_MAX} pages are waiting", "reload the page in a moment"
            )
        self._waiting += 1
        try:
            async with self._turns:
                return await in_thread(make)
        finally:
            self._waiting -= 1

    async def _fields(self, exchange: Exchange) -> dict[str, str]:
        if exchange.media_type() != "application/x-www-form-urlencoded":
            raise Invalid("invalid content type: expected a form", "send the form from the page")
        return query_fields(await exchange.whole(PAGE_FORM_BYTES_MAX, None))


def _over(transport: Local | Remote) -> Relay:
    """Return a relay that uses an open transport."""
    relay = Relay.__new__(Relay)
    relay.transport = transport
    return relay


def _may(exchange: Exchange, kind: type[Any]) -> bool:
    """Return True if the caller's key allows a kind of verb."""
    caller = exchange.relay.stores.caller
    if caller is None:
        return True
    try:
        caller.check_kind(kind)
    except RelayError:
        return False
    return True


def _sent_headers(sent: BytesReply) -> Headers:
    if not sent.is_framed:
        return [*GUARDED, *FRESH]
    return [(b"content-security-policy", FRAME_POLICY.encode()), *FRESH]


def _json_path(exchange: Exchange) -> str:
    """Return the address that returns the current page as JSON."""
    query = exchange.scope["query_string"].decode("latin-1")
    path = quote(exchange.scope["path"]).removesuffix(_JSON_END)
    return f"{path}{_JSON_END}{f'?{query}' if query else ''}"


def _in_session(root: str, text: str) -> str:
    """Return an address of the page with the path of the session, or the address of the home page
    if `text` is not an address of the page.
    """
    is_ours = text.startswith("/ui/") and not set(text) & set("\r\n\\") and text.isascii()
    _, rest = split_session(text.removeprefix("/ui/")) if is_ours else ("", "")
    return root if rest.startswith("enter") else root + rest


def _bare(root: str) -> dict[str, Any]:
    """Return the values for the template of a page that has no screen."""
    return {
        "screen": None,
        "places": (),
        "query": Fields(),
        "path": "",
        "root": root,
        "json_path": "",
        "can_write": False,
        "is_signed_in": False,
        "form_token": "",
        "once": "",
    }


@cache
def _static_names() -> frozenset[str]:
    return frozenset(each.name for each in (FOLDER / "static").iterdir() if each.suffix in _TYPES)


@cache
def _static(name: str) -> tuple[bytes, bytes]:
    body = (FOLDER / "static" / name).read_bytes()
    return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'.encode()
