"""a2a card and send: print the card of a remote agent, and send a message to one."""

from __future__ import annotations

import sys
from argparse import Namespace

from contextrelay.a2a.peer import Peer
from contextrelay.a2a.schema import AgentAnswer
from contextrelay.cli import display, thread_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments, author_option, thread_option
from contextrelay.content.untrusted.fence import fenced
from contextrelay.errors import Invalid, RelayError

_URL = arg("url", metavar="URL", help="URL of the agent, or of the agent's card")
ENDED_BADLY = ("failed", "rejected", "canceled")


@arguments(_URL)
def a2a_card(args: Namespace, console: Console) -> None:
    """Print the card of a remote agent: its name, its protocol binding and its skills."""
    peer = Peer(args.url)
    try:
        card = peer.card()
    finally:
        peer.close()
    knows = [name for name, has in (("streams", card.streams), ("refs", card.knows_refs)) if has]
    lines = [
        f"{display.clean(card.name)}  {display.clean(card.version)}",
        f"  {display.clean(card.description)}",
        f"  {card.binding} at {display.clean(card.url)}",
        f"  supports {', '.join(knows) or 'neither streams nor refs'}",
        *(f"  skill {display.clean(each)}" for each in card.skills),
        f"  next: relay a2a send {display.quoted(args.url)} TEXT",
    ]
    console.answer(card.document, lines, card.url)


@arguments(
    _URL,
    arg("text", metavar="TEXT", help="text of the message; - reads it from stdin"),
    arg("--ref", action="append", default=[], help="a ref to include; may be repeated"),
    thread_option("thread that records the answer (default: the current, or a new one)"),
    arg("--stream", action="store_true", help="print the answer while it arrives"),
    author_option(
        "name of the sender (default: RELAY_AGENT, or you)", "--from", dest="by", metavar="AGENT"
    ),
)
def a2a_send(args: Namespace, console: Console) -> None:
    """Send a message to a remote agent, and store the answer as artifacts of the thread.

    Refs are sent as refs if the agent supports them and can reach the server of --store, otherwise
    their whole content is sent. An agent that has answered in this thread gets the same context
    again. The token for the agent is read from RELAY_A2A_TOKEN. Exit 1 if the task failed, was
    refused or was cancelled.
    """
    text = b"".join(display.read_body("-")).decode() if args.text == "-" else args.text
    if not text.strip() and not args.ref:
        raise Invalid("empty message", 'for example: relay a2a send URL "text", or --ref REF')
    thread = thread_argument.choose_or_make(console, args)
    refs = tuple(display.resolve(console.relay, text) for text in args.ref)
    is_shown = args.stream and not console.is_json

    last = "\n"

    def show(words: str) -> None:
        nonlocal last
        last = words
        sys.stdout.write(words)
        sys.stdout.flush()

    answer = thread.send_to(args.url, text, refs, show if is_shown else None, by=args.by)
    if is_shown:
        if not last.endswith("\n"):
            sys.stdout.write("\n")
        _note(console, answer)
        return
    console.answer(answer, fenced(answer.text, f"answer of {answer.agent}"), answer.text)
    _note(console, answer)


def _note(console: Console, answer: AgentAnswer) -> None:
    stored = ", ".join(display.short(ref) for ref in answer.refs) or "nothing"
    console.note(f"{display.clean(answer.agent)}: {display.clean(answer.state)}; stored: {stored}")
    if answer.state in ENDED_BADLY:
        console.exit_code = RelayError.exit_code
    if answer.state == "input-required":
        console.note("it waits for input: send the next message in the same thread")
