"""Screens as values: the request for a screen, and its content.

Rule: a screen runs verbs, and does not compute anything that verbs return. `answer` is what the
address with .json returns, and everything that the template reads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from math import inf
from time import monotonic
from typing import Any, TypeVar

from msgspec import Struct, field

from contextrelay.cache import BoundedCache
from contextrelay.cli.display import DOOR
from contextrelay.client.flow import run
from contextrelay.client.names import find_ref, find_thread
from contextrelay.client.relay import Relay
from contextrelay.client.thread import Thread
from contextrelay.errors import Invalid
from contextrelay.model.ref import is_ref
from contextrelay.model.thread import ThreadView

# The result of a slow scan of the store is cached for this number of seconds ...
PAGE_RECENT_S = 10
# ... or for this many times the duration of the scan, if that is longer.
PAGE_RECENT_TIMES = 20
PAGE_RECENTS_MAX = 1_000
# Seconds that a screen waits for the scan: the first time, if there is an older result, and for
# JSON.
PAGE_FIGURE_S = 1.0
PAGE_AGAIN_S = 0.01
PAGE_FIGURE_S_MAX = 60


Result = TypeVar("Result")


class _Figure:
    """A figure that is computed in a separate thread, and its previous value."""

    def __init__(self, ask: Callable[[], Any], before: Any) -> None:
        self._ask, self.before = ask, before
        self.value: Any = None
        self.error: Exception | None = None
        self.old_s = inf
        """The time after which the figure is computed again."""
        self.is_taken = threading.Event()
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        begun_s = monotonic()
        try:
            self.value = self._ask()
        except Exception as error:  # The error is raised in the caller that asks for the figure.
            self.error = error
        now_s = monotonic()
        self.old_s = now_s + max(PAGE_RECENT_S, PAGE_RECENT_TIMES * (now_s - begun_s))
        self.is_taken.set()


class FigureCache:
    """A cache of figures that need a scan of the store."""

    def __init__(self) -> None:
        self._kept: BoundedCache[str, _Figure] = BoundedCache(PAGE_RECENTS_MAX)

    def get(self, name: str, ask: Callable[[], Result], wait_s: float) -> Result | None:
        """Return a figure or its previous value, or None if there is no value yet."""
        kept = self._kept.get(name)
        if kept is None or monotonic() > kept.old_s:
            kept = _Figure(ask, None if kept is None else kept.value)
            self._kept.keep(name, kept)
        if not kept.is_taken.wait(wait_s if kept.before is None else PAGE_AGAIN_S):
            return kept.before
        if kept.error is not None:
            raise kept.error
        return kept.value


class PageVisit(Struct, frozen=True, kw_only=True):
    """A request for a screen by a visitor whom the page admitted."""

    relay: Relay
    """A relay with the caller's permissions. Reads by the page are not counted in the savings."""
    values: Mapping[str, str]
    """The values of the `{name}` placeholders of the path."""
    query: Mapping[str, str]
    """The fields of the query, or of a submitted form."""
    root: str
    """The path with which every address of the page begins."""
    by: str = ""
    can_write: bool = True
    is_admin: bool = True
    folder: str = ""
    """The folder in which `relay ui` was started; "" on a server."""
    address: str = ""
    """The address of the store or server that `relay ui` shows."""
    seen_as: str = ""
    """The id of the caller's key."""
    recents: FigureCache
    is_json: bool = False
    begun_s: float = field(default_factory=monotonic)
    part: str = ""
    """The id of the part of the screen that a script requests, or "" for the whole screen."""

    @property
    def is_own(self) -> bool:
        """Return True if the visitor is the person who started `relay ui` on this machine."""
        return bool(self.folder)

    def link(self, *parts: str) -> str:
        """Return the address of a page, with the given path segments."""
        return self.root + "/".join(parts)

    def recent(self, name: str, ask: Callable[[], Result]) -> Result | None:
        """Return a cached figure that is slow to compute, or None if it is not known yet."""
        most_s = PAGE_FIGURE_S_MAX if self.is_json else PAGE_FIGURE_S
        left_s = max(PAGE_AGAIN_S, self.begun_s + most_s - monotonic())
        return self.recents.get(f"{self.seen_as} {name}", ask, left_s)

    def number(self, name: str, otherwise: int, least: int = 0) -> int:
        """Return the number in a field of the query, or `otherwise` if the field is missing.

        Raises:
            Invalid: the field is not a number, or is too small.
        """
        text = self.query.get(name, "")
        if not text:
            return otherwise
        if not (text.isascii() and text.isdigit() and len(text) < 16) or int(text) < least:
            raise Invalid(
                f"invalid {name}: {text[:40]!r}", f"expected a number of at least {least}"
            )
        return int(text)

    @property
    def once(self) -> str:
        """Return the idempotency key of a form, so that sending it twice has one effect."""
        given = self.query.get("once", "")
        if not given:
            raise Invalid("incomplete form", "go back, reload the page and send it again")
        return given

    def text(self, name: str) -> str:
        return self.query.get(name, "")

    def ref(self) -> str:
        """Return the ref in the path, which may be given by its beginning."""
        given = self.values["ref"]
        return given if is_ref(given) else run(self.relay.transport, find_ref(given, DOOR))

    def thread(self) -> tuple[Thread, ThreadView]:
        """Return the thread in the path, which may be given by its id, the beginning of its id, or
        its name.
        """
        view = run(self.relay.transport, find_thread(self.values["thread"], DOOR))
        return self.relay.handle(view), view


class Screen(Struct, frozen=True, kw_only=True):
    """The content of a screen."""

    template: str
    title: str
    command: str
    """The command that shows the same content in a terminal."""
    answer: dict[str, Any]
    drawn: dict[str, Any] = {}
    """Charts and graphs, for the template only."""
    place: str = ""
    """The menu entry to which the screen belongs."""


class BytesReply(Struct, frozen=True, kw_only=True):
    """A response of bytes instead of a screen."""

    body: bytes
    media_type: str
    is_framed: bool = False
    """If True, the bytes are foreign HTML for the sandboxed frame of a screen."""


class Done(Struct, frozen=True, kw_only=True):
    """The result of a form: the address to which the browser is redirected, and the message to
    show.
    """

    to: str
    note: str = ""
    """The message to show after the change, as a key of NOTES in rendering.py."""
