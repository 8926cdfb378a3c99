"""Choosing: which thread a person means, and which version and place in it.

A thread is named by its id, the first six characters of it or more, or its name; `THREAD@v7` is a
version of it, `THREAD@v7:/facts/0` a place in that. Where no thread is named it is RELAY_THREAD, or
else the one last used in this folder.
"""

from __future__ import annotations

import os
import re
from argparse import Namespace
from contextlib import suppress
from typing import NamedTuple

from contextrelay.client.relay import Relay
from contextrelay.client.thread import Thread
from contextrelay.doors.cli import display
from contextrelay.doors.cli.console import Console
from contextrelay.errors import Full, Invalid, NotFound, Unavailable
from contextrelay.limits import LABEL_CHARS_MAX, LIST_ITEMS_MAX
from contextrelay.model.ref import is_ref
from contextrelay.model.thread import ThreadView
from contextrelay.wire.verbs import ShowThread

VARIABLE = "RELAY_THREAD"
_FORM = re.compile(
    r"(?P<thread>.*?)(?:@v(?P<version>[0-9]{1,15}))?(?::(?P<pointer>/.*))?", re.DOTALL
)
_BARE_VERSION = re.compile(r"v[0-9]{1,15}")
_SHORT_CHARS = 6


class Chosen(NamedTuple):
    """A thread, and maybe a version of its state and a place in that."""

    thread: Thread
    view: ThreadView
    version: int | None = None
    pointer: str | None = None

    @property
    def label(self) -> str:
        return label(self.view)


def label(view: ThreadView) -> str:
    """A thread as people call it."""
    return display.clean(view.name) if view.name else display.short(view.thread_id)


def choose(console: Console, args: Namespace) -> Chosen:
    """The thread, version and place that the arguments name; it is then the last used one.

    Raises:
        NotFound: there is no such thread.
        Invalid: no thread is named, or two are, or several could be meant.
    """
    place, named = getattr(args, "place", None) or "", args.thread or ""
    text, version, pointer = _split(console.relay, place)
    if named:
        option, option_version, option_pointer = _split(console.relay, named)
        if text and text != option:
            raise Invalid(f"two threads are named: {place} and {named}", "name one")
        text, version, pointer = option, version or option_version, pointer or option_pointer
    view = _view(console.relay, text)
    if text:
        remember(console.relay, view.thread_id)
    return Chosen(Thread(console.relay, view.thread_id), view, version, pointer)


def choose_thread(console: Console, args: Namespace) -> Chosen:
    """The thread that the arguments name, where no version of it makes sense."""
    chosen = choose(console, args)
    if chosen.version is not None or chosen.pointer is not None:
        raise Invalid("this takes a whole thread, not a version of it", f"say {chosen.label}")
    return chosen


def thread_if_named(console: Console, args: Namespace, with_variable: bool) -> Chosen | None:
    """The thread of -t or, if wanted, RELAY_THREAD; the last used one does not count."""
    if args.thread or (with_variable and os.environ.get(VARIABLE)):
        return choose_thread(console, args)
    return None


def remember(relay: Relay, thread: str) -> None:
    """Make a thread the last used one in this folder; where that fails, nothing else does."""
    with suppress(OSError, Full, Unavailable):
        relay.use_thread(thread, _folder(relay))


def last_used(relay: Relay) -> ThreadView | None:
    """The thread last used in this folder."""
    with suppress(OSError):
        for view in relay.last_used_thread(_folder(relay)):
            return view
    return None


def _folder(relay: Relay) -> str:
    """This folder; with the machine's name where others have folders of the same name."""
    folder = os.fsencode(os.getcwd()).decode(errors="backslashreplace")
    if relay.transport.url_of("").startswith("http"):
        folder = f"{os.uname().nodename}:{folder}"
    return folder[-4096:]


def _split(relay: Relay, text: str) -> tuple[str, int | None, str | None]:
    """A thread, a version and a place out of THREAD@v7:/facts/0; each may be missing."""
    if _BARE_VERSION.fullmatch(text):
        text = f"@{text}"
    match = _FORM.fullmatch(text)
    assert match is not None
    version = None if match["version"] is None else int(match["version"])
    if version == 0:
        raise Invalid(f"{text} is no version", "versions count from v1")
    thread, pointer = match["thread"], match["pointer"]
    # A name may look like a version, as in api@v2.
    if (
        thread
        and thread != text
        and len(text) <= LABEL_CHARS_MAX
        and not relay.find_threads(thread)
    ):
        for view in relay.find_threads(text):
            return view.thread_id, None, None
    return thread, version, pointer


def _view(relay: Relay, text: str) -> ThreadView:
    text = text or os.environ.get(VARIABLE, "")
    if text:
        return find(relay, text)
    view = last_used(relay)
    if view is None:
        raise Invalid(
            "no thread is named, and none was used in this folder yet",
            "make one: relay thread new; or name one with --thread, see: relay thread list",
        )
    return view


def find(relay: Relay, text: str) -> ThreadView:
    """The thread of an id, a beginning of one, or a name."""
    if is_ref(text):
        return relay.transport.ask(ShowThread(text))
    if len(text) > LABEL_CHARS_MAX:
        raise NotFound(f"no thread is called {display.cut(text, 40)}", "see: relay thread list")
    found = relay.find_threads(text)
    named = [view for view in found if view.name == text]
    if not found and text != text.lower():
        found = relay.find_threads(text.lower())
    if named or len(found) == 1:
        return (named or found)[0]
    if found:
        some = ", ".join(view.thread_id[: len(text) + 4] for view in found[:3])
        raise Invalid(f"{len(found)} threads start with {text}", f"say more of it: {some}")
    # The name may have been taken over by a thread that is gone; and who mistypes needs them all.
    recent = relay.threads(limit=LIST_ITEMS_MAX).threads
    for view in recent:
        if view.name == text:
            return view
    raise _unknown(text, recent)


def _unknown(text: str, recent: list[ThreadView]) -> NotFound:
    from difflib import get_close_matches

    names = {view.name: view for view in reversed(recent) if view.name}
    starts = {view.thread_id[: max(len(text), _SHORT_CHARS)]: view for view in recent}
    close = [known[match] for known in (names, starts) for match in get_close_matches(text, known)]
    message = f"no thread is called {display.clean(text)}, or starts so"
    if not close:
        return NotFound(message, "see what there is with: relay thread list")
    name = f" ({display.clean(close[0].name)})" if close[0].name else ""
    return NotFound(message, f"did you mean {display.short(close[0].thread_id)}{name}?")
