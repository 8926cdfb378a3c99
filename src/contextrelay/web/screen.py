"""Screens as values: what a request for one brings, and what comes of it.

Rule: a screen asks verbs and computes nothing that they know. `answer` is what its address with
.json gives, and all that its template reads.
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

# How long a figure that takes a walk through the store is shown before it is taken again ...
PAGE_RECENT_S = 10
# ... or so many times as long as it took.
PAGE_RECENT_TIMES = 20
PAGE_RECENTS_MAX = 1_000
# How long a screen waits for it: the first time, when an older one is there, and as JSON.
PAGE_FIGURE_S = 1.0
PAGE_AGAIN_S = 0.01
PAGE_FIGURE_S_MAX = 60


Result = TypeVar("Result")


class _Figure:
    """A figure that is taken in a thread of its own, and what it was before."""

    def __init__(self, ask: Callable[[], Any], before: Any) -> None:
        self._ask, self.before = ask, before
        self.value: Any = None
        self.error: Exception | None = None
        self.old_s = inf
        """When it is to be taken again."""
        self.is_taken = threading.Event()
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        begun_s = monotonic()
        try:
            self.value = self._ask()
        except Exception as error:  # Raised where it is asked for.
            self.error = error
        now_s = monotonic()
        self.old_s = now_s + max(PAGE_RECENT_S, PAGE_RECENT_TIMES * (now_s - begun_s))
        self.is_taken.set()


class Recents:
    """Figures that take a walk through the store, for a few seconds each."""

    def __init__(self) -> None:
        self._kept: BoundedCache[str, _Figure] = BoundedCache(PAGE_RECENTS_MAX)

    def get(self, name: str, ask: Callable[[], Result], wait_s: float) -> Result | None:
        """The figure, or what it was a moment ago; None if there is none yet."""
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
    """A request for a screen, by somebody who may see it."""

    relay: Relay
    """As the caller sees it; what is shown here is not counted in the savings."""
    values: Mapping[str, str]
    """What the names in the path stand for."""
    query: Mapping[str, str]
    """Of a form that was sent: its fields."""
    root: str
    """With which every address of the page begins."""
    by: str = "you"
    can_write: bool = True
    is_admin: bool = True
    folder: str = ""
    """Where `relay ui` was started; "" on a server."""
    address: str = ""
    """Of the store or server that `relay ui` shows."""
    seen_as: str = ""
    """The id of the caller's key."""
    recents: Recents
    is_json: bool = False
    begun_s: float = field(default_factory=monotonic)
    part: str = ""
    """The id of the part of the screen that is asked for, by a script that has the rest."""

    @property
    def is_own(self) -> bool:
        """Whether it is by who started `relay ui`, on this machine."""
        return bool(self.folder)

    def link(self, *parts: str) -> str:
        """Return the address of a page."""
        return self.root + "/".join(parts)

    def recent(self, name: str, ask: Callable[[], Result]) -> Result | None:
        """What takes long to ask for, as it was a moment ago; None while it is not known."""
        most_s = PAGE_FIGURE_S_MAX if self.is_json else PAGE_FIGURE_S
        left_s = max(PAGE_AGAIN_S, self.begun_s + most_s - monotonic())
        return self.recents.get(f"{self.seen_as} {name}", ask, left_s)

    def number(self, name: str, otherwise: int, least: int = 0) -> int:
        """A number in the query.

        Raises:
            Invalid: it is none, or too small.
        """
        text = self.query.get(name, "")
        if not text:
            return otherwise
        if not (text.isascii() and text.isdigit() and len(text) < 16) or int(text) < least:
            raise Invalid(f"{name} is {text[:40]!r}", f"a number from {least} on")
        return int(text)

    @property
    def once(self) -> str:
        """The idempotency key of a form: sent twice, it is done once."""
        given = self.query.get("once", "")
        if not given:
            raise Invalid("this form is not whole", "go back, reload the page and send it again")
        return given

    def text(self, name: str) -> str:
        return self.query.get(name, "")

    def ref(self) -> str:
        """The ref in the path, which may be the beginning of one."""
        given = self.values["ref"]
        return given if is_ref(given) else run(self.relay.transport, find_ref(given, DOOR))

    def thread(self) -> tuple[Thread, ThreadView]:
        """The thread in the path: by its id, the beginning of one, or its name."""
        view = run(self.relay.transport, find_thread(self.values["thread"], DOOR))
        return self.relay.handle(view), view


class Screen(Struct, frozen=True, kw_only=True):
    """What a screen shows."""

    template: str
    title: str
    command: str
    """That shows the same in a terminal."""
    answer: dict[str, Any]
    drawn: dict[str, Any] = {}
    """Pictures, for the template alone."""
    place: str = ""
    """Which of the places in the menu it belongs to."""


class BytesReply(Struct, frozen=True, kw_only=True):
    """Bytes for the browser, in place of a screen."""

    body: bytes
    media_type: str
    is_framed: bool = False
    """Whether it is somebody's HTML, for the sandboxed frame on a screen."""


class Done(Struct, frozen=True, kw_only=True):
    """Where to go after a change, and what was done."""

    to: str
    note: str = ""
    """One of NOTES in rendering.py."""
