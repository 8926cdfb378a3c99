"""artifact put, get, list, show, pin, unpin, extend, rm: stored artifacts and their expiry."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from contextrelay.cli import display, thread_argument, url_argument
from contextrelay.cli.commands.push_pull import DESCRIPTION, TYPES, about, pull, store
from contextrelay.cli.console import Console
from contextrelay.cli.parser import PAGE, arg, arguments, since, thread_option, ttl
from contextrelay.client.relay import Relay
from contextrelay.errors import Invalid, NotFound
from contextrelay.limits import LIST_ITEMS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.reports import Listing


@arguments(
    *DESCRIPTION,
    arg(
        "--ttl",
        type=ttl,
        default=None,
        metavar="TIME",
        help="time until expiry: 90s, 30m, 24h or 7d (default: no expiry)",
    ),
    thread_option("attach the artifact to a thread (default: RELAY_THREAD)"),
)
def artifact_put(args: Namespace, console: Console) -> None:
    """Store a file or stdin without expiry, and print its ref."""
    chosen = thread_argument.thread_if_named(console, args, with_variable=True)
    artifact = store(args, console, args.ttl, chosen.thread.id if chosen else None)
    console.answer(
        artifact, [f"artifact_ref  {artifact.ref}", display.line(artifact)], artifact.ref
    )
    if chosen:
        console.note(f"attached to {chosen.label}, now v{chosen.thread.show().version}")


@arguments(
    arg("ref", metavar="REF"),
    arg("--out", "-o", metavar="FILE", help="write the content to FILE, atomically"),
    thread_option("fail if this thread does not hold the artifact"),
)
def artifact_get(args: Namespace, console: Console) -> None:
    """Print or save the content of an artifact, exactly as stored."""
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
    # A listing has a maximum length, so ask the artifact itself for its thread.
    if chosen.thread.relay.peek(ref, shown_chars=0).thread == chosen.thread.id:
        return ref
    raise NotFound(
        f"{ref} is not in {chosen.label}", f"see: relay artifact list --thread {chosen.label}"
    )


@arguments(
    *PAGE,
    thread_option("list only the artifacts of this thread"),
    arg("--name", metavar="TEXT", help="list only artifacts whose name contains TEXT"),
    arg("--type", choices=TYPES, metavar="TYPE", help=f"list only one type: {', '.join(TYPES)}"),
    arg(
        "--expiring",
        type=ttl,
        metavar="TIME",
        help="list only artifacts that expire within TIME, soonest first",
    ),
    arg(
        "--since",
        type=since,
        metavar="TIME",
        help="list only newer artifacts: 24h, 7d or 2026-05-01",
    ),
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
        lines = ["no matching artifacts"] if is_filtered else [*_NOTHING]
    refs = "\n".join(artifact.ref for artifact in listing.artifacts)
    console.answer(listing, lines, refs)


_NOTHING = ("no artifacts yet", "  next: relay push FILE")


def _pages(relay: Relay, limit: int, after: str, wanted: dict[str, Any]) -> Listing:
    """Return one page of artifacts that match the filters, merged from several pages if a filter
    leaves few matches in each.
    """
    found: list[Artifact] = []
    while True:
        page = relay.list(limit - len(found), after, **wanted)
        found += page.artifacts
        after = page.next
        if not after or len(found) == limit:
            return Listing(artifacts=found, next=after)


@arguments(arg("ref", metavar="REF"))
def artifact_show(args: Namespace, console: Console) -> None:
    """Show an artifact, its preview, the artifacts made from it, and the threads that hold it."""
    relay, ref = url_argument.resolved(console, args.ref)
    artifact = relay.peek(ref)
    lineage = relay.lineage(ref)
    lines = about(artifact, is_full=True)
    lines[-2:-2] = [
        *(f"{'used in':10} {derived}" for derived in lineage.derived),
        *(f"{'held by':10} thread {thread}" for thread in lineage.holders),
    ]
    console.answer({"artifact": artifact, "lineage": lineage}, lines)


@arguments(arg("ref", metavar="REF"))
def artifact_pin(args: Namespace, console: Console) -> None:
    """Pin an artifact, so that the artifact does not expire until it is unpinned or deleted."""
    relay, ref = url_argument.resolved(console, args.ref)
    artifact = relay.pin(ref)
    console.answer(artifact, display.line(artifact), artifact.ref)


@arguments(
    arg("ref", metavar="REF"),
    arg(
        "--ttl",
        type=ttl,
        default=0,
        metavar="TIME",
        help="time until expiry: 30m, 24h or 7d (default: as for a push)",
    ),
)
def artifact_unpin(args: Namespace, console: Console) -> None:
    """Unpin an artifact, so that the artifact can expire again."""
    _refuse_never(args.ttl, "unpin")
    relay, ref = url_argument.resolved(console, args.ref)
    artifact = relay.unpin(ref, args.ttl or None)
    console.answer(artifact, display.line(artifact), artifact.ref)


@arguments(
    arg("ref", metavar="REF"),
    arg("ttl", type=ttl, metavar="TIME", help="time from now until expiry: 30m, 24h or 7d"),
)
def artifact_extend(args: Namespace, console: Console) -> None:
    """Set when an artifact expires, as a time from now. If the artifact already expires later,
    nothing changes.
    """
    _refuse_never(args.ttl, "extend")
    relay, ref = url_argument.resolved(console, args.ref)
    artifact = relay.extend(ref, args.ttl)
    console.answer(artifact, display.line(artifact), artifact.ref)


def _refuse_never(ttl_s: object, command: str) -> None:
    if ttl_s is None:
        raise Invalid(
            f"{command} needs a time limit, for example 7d",
            "to keep it permanently: relay artifact pin REF",
        )


@arguments(arg("refs", metavar="REF", nargs="+"))
def artifact_rm(args: Namespace, console: Console) -> None:
    """Delete artifacts.

    A record of each deletion (a tombstone) remains for 30 days. A body is deleted together with its
    last ref.
    """
    relays = [console.relay_of(text) for text in args.refs]
    found = [
        (relay, display.resolve_to_remove(relay, text))
        for relay, text in zip(relays, args.refs, strict=True)
    ]
    removed = [relay.remove(ref) for relay, ref in dict.fromkeys(found)]
    console.answer(
        removed,
        [f"deleted {display.line(artifact)}" for artifact in removed],
        "\n".join(artifact.ref for artifact in removed),
    )
