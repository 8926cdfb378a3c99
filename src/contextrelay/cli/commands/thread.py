"""use; thread new, list, show, fork, close, rm, files: choose, create, read and delete threads."""

from __future__ import annotations

from argparse import Namespace
from typing import get_args

from contextrelay.cli import display, thread_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import (
    PAGE,
    arg,
    arguments,
    author_option,
    thread_arguments,
    thread_option,
)
from contextrelay.cli.thread_argument import label
from contextrelay.errors import Invalid
from contextrelay.model.thread import ThreadKind, ThreadView
from contextrelay.verbs import ReadStats


@arguments(
    arg(
        "place",
        nargs="?",
        metavar="THREAD",
        help="a thread; - is the one before (default: show the current thread)",
    )
)
def use(args: Namespace, console: Console) -> None:
    """Choose the current thread, which commands use unless another is named.

    The current thread belongs to the agent in RELAY_AGENT, or to this terminal, in this folder.
    """
    relay = console.relay
    if args.place is None:
        view = thread_argument.current_view(console)
        console.answer(view, f"{label(view)}  {view.thread_id}  v{view.version}", view.thread_id)
        return
    if args.place == "-":
        previous = thread_argument.current(relay).previous
        if previous is None:
            raise Invalid("no thread was used before", "choose one: relay use THREAD")
        view = previous
    else:
        view = thread_argument.find(relay, args.place)
    view = thread_argument.use(relay, view.thread_id)
    console.answer(view, f"using {label(view)}  {view.thread_id}  v{view.version}", view.thread_id)


@arguments(
    arg("--name", help="a name for the thread"),
    author_option("name of the author (default: RELAY_AGENT, or you)"),
)
def thread_new(args: Namespace, console: Console) -> None:
    """Create a thread and print its id. The thread becomes the current thread."""
    thread = console.relay.new_thread(args.name, args.by)
    thread_argument.remember(console.relay, thread.id)
    _made(console, thread.show())


def _made(console: Console, view: ThreadView) -> None:
    console.answer(view, [f"thread_id  {view.thread_id}"], view.thread_id)
    thread_argument.warn_of_same_name(console, view)


_KIND = arg(
    "--kind",
    choices=get_args(ThreadKind),
    help="list only threads of this kind, which are hidden by default",
)


@arguments(
    *PAGE,
    _KIND,
    arg("--text", metavar="TEXT", help="list only threads whose name contains TEXT"),
    arg("--status", choices=("open", "closed"), help="list only threads with this status"),
    arg("--agent", metavar="NAME", help="list only threads whose creator's name contains NAME"),
)
def thread_list(args: Namespace, console: Console) -> None:
    """List threads, newest first. The current thread is marked."""
    listing = console.relay.threads(
        args.limit, args.after, args.kind, args.text, args.status, args.agent
    )
    lines: list[str] = []
    if console.is_human and not console.is_json:
        lines = _table(console, listing.threads)
        if listing.next:
            lines.append(f"  more: relay thread list --after {display.quoted(listing.next)}")
    console.answer(listing, lines, "\n".join(view.thread_id for view in listing.threads))


def _table(console: Console, views: list[ThreadView]) -> list[str]:
    if not views:
        return ["no threads yet", "  next: relay thread new --name NAME"]
    used = thread_argument.current(console.relay).thread
    width = min(32, max(4, *(display.width(label(view)) for view in views)))
    lines = [f"  {'NAME':{width}}  ID        STATE  ARTIFACTS  {'AVOIDED':>18}  LAST"]
    for view in views:
        if view.problem is not None:
            name = display.column(display.clean(view.name or "–"), width)
            lines.append(f"  {name}  {display.short(view.thread_id)}  damaged: {view.problem}")
            continue
        stats = console.relay.transport.ask(ReadStats(view.thread_id))
        share = stats.tokens_avoided / stats.naive_tokens if stats.naive_tokens else 0.0
        avoided = f"~{stats.tokens_avoided:,} ({share:.1%})" if stats.naive_tokens else "–"
        mark = "▸" if used is not None and view.thread_id == used.thread_id else " "
        name = display.column(display.clean(view.name or "–"), width)
        closed = "  closed" if view.status == "closed" else ""
        lines.append(
            f"{mark} {name}  {display.short(view.thread_id)}  {f'v{view.version}':5}  "
            f"{view.artifacts:>9}  {avoided:>18}  {display.age(view.updated_at)}{closed}"
        )
    return lines


