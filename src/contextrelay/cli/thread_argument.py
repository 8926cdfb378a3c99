"""The THREAD argument: a thread, optionally with a version of its state and a path in that state.

Its syntax is that of client/names.py. The default is RELAY_THREAD, or else the last thread used
in this folder.
"""

from __future__ import annotations

import os
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.cli.place import folder_of
from contextrelay.client import names
from contextrelay.client.flow import run
from contextrelay.client.relay import Relay
from contextrelay.client.thread import Thread
from contextrelay.errors import Full, Invalid, Unavailable
from contextrelay.model.thread import ThreadView
from contextrelay.verbs import FindThreads

VARIABLE = "RELAY_THREAD"


class Chosen(NamedTuple):
    """A thread, optionally with a version of its state and a path in that state."""

    thread: Thread
    view: ThreadView
    version: int | None = None
    pointer: str | None = None

    @property
    def label(self) -> str:
        return label(self.view)


def label(view: ThreadView) -> str:
    """Return the display name of a thread."""
    return display.clean(view.name) if view.name else display.short(view.thread_id)


def choose(console: Console, args: Namespace) -> Chosen:
    """Return the thread, version and path that the arguments name, and store the thread as the last
    used one.

    Raises:
        NotFound: there is no such thread.
        Invalid: no thread or two threads are named, or the name is ambiguous.
    """
    place, named = getattr(args, "place", None) or "", args.thread or ""
    text, version, pointer = run(console.relay.transport, names.find_place(place))
    if named:
        option, option_version, option_pointer = run(
            console.relay.transport, names.find_place(named)
        )
        if text and text != option:
            raise Invalid(f"conflicting threads: {place} and {named}", "name only one thread")
        text, version, pointer = option, version or option_version, pointer or option_pointer
    view = _view(console.relay, text)
    if text:
        remember(console.relay, view.thread_id)
    return Chosen(Thread(console.relay, view.thread_id), view, version, pointer)


def choose_thread(console: Console, args: Namespace) -> Chosen:
    """Return the thread that the arguments name, for commands that accept no version."""
    chosen = choose(console, args)
    if chosen.version is not None or chosen.pointer is not None:
        raise Invalid(
            "a version is not allowed here: name the thread alone", f"use: {chosen.label}"
        )
    return chosen


def choose_or_make(console: Console, args: Namespace, may_make: bool = True) -> Thread:
    """Return the thread that the arguments name, or else the last used thread, or else a new
    thread.
    """
    if args.thread or os.environ.get(VARIABLE) or last_used(console.relay) is not None:
        return choose_thread(console, args).thread
    if not may_make:
        raise Invalid(
            "no thread: none was used in this folder yet, and a dry run creates none",
            "create one with relay thread new, or name one with --thread",
        )
    folder = display.clean(Path.cwd().name)[:_NAME_CHARS_MAX] or None
    thread = console.relay.new_thread(folder)
    remember(console.relay, thread.id)
    console.note(f"created thread {folder or display.short(thread.id)}")
    return thread


_NAME_CHARS_MAX = 100


def thread_if_named(console: Console, args: Namespace, with_variable: bool) -> Chosen | None:
    """Return the thread of -t, or of RELAY_THREAD if `with_variable` is true, or None. The last
    used thread is ignored.
    """
    if args.thread or (with_variable and os.environ.get(VARIABLE)):
        return choose_thread(console, args)
    return None


def remember(relay: Relay, thread: str) -> None:
    """Store a thread as the last used one in this folder. A failure to do so is ignored."""
    with suppress(OSError, Full, Unavailable):
        relay.use_thread(thread, folder_of(relay))


def last_used(relay: Relay) -> ThreadView | None:
    """Return the last thread used in this folder, or None."""
    with suppress(OSError):
        for view in relay.last_used_thread(folder_of(relay)):
            return view
    return None


def _view(relay: Relay, text: str) -> ThreadView:
    text = text or os.environ.get(VARIABLE, "")
    if text:
        return find(relay, text)
    view = last_used(relay)
    if view is None:
        raise Invalid(
            "no thread: none was named or used in this folder yet",
            "create one with relay thread new, or name one with --thread (see: relay thread list)",
        )
    return view


def warn_of_same_name(console: Console, view: ThreadView) -> None:
    """Print a warning if other threads have the same name as a new thread."""
    if not view.name:
        return
    found = console.relay.transport.ask(FindThreads(view.name))
    others = [each.thread_id for each in found if each.name == view.name]
    if len(others) > 1:
        console.note(
            f"note: {len(others)} threads are called {label(view)}; use the id of this one: "
            f"{display.short(view.thread_id)}"
        )


def find(relay: Relay, text: str) -> ThreadView:
    """Return the thread with an id, the beginning of an id, or a name."""
    return run(relay.transport, names.find_thread(text, display.DOOR))
