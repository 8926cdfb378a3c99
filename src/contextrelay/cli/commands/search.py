"""search: passages that answer a query, best first, each with the call that reads on."""

from __future__ import annotations

from argparse import Namespace
from shlex import quote

from contextrelay.cli import display, thread_argument, url_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, takes, thread_option
from contextrelay.errors import Invalid, Sealed
from contextrelay.limits import PIECE_TOKENS_DEFAULT, SEARCH_RESULTS_MAX
from contextrelay.model.inspect import Hit, Hits


@takes(
    arg("query", nargs="*", metavar="QUERY", help="words to look for"),
    thread_option("only in this thread"),
    arg("--ref", metavar="REF", help="only in this ref"),
    arg(
        "--limit",
        type=int,
        default=10,
        metavar="N",
        help=f"how many to show, best first (10; at most {SEARCH_RESULTS_MAX})",
    ),
    arg(
        "--tokens-max",
        "--max-tokens",
        type=int,
        default=PIECE_TOKENS_DEFAULT,
        metavar="N",
        help=f"the answer is never longer ({PIECE_TOKENS_DEFAULT:,})",
    ),
    arg("--rebuild", action="store_true", help="first rebuild the search index, all of it"),
)
def search(args: Namespace, console: Console) -> None:
    """Search by words: in everything, in a thread, or in one ref; best first."""
    if args.rebuild:
        with console.busy("indexing"):
            state = console.relay.rebuild_search()
        artifacts = display.count(state.artifacts, "artifact")
        indexed = f"the search index has {artifacts}, {display.count(state.passages, 'passage')}"
        if not args.query:
            console.answer(state, indexed)
            return
        console.note(indexed)
    if not "".join(args.query).strip():
        raise Invalid("what to look for?", "write some words: relay search retry limit")
    chosen = thread_argument.thread_if_named(console, args, with_variable=False)
    relay, ref = console.relay, None
    if args.ref is not None:
        relay, ref = url_argument.resolved(console, args.ref)
    if chosen is not None and relay is not console.relay:
        raise Invalid("the thread and the ref are in different stores", "leave one of them out")
    try:
        found = relay.search(
            " ".join(args.query),
            thread=None if chosen is None else chosen.thread.id,
            ref=ref,
            limit=args.limit,
            tokens_max=args.tokens_max,
        )
    except Sealed as error:
        hint = "find lines in it here: relay grep PATTERN - (and the URL with its key on stdin)"
        raise Sealed(error.message, hint) from error
    lines = [line for hit in found.hits for line in _lines(console, hit)]
    console.answer(found, lines, found.text.rstrip("\n"))
    _show(console, found)


def _lines(console: Console, hit: Hit) -> list[str]:
    """A hit for people."""
    name = f"  {display.clean(hit.name)}" if hit.name else ""
    stale = f"  stale: newer is {display.short(hit.newer)}" if hit.newer else ""
    head = f"{display.short(hit.ref)}{name}  {display.age(hit.created_at)}{stale}"
    way, value = next(iter(hit.next_args.items()), ("", ""))
    option = f" --{way.replace('_', '-')} {quote(value)}" if way else ""
    then = f"  relay get {display.short(hit.ref)}{option}" if way else ""
    return [console.bold(head), f"  {display.clean(hit.snippet)}", *([then] if then else [])]


def _show(console: Console, found: Hits) -> None:
    """What was searched, what was left out, and how far the index is."""
    summary = f"{display.count(found.found, 'passage')} in {found.scope}"
    if found.left_out:
        summary += f"; not shown: {found.left_out}"
    if found.ignored:
        summary += f"; not found: {display.clean(' '.join(found.ignored))}"
    spent = found.spent
    console.note(f"… {summary} · {spent.tokens:,} tok of ~{spent.whole_tokens:,}")
    for note in found.notes:
        console.note(note)
