"""state add and resolve: add or resolve single entries of a state, without writing a JSON Patch."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace

from contextrelay.cli import display, thread_argument
from contextrelay.cli.commands.state import show_patched
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments, author_option, thread_option
from contextrelay.client.entries import add_entry
from contextrelay.client.flow import run
from contextrelay.errors import Invalid

KINDS: dict[str, tuple[str, ...]] = {
    "fact": ("key",),
    "constraint": ("severity",),
    "question": (),
    "step": (),
    "decision": ("reason", "evidence", "confidence"),
}
"""The kinds of entries, each with the options that it allows."""


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ArgumentTypeError(f"invalid confidence {text!r}: use a number from 0 to 1")
    return share


@arguments(
    arg("kind", choices=tuple(KINDS)),
    arg("text", metavar="TEXT"),
    thread_option(),
    arg("--key", help="key of a fact; the fact replaces all facts with the same key"),
    arg("--severity", choices=("hard", "soft"), help="severity of a constraint (default: hard)"),
    arg(
        "--reason",
        action="append",
        metavar="CODE",
        help="reason code of a decision; may be repeated",
    ),
    arg(
        "--evidence",
        action="append",
        metavar="REF",
        help="ref that supports a decision; may be repeated",
    ),
    arg("--confidence", type=_share, help="confidence in a decision, from 0 to 1 (default: 1)"),
    author_option("name of the author (default: RELAY_AGENT, or you)"),
)
def state_add(args: Namespace, console: Console) -> None:
    """Add a fact, constraint, question, plan step or decision to a state."""
    for options in KINDS.values():
        for option in options:
            if option not in KINDS[args.kind] and getattr(args, option) is not None:
                raise Invalid(
                    f"--{option} is not an option of a {args.kind}", "see: relay state add --help"
                )
    chosen = thread_argument.choose_thread(console, args)
    added = add_entry(
        chosen.thread.id,
        args.kind,
        args.text,
        args.by,
        key=args.key,
        severity=args.severity or "hard",
        reasons=args.reason or (),
        evidence=[display.resolve(console.relay, text) for text in args.evidence or ()],
        confidence=1.0 if args.confidence is None else args.confidence,
    )
    show_patched(console, chosen, run(console.relay.transport, added), args.by)


@arguments(
    arg("id", metavar="ID", help="id of the question or step, for example q3 or s2"),
    thread_option(),
    author_option("name of the author (default: RELAY_AGENT, or you)"),
)
def state_resolve(args: Namespace, console: Console) -> None:
    """Resolve a question, or mark a plan step as completed."""
    chosen = thread_argument.choose_thread(console, args)
    show_patched(console, chosen, chosen.thread.resolve(args.id, args.by), args.by)
