"""events, tail, checkpoint: the events of a thread, past and live."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from contextrelay.cli import display, state_display, thread_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import (
    arg,
    arguments,
    author_option,
    seconds,
    thread_arguments,
    thread_option,
)
from contextrelay.errors import Invalid
from contextrelay.limits import LIST_ITEMS_MAX
from contextrelay.model.thread import Numbered

_LAST_SHOWN = 10


@arguments(
    *thread_arguments(),
    arg(
        "--after",
        type=int,
        default=0,
        metavar="SEQ",
        help="list only events after the event with this number",
    ),
    arg("--limit", type=int, help="maximum number of events to list"),
    arg("--jsonl", action="store_true", help="print all events, one JSON object per line"),
)
def events(args: Namespace, console: Console) -> None:
    """List the events of a thread, oldest first."""
    chosen = thread_argument.choose_thread(console, args)
    if args.after < 0 or (args.limit is not None and args.limit < 1):
        raise Invalid(
            "invalid range: --after starts at 0, --limit at 1", "see: relay events --help"
        )
    if args.jsonl or not console.is_json:
        console.is_json = args.jsonl
        for numbered in _pages(chosen, args.after, args.limit):
            console.line(numbered, line(numbered))
        return
    console.answer(list(_pages(chosen, args.after, args.limit)), "")


def _pages(chosen: thread_argument.Chosen, after: int, limit: int | None) -> Iterator[Numbered]:
    """Yield pages of events after a sequence number, up to the newest event at the time of the
    call.
    """
    left = chosen.view.events if limit is None else limit
    while left > 0 and (page := chosen.thread.events(after, min(left, LIST_ITEMS_MAX))):
        yield from page
        after, left = page[-1].seq, left - len(page)


def line(numbered: Numbered) -> str:
    """Format an event as one line."""
    event = numbered.event
    when = f"{event.at.astimezone():%H:%M:%S}"
    said = state_display.event(event)
    return (
        f"{numbered.seq:>5}  {when}  {event.type:20}  "
        f"{display.filled(display.author(event.by), 10)}  {said}".rstrip()
    )


@arguments(
    *thread_arguments(),
    arg(
        "--after",
        type=int,
        metavar="SEQ",
        help="start after the event with this number (default: the last 10 events)",
    ),
    arg("--once", action="store_true", help="stop after the first new event"),
    arg(
        "--timeout",
        type=seconds,
        metavar="S",
        help="stop after this number of seconds without an event",
    ),
)
def tail(args: Namespace, console: Console) -> None:
    """Print the events of a thread, from any process, as they happen, until Ctrl-C.

    With --json, each event is one JSON object per line. With --once, the exit code is 1 if no event
    came within --timeout.
    """
    chosen = thread_argument.choose_thread(console, args)
    newest = chosen.view.events
    after = args.after
    if after is None:
        after = newest if args.once else max(0, newest - _LAST_SHOWN)
    if after < 0:
        raise Invalid("invalid --after: it starts at 0", "see: relay tail --help")
    try:
        for numbered in chosen.thread.tail(after, args.timeout):
            console.line(numbered, line(numbered))
            if args.once:
                return
    except KeyboardInterrupt:
        return  # The server closed the stream normally.
    if args.once:
        console.note(f"no event within {args.timeout:g} s")
        console.exit_code = 1


@arguments(
    arg("label", metavar="LABEL"),
    thread_option(),
    author_option("name of the author (default: RELAY_AGENT, or you)"),
)
def checkpoint(args: Namespace, console: Console) -> None:
    """Label the current version of a thread; `relay state log` shows the label."""
    chosen = thread_argument.choose_thread(console, args)
    made = chosen.thread.checkpoint(args.label, args.by)
    version = f"v{made.event.detail['version']}"
    restore = f"relay state restore {version} -t {chosen.argument}"
    text = f"{chosen.label} {version}  ⚑ {display.clean(args.label)}    restore it: {restore}"
    console.confirm_write(made, text, version)
