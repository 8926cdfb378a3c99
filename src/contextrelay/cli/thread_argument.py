"""The THREAD argument: a thread, optionally with a version of its state and a path in that state.

Its syntax is that of client/names.py. The default is RELAY_THREAD, or else the current thread of
this agent, or of this terminal, in this folder. Only `relay use` and commands that create a thread
set the current thread.
"""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from contextrelay.cli import display, place
from contextrelay.cli.console import Console
from contextrelay.client import names
from contextrelay.client.flow import run
from contextrelay.client.relay import Relay
from contextrelay.client.thread import Thread
from contextrelay.errors import Full, Invalid, Unavailable
from contextrelay.model.thread import CurrentThread, ThreadView
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

    @property
    def argument(self) -> str:
        """The thread as an argument of a command that can be pasted into a shell."""
        return shlex.quote(self.label)


def label(view: ThreadView) -> str:
    """Return the display name of a thread."""
    return display.clean(view.name) if view.name else display.short(view.thread_id)


def choose(console: Console, args: Namespace) -> Chosen:
    """Return the thread, version and path that the arguments name.

    Raises:
        NotFound: there is no such thread.
        Invalid: no thread or two threads are named, or the name or the choice is ambiguous.
    """
    given, named = getattr(args, "place", None) or "", args.thread or ""
    text, version, pointer = run(console.relay.transport, names.find_place(given))
    if named:
        option, option_version, option_pointer = run(
            console.relay.transport, names.find_place(named)
        )
        if text and text != option:
            raise Invalid(f"conflicting threads: {given} and {named}", "name only one thread")
        text, version, pointer = option, version or option_version, pointer or option_pointer
    text = text or os.environ.get(VARIABLE, "")
    view = find(console.relay, text) if text else current_view(console)
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
    """Return the thread that the arguments name, or else the current thread, or else a new thread
    that is named after the folder.
    """
    if args.thread or os.environ.get(VARIABLE):
        return choose_thread(console, args).thread
    found = current(console.relay)
    if found.thread or found.candidates:
        return Thread(console.relay, _choice(console, found).thread_id)
    if not may_make:
        raise Invalid(
            "no current thread in this folder, and a dry run creates none",
            "create one: relay thread new --name NAME; or name one with --thread",
        )
    folder = display.clean(Path.cwd().name)[:_NAME_CHARS_MAX] or None
    thread = console.relay.new_thread(folder)
    remember(console.relay, thread.id)
    console.note(f"created thread {folder or display.short(thread.id)}")
    return thread


_NAME_CHARS_MAX = 100
_CANDIDATES_SHOWN = 5


def thread_if_named(console: Console, args: Namespace, with_variable: bool) -> Chosen | None:
    """Return the thread of -t, or of RELAY_THREAD if `with_variable` is true, or None. The current
    thread is ignored.
    """
    if args.thread or (with_variable and os.environ.get(VARIABLE)):
        return choose_thread(console, args)
    return None


def use(relay: Relay, thread: str) -> ThreadView:
    """Make a thread the current one here."""
    here = place.places(relay.transport)
    return relay.use_thread(thread, here[0], here[-1])


def remember(relay: Relay, thread: str) -> None:
    """Make a new thread the current one here. A failure to do so is ignored."""
    with suppress(OSError, Full, Unavailable):
        use(relay, thread)


def current(relay: Relay) -> CurrentThread:
    """Return the current thread here, the one before, and the open threads used in this folder."""
    here = place.places(relay.transport)
    return relay.current_thread(here[0], here[-1])


def current_view(console: Console) -> ThreadView:
    found = current(console.relay)
    if found.thread or found.candidates:
        return _choice(console, found)
    raise Invalid(
        "no current thread in this folder",
        "create one: relay thread new --name NAME; or choose one: relay use THREAD "
        "(see: relay thread list)",
    )


def _choice(console: Console, found: CurrentThread) -> ThreadView:
    """Return the current thread, or else the only open one.

    Raises:
        Invalid: there are several open threads.
    """
    if found.thread:
        return found.thread
    if len(found.candidates) == 1:
        view = found.candidates[0]
        console.note(f"using thread {label(view)}, the only open one here")
        return view
    listed = [f"{label(each)} ({display.short(each.thread_id)})" for each in found.candidates]
    more = len(listed) - _CANDIDATES_SHOWN
    listed = listed[:_CANDIDATES_SHOWN] + ([f"{more} more"] if more > 0 else [])
    raise Invalid(
        f"no current thread, and {len(found.candidates)} open threads in this folder: "
        f"{', '.join(listed)}",
        "choose one: relay use THREAD, or pass -t THREAD",
    )


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
