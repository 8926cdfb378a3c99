"""artifact put, get, list, show, pin, rm: what is kept, by ref."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from contextrelay.doors.cli import forms
from contextrelay.doors.cli.commands.relay import about, describe_arguments, pull, store
from contextrelay.doors.cli.desk import Desk
from contextrelay.doors.cli.parser import ttl
from contextrelay.errors import Invalid
from contextrelay.limits import LIST_ITEMS_MAX


def artifact_put_arguments(parser: ArgumentParser) -> None:
    describe_arguments(parser)
    parser.add_argument(
        "--ttl", type=ttl, default=None, metavar="TIME", help="90s, 30m, 24h, 7d; else for good"
    )


def artifact_put(args: Namespace, desk: Desk) -> None:
    """Store a file or stdin until it is removed, and print its ref."""
    artifact = store(args, desk, args.ttl)
    desk.answer(artifact, [f"artifact_ref  {artifact.ref}", forms.line(artifact)], artifact.ref)


def artifact_get_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("ref", metavar="REF")
    parser.add_argument("--out", "-o", metavar="FILE", help="write to a file, whole or not at all")
    parser.set_defaults(bytes=None)


def artifact_get(args: Namespace, desk: Desk) -> None:
    """Get an artifact's content, exactly as it was stored."""
    pull(args, desk)


def artifact_list_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--limit", type=int, default=20, help="how many (20)")
    parser.add_argument("--after", default="", metavar="NEXT", help="go on after another list")


def artifact_list(args: Namespace, desk: Desk) -> None:
    """List artifacts, newest first."""
    if not 1 <= args.limit <= LIST_ITEMS_MAX:
        raise Invalid(f"--limit {args.limit} is out of range", f"take 1 to {LIST_ITEMS_MAX}")
    listing = desk.relay.list(args.limit, args.after)
    lines = [forms.line(artifact) for artifact in listing.artifacts]
    if not lines:
        lines = ["nothing here yet", "  next: relay push FILE"]
    elif listing.next:
        lines.append(f"  more: relay artifact list --after '{listing.next}'")
    refs = "\n".join(artifact.ref for artifact in listing.artifacts)
    desk.answer(listing, lines, refs)


def artifact_show_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("ref", metavar="REF")


def artifact_show(args: Namespace, desk: Desk) -> None:
    """Tell everything about an artifact, with its preview and what was made from it."""
    ref = forms.resolve(desk.relay, args.ref)
    artifact = desk.relay.peek(ref)
    lineage = desk.relay.trace(ref)
    lines = about(artifact, is_full=True)
    lines[-2:-2] = [f"{'made into':10} {derived}" for derived in lineage.derived]
    desk.answer({"artifact": artifact, "lineage": lineage}, lines)


def artifact_pin_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("ref", metavar="REF")


def artifact_pin(args: Namespace, desk: Desk) -> None:
    """Keep an artifact until it is removed by hand."""
    artifact = desk.relay.pin(forms.resolve(desk.relay, args.ref))
    desk.answer(artifact, forms.line(artifact), artifact.ref)


def artifact_rm_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("refs", metavar="REF", nargs="+")


def artifact_rm(args: Namespace, desk: Desk) -> None:
    """Remove artifacts. Tombstones tell of them for 30 days; the bytes go with the last ref."""
    refs = [forms.resolve(desk.relay, text) for text in args.refs]
    removed = [desk.relay.remove(ref) for ref in dict.fromkeys(refs)]
    desk.answer(
        removed,
        [f"removed {forms.line(artifact)}" for artifact in removed],
        "\n".join(artifact.ref for artifact in removed),
    )
