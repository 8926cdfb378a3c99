"""handoff give, accept, return, list, show: hand a thread to another agent."""

from __future__ import annotations

import shlex
from argparse import Namespace
from pathlib import Path

from contextrelay.cli import display, thread_argument, url_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import PAGE, arg, arguments, author_option, budget, thread_option
from contextrelay.cli.place import remember_push
from contextrelay.content.tokens import TOKENIZER_DEFAULT, count_tokens
from contextrelay.content.untrusted.fence import fenced
from contextrelay.limits import HANDOFF_TOKENS_DEFAULT
from contextrelay.model.handoff import HandoffLine, HandoffView


@arguments(
    thread_option(),
    author_option("your name, as the giver of the handoff", "--from", dest="by", metavar="AGENT"),
    arg(
        "--to",
        required=True,
        metavar="AGENT",
        help="the receiving agent; a2a:URL also sends the handoff to that server",
    ),
    arg("--ask", required=True, metavar="TEXT", help="what the receiving agent has to do"),
    budget(HANDOFF_TOKENS_DEFAULT, "token budget"),
    arg(
        "--ref",
        action="append",
        default=[],
        help="a ref to include in the handoff; may be repeated",
    ),
    arg(
        "--pin",
        action="append",
        default=[],
        metavar="ID",
        help="id of a block to include in any case; may be repeated",
    ),
    arg("--channel", help="channel to notify (default: handoff/AGENT)"),
    arg("--file", metavar="FILE", help="also write the handoff with all its content to FILE"),
)
def handoff_give(args: Namespace, console: Console) -> None:
    """Hand a thread to another agent and print the ref of the handoff."""
    chosen = thread_argument.choose_thread(console, args)
    refs = tuple(display.resolve(console.relay, text) for text in args.ref)
    view = chosen.thread.hand_off(
        args.to,
        args.ask,
        args.budget,
        refs,
        tuple(args.pin),
        args.channel,
        by=args.by,
    )
    remember_push(console.relay.transport, view.ref)
    if args.file:
        from contextrelay.client.handoff_file import write_handoff

        write_handoff(console.relay, view.ref, args.file)
    tokens = count_tokens(view.text)
    left_out = len(view.handoff.left_out)
    blocks = display.count(len(view.handoff.package.blocks), "block")
    holds = f"{blocks}, {display.count(len(refs), 'ref')}, {left_out} left out"
    giver, source = display.author(view.handoff.giver), f"{chosen.label} v{chosen.view.version}"
    lines = [
        f"{view.ref}  {giver} → {args.to}  from {source}",
        f"  {tokens:,} of {args.budget:,} tokens ({TOKENIZER_DEFAULT}): {holds}",
        f"  next: relay handoff accept {display.short(view.ref)} --by {display.clean(args.to)}",
    ]
    if not args.to.startswith(_BY_A2A):
        console.answer(view, lines, view.ref)
        return
    url = args.to.removeprefix(_BY_A2A)
    answer = chosen.thread.send_to(url, args.ask, refs, handoff=view.ref, by=args.by)
    shown = fenced(answer.text, f"answer of {answer.agent}")
    console.answer(answer, [*lines[:-1], shown], "\n".join(answer.refs))
    console.note(f"{display.clean(answer.agent)}: {display.clean(answer.state)}")


_BY_A2A = "a2a:"


@arguments(
    arg(
        "ref",
        metavar="REF|FILE",
        help="ref of the handoff, or a file from relay handoff give --file",
    ),
    author_option("your name, as the receiving agent", metavar="AGENT"),
)
def handoff_accept(args: Namespace, console: Console) -> None:
    """Accept a handoff and print it for a model."""
    if Path(args.ref).is_file():
        from contextrelay.client.handoff_file import take_handoff

        taken = take_handoff(console.relay, args.ref, args.by)
        console.answer(taken, _for_a_model(taken.view))
        for old, new in taken.refs.items():
            console.note(f"{display.short(old)} was imported as {new}")
        return
    relay, ref = url_argument.resolved(console, args.ref)
    view = relay.accept(ref, args.by)
    console.answer(view, _for_a_model(view))
    console.note(f"state: relay state show {view.handoff.state_ref}")
    by = f" --by {shlex.quote(args.by)}" if args.by else ""
    console.note(f"when done: relay handoff return {display.short(view.ref)} FILE{by}")


@arguments(
    arg("ref", metavar="REF", help="the ref of the handoff"),
    arg(
        "file",
        nargs="?",
        metavar="FILE",
        help="file with the result; - reads the result from stdin",
    ),
    arg("--name", help="name of the result (default: the file name)"),
    author_option("your name (default: RELAY_AGENT, or you)", metavar="AGENT"),
)
def handoff_return(args: Namespace, console: Console) -> None:
    """Return the result of a handoff to the giver, by attaching the result to the giver's
    thread.
    """
    relay, ref = url_argument.resolved(console, args.ref)
    body = b"".join(display.read_body(args.file))
    name = display.name_of(args.file, args.name)
    artifact = relay.give_back(body, ref, name, by=args.by)
    remember_push(relay.transport, artifact.ref)
    console.answer(artifact, [display.line(artifact)], artifact.ref)


@arguments(
    thread_option("list only handoffs of this thread"),
    arg("--to", metavar="AGENT", help="list only handoffs to this agent"),
    arg("--open", action="store_true", help="list only handoffs that nobody has accepted"),
    *PAGE,
)
def handoff_list(args: Namespace, console: Console) -> None:
    """List handoffs, newest first."""
    chosen = thread_argument.thread_if_named(console, args, with_variable=False)
    thread = None if chosen is None else chosen.thread.id
    listing = console.relay.handoffs(args.to, thread, args.open, args.limit, args.after)
    lines = [_line(each) for each in listing.handoffs] or ["no handoffs"]
    if listing.next:
        lines.append(f"  more: relay handoff list --after {display.quoted(listing.next)}")
    console.answer(listing, lines, "\n".join(each.ref for each in listing.handoffs))


def _line(each: HandoffLine) -> str:
    if each.returned:
        status = "returned"
    elif each.accepted:
        status = f"accepted by {display.clean(each.accepted[0].by)}"
    else:
        status = "open"
    who = f"{display.author(each.giver)} → {display.clean(each.to)}"
    ask = display.cut(display.clean(each.ask), 60)
    return f"{display.short(each.ref)}  {who}  {status}  {display.age(each.given_at)}  {ask}"


@arguments(
    arg("ref", metavar="REF", help="the ref of the handoff"),
    arg("--why", action="store_true", help="print why each block was included or left out"),
)
def handoff_show(args: Namespace, console: Console) -> None:
    """Show a handoff without accepting it."""
    relay, ref = url_argument.resolved(console, args.ref)
    view = relay.handoff(ref)
    console.answer(view, view.reasons if args.why else _for_a_model(view))


def _for_a_model(view: HandoffView) -> str:
    """Format a handoff for a model, fenced as untrusted data, because anybody with a write key can
    give one.
    """
    name = f"handoff {display.short(view.ref)}" if view.ref else "handoff from a file"
    return fenced(view.text, f"{name} by {view.handoff.giver}")
