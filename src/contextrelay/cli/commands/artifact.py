"""artifact put, get, list, show, pin, unpin, extend, rm: what is kept, by ref, and how long."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from contextrelay.cli import display, thread_argument, url_argument
from contextrelay.cli.commands.push_pull import DESCRIPTION, TYPES, about, pull, store
from contextrelay.cli.console import Console
from contextrelay.cli.parser import PAGE, arg, since, takes, thread_option, ttl
from contextrelay.client.relay import Relay
from contextrelay.errors import Invalid, NotFound
from contextrelay.limits import LIST_ITEMS_MAX
from contextrelay.model.artifact import Artifact
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


@takes(
    *PAGE,
    thread_option("only those in a thread"),
    arg("--name", metavar="TEXT", help="only those with this in their name"),
    arg("--type", choices=TYPES, metavar="TYPE", help=f"only those of a type: {', '.join(TYPES)}"),
    arg("--expiring", type=ttl, metavar="TIME", help="those that expire within it, soonest first"),
    arg("--since", type=since, metavar="TIME", help="only newer ones: 24h, 7d, 2026-05-01"),
)
def artifact_list(args: Namespace, console: Console) -> None:
    """List artifacts, newest first."""
    chosen = thread_argument.thread_if_named(console, args, with_variable=False)
    wanted = {
        "name": args.name,
        "type": args.type,
        "since_ms": args.since,
        "expires_in_s": args.expiring,
    }
    if chosen is not None:
        wanted["thread"] = chosen.thread.id
    listing = _pages(console.relay, args.limit, args.after, wanted)
    lines = [display.line(artifact) for artifact in listing.artifacts]
    is_filtered = any(each is not None for each in wanted.values())
    if listing.next:
        lines.append(f"  more: add --after {display.quoted(listing.next)}")
    elif not lines:
        lines = ["nothing is like that"] if is_filtered else [*_NOTHING]
    refs = "\n".join(artifact.ref for artifact in listing.artifacts)
    console.answer(listing, lines, refs)


_NOTHING = ("nothing here yet", "  next: relay push FILE")


def _pages(relay: Relay, limit: int, after: str, wanted: dict[str, Any]) -> Listing:
    """A page; where few are wanted of many, out of several that are not full."""
    found: list[Artifact] = []
    while True:
        page = relay.list(limit - len(found), after, **wanted)
        found += page.artifacts
        after = page.next
        if not after or len(found) == limit:
            return Listing(artifacts=found, next=after)


@takes(arg("ref", metavar="REF"))
def artifact_show(args: Namespace, console: Console) -> None:
    """Show everything about an artifact: preview, what was made from it, which threads hold it."""
    relay, ref = url_argument.resolved(console, args.ref)
    artifact = relay.peek(ref)
    lineage = relay.lineage(ref)
    lines = about(artifact, is_full=True)
    lines[-2:-2] = [
        *(f"{'made into':10} {derived}" for derived in lineage.derived),
        *(f"{'held by':10} thread {thread}" for thread in lineage.holders),
    ]
    console.answer({"artifact": artifact, "lineage": lineage}, lines)


@takes(arg("ref", metavar="REF"))
def artifact_pin(args: Namespace, console: Console) -> None:
    """Keep an artifact until it is removed by hand."""
    relay, ref = url_argument.resolved(console, args.ref)
    artifact = relay.pin(ref)
    console.answer(artifact, display.line(artifact), artifact.ref)


@takes(
    arg("ref", metavar="REF"),
    arg("--ttl", type=ttl, default=0, metavar="TIME", help="30m, 24h, 7d; else as a push"),
)
def artifact_unpin(args: Namespace, console: Console) -> None:
    """Let a pinned artifact expire again."""
    _refuse_never(args.ttl, "unpin")
    relay, ref = url_argument.resolved(console, args.ref)
    artifact = relay.unpin(ref, args.ttl or None)
    console.answer(artifact, display.line(artifact), artifact.ref)


@takes(
    arg("ref", metavar="REF"),
    arg("ttl", type=ttl, metavar="TIME", help="30m, 24h, 7d: from now on"),
)
def artifact_extend(args: Namespace, console: Console) -> None:
    """Let an artifact live for so long from now; its life is never made shorter."""
    _refuse_never(args.ttl, "extend")
    relay, ref = url_argument.resolved(console, args.ref)
    artifact = relay.extend(ref, args.ttl)
    console.answer(artifact, display.line(artifact), artifact.ref)


def _refuse_never(ttl_s: object, command: str) -> None:
    if ttl_s is None:
        raise Invalid(f"{command} takes a time that ends", "to keep it: relay artifact pin REF")


@takes(arg("refs", metavar="REF", nargs="+"))
def artifact_rm(args: Namespace, console: Console) -> None:
    """Remove artifacts. Tombstones stay for 30 days; the bytes go with the last ref."""
    relays = [console.relay_of(text) for text in args.refs]
    found = [
        (relay, display.resolve_to_remove(relay, text))
        for relay, text in zip(relays, args.refs, strict=True)
    ]
    removed = [relay.remove(ref) for relay, ref in dict.fromkeys(found)]
    console.answer(
        removed,
        [f"removed {display.line(artifact)}" for artifact in removed],
        "\n".join(artifact.ref for artifact in removed),
    )