@arguments(*thread_arguments())
def thread_show(args: Namespace, console: Console) -> None:
    """Show a thread: its state version, creator and contents."""
    view = thread_argument.choose_thread(console, args).view
    origin = f" · from {view.forked_from}" if view.forked_from else ""
    name = f"  {label(view)}" if view.name else ""
    head = display.short(view.thread_id)
    holds = f"{display.count(view.artifacts, 'artifact')}, {display.count(view.events, 'event')}"
    changed, made = display.age(view.updated_at), display.age(view.created_at)
    console.answer(
        view,
        [
            f"{'thread':10} {view.thread_id}{name}",
            f"{'state':10} v{view.version} · {view.status} · changed {changed}",
            f"{'created':10} by {display.author(view.created_by)} · {made}{origin}",
            f"{'holds':10} {holds}",
            f"  next: relay state header {head} · relay events {head} · relay stats {head}",
        ],
    )


@arguments(
    *thread_arguments("THREAD[@vN]"),
    arg("--name", help="a name for the new thread"),
    author_option("name of the author (default: RELAY_AGENT, or you)"),
)
def thread_fork(args: Namespace, console: Console) -> None:
    """Create a thread from the state of another thread, at any version, and print the new id."""
    chosen = thread_argument.choose(console, args)
    if chosen.pointer is not None:
        raise Invalid("cannot fork a part of a state", "omit the path: THREAD@v7")
    thread = chosen.thread.fork(chosen.version, args.name, args.by)
    thread_argument.remember(console.relay, thread.id)
    _made(console, thread.show())


@arguments(*thread_arguments(), author_option("name of the author (default: RELAY_AGENT, or you)"))
def thread_close(args: Namespace, console: Console) -> None:
    """Close a thread, so that it can be read but not changed."""
    chosen = thread_argument.choose_thread(console, args)
    view = chosen.thread.close(args.by)
    console.confirm_write(view, f"closed {label(view)} at v{view.version}", view.thread_id)


@arguments(
    arg(
        "place",
        nargs="?",
        metavar="THREAD",
        help="a thread: an id, the beginning of an id, or a name",
    ),
    thread_option("another way to give THREAD"),
    arg("--yes", action="store_true", help="do not ask for confirmation"),
)
def thread_rm(args: Namespace, console: Console) -> None:
    """Delete a thread, its history, and the artifacts that no other thread holds."""
    if bool(args.place) == bool(args.thread):
        raise Invalid("expected exactly one thread", "use: relay thread rm THREAD")
    view = thread_argument.find(console.relay, args.place or args.thread)
    holds = f"{display.count(view.version, 'version')}, {display.count(view.artifacts, 'artifact')}"
    console.confirm(f"delete {label(view)} ({display.short(view.thread_id)}: {holds})?", args.yes)
    view = thread_argument.Thread(console.relay, view.thread_id).remove()
    console.answer(view, f"deleted {label(view)} ({holds})", view.thread_id)


@arguments(*thread_arguments())
def thread_files(args: Namespace, console: Console) -> None:
    """Write the state, events and artifacts of a thread as files, and print the folder of the
    files.
    """
    console.own_address("thread files are written next to the store")
    chosen = thread_argument.choose_thread(console, args)
    with console.busy("writing files"):
        mirrored = chosen.thread.mirror()
    console.answer(
        mirrored,
        [
            f"{mirrored.folder}  {display.count(mirrored.files, 'file')}",
            "  to import an edited state.json: relay state adopt",
        ],
        mirrored.folder,
    )
