"""artifact put, get, list, show, pin, rm: what is kept, by ref."""

from __future__ import annotations

from argparse import Namespace

from contextrelay.doors.cli import display, thread_argument, url_argument
from contextrelay.doors.cli.commands.push_pull import DESCRIPTION, about, pull, store
from contextrelay.doors.cli.console import Console
from contextrelay.doors.cli.parser import PAGE, arg, takes, thread_option, ttl
from contextrelay.errors import Invalid, NotFound
from contextrelay.limits import LIST_ITEMS_MAX
from contextrelay.model.reports import Listing


@takes(
    *DESCRIPTION,
    arg("--ttl", type=ttl, default=None, metavar="TIME", help="90s, 30m, 24h, 7d; else for good"),
    thread_option("put it into a thread; else RELAY_THREAD"),
)
def artifact_put(args: Namespace, console: Console) -> None:
    """Store a file or stdin until it is removed, and print its ref."""
    chosen = thread_argument.thread_if_named(console, args, with_variable=True)
    artifact = store(args, console, args.ttl, chosen.thread.id if chosen else None)
    lines = [f"artifact_ref  {artifact.ref}", display.line(artifact)]
    if chosen and console.is_human:
        lines.append(f"in {chosen.label}, now at v{chosen.thread.show().version}")
    console.answer(artifact, lines, artifact.ref)


@takes(
    arg("ref", metavar="REF"),
    arg("--out", "-o", metavar="FILE", help="write to a file, whole or not at all"),
    thread_option("only if it is in that thread"),
)
def artifact_get(args: Namespace, console: Console) -> None:
    """Get an artifact's content, exactly as it was stored."""
    args.bytes = None
    chosen = thread_argument.thread_if_named(console, args, with_variable=False)
    if chosen is not None:
        given = url_argument.read(console, args.ref)
        args.ref = given.keyed(_in_thread(chosen, display.resolve(console.relay, given.text)))
    pull(args, console)


def _in_thread(chosen: thread_argument.Chosen, ref: str) -> str:
    artifacts = chosen.thread.artifacts(LIST_ITEMS_MAX)
    if any(artifact.ref == ref for artifact in artifacts):
        return ref
    # More than can be listed at once; the artifact itself knows which thread it was put into.
    if chosen.thread.relay.peek(ref, shown_chars=0).thread == chosen.thread.id:
        return ref
    raise NotFound(
        f"{ref} is not in {chosen.label}", f"see: relay artifact list --thread {chosen.label}"
    )


@takes(*PAGE, thread_option("only those in a thread"))
def artifact_list(args: Namespace, console: Console) -> None:
    """List artifacts, newest first."""
    chosen = thread_argument.thread_if_named(console, args, with_variable=False)
    if chosen is None:
        listing = console.relay.list(args.limit, args.after)
    elif args.after:
        raise Invalid("--after does not go with --thread", f"use --limit, up to {LIST_ITEMS_MAX}")
    else:
        listing = Listing(artifacts=chosen.thread.artifacts(args.limit))
    lines = [display.line(artifact) for artifact in listing.artifacts]
    if not lines:
        lines = ["nothing here yet", "  next: relay push FILE"]
    elif listing.next:
        lines.append(f"  more: relay artifact list --after {display.quoted(listing.next)}")
    elif chosen is not None and chosen.view.artifacts > len(lines):
        lines.append(f"  {chosen.view.artifacts - len(lines)} more: relay artifact list --limit N")
    refs = "\n".join(artifact.ref for artifact in listing.artifacts)
    console.answer(listing, lines, refs)


@takes(arg("ref", metavar="REF"))
def artifact_show(args: Namespace, console: Console) -> None:
    """Tell everything about an artifact, with its preview and what was made from it."""
    relay = console.relay_of(args.ref)
    ref = display.resolve(relay, args.ref)
    artifact = relay.peek(ref)
    lineage = relay.trace(ref)
    lines = about(artifact, is_full=True)
    lines[-2:-2] = [f"{'made into':10} {derived}" for derived in lineage.derived]
    console.answer({"artifact": artifact, "lineage": lineage}, lines)


@takes(arg("ref", metavar="REF"))
def artifact_pin(args: Namespace, console: Console) -> None:
    """Keep an artifact until it is removed by hand."""
    artifact = console.relay.pin(display.resolve(console.relay, args.ref))
    console.answer(artifact, display.line(artifact), artifact.ref)


@takes(arg("refs", metavar="REF", nargs="+"))
def artifact_rm(args: Namespace, console: Console) -> None:
    """Remove artifacts. Tombstones tell of them for 30 days; the bytes go with the last ref."""
    refs = [display.resolve(console.relay, text) for text in args.refs]
    removed = [console.relay.remove(ref) for ref in dict.fromkeys(refs)]
    console.answer(
        removed,
        [f"removed {display.line(artifact)}" for artifact in removed],
        "\n".join(artifact.ref for artifact in removed),
    )
