"""search: find passages by words, best first, each with the command that prints the text around
it.
"""

from __future__ import annotations

from argparse import Namespace
from shlex import quote

from contextrelay.cli import display, thread_argument, url_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments, thread_option
from contextrelay.errors import Invalid, Sealed
from contextrelay.limits import PIECE_TOKENS_DEFAULT, SEARCH_RESULTS_MAX
from contextrelay.model.inspect import Hit, Hits


@arguments(
    arg("query", nargs="*", metavar="QUERY", help="the words to search for"),
    thread_option("search only this thread"),
    arg("--ref", metavar="REF", help="search only this ref"),
    arg(
        "--limit",
        type=int,
        default=10,
        metavar="N",
        help=f"number of results, best first (default: 10, maximum: {SEARCH_RESULTS_MAX})",
    ),
    arg(
        "--tokens-max",
        "--max-tokens",
        type=int,
        default=PIECE_TOKENS_DEFAULT,
        metavar="N",
        help=f"maximum size of the answer in tokens (default: {PIECE_TOKENS_DEFAULT:,})",
    ),
    arg("--rebuild", action="store_true", help="rebuild the whole search index first"),
)
def search(args: Namespace, console: Console) -> None:
    """Search by words in the whole store, in a thread, or in one ref, and list the best passages
    first.
    """
    if args.rebuild:
        with console.busy("indexing"):
            state = console.relay.rebuild_search()
        artifacts = display.count(state.artifacts, "artifact")
        indexed = f"search index: {artifacts}, {display.count(state.passages, 'passage')}"
        if not args.query:
            console.answer(state, indexed)
            return
        console.note(indexed)
    if not "".join(args.query).strip():
        raise Invalid(
            "missing query", "use: relay search WORDS, for example relay search retry limit"
        )
    chosen = thread_argument.thread_if_named(console, args, with_variable=False)
    relay, ref = console.relay, None
    if args.ref is not None:
        relay, ref = url_argument.resolved(console, args.ref)
    if chosen is not None and relay is not console.relay:
        raise Invalid("the thread and the ref are in different stores", "omit one of them")
    try:
        found = relay.search(
            " ".join(args.query),
            thread=None if chosen is None else chosen.thread.id,
            ref=ref,
            limit=args.limit,
            tokens_max=args.tokens_max,
        )
    except Sealed as error:
        hint = "search its lines: relay grep PATTERN - (with the URL and its key on stdin)"
        raise Sealed(error.message, hint) from error
    lines = [line for hit in found.hits for line in _lines(console, hit)]
    console.answer(found, lines, found.text.rstrip("\n"))
    _show(console, found)


def _lines(console: Console, hit: Hit) -> list[str]:
    """Format a search result for people, as lines."""
    name = f"  {display.clean(hit.name)}" if hit.name else ""
    stale = f"  stale: a newer version is {display.short(hit.newer)}" if hit.newer else ""
    head = f"{display.short(hit.ref)}{name}  {display.age(hit.created_at)}{stale}"
    way, value = next(iter(hit.next_args.items()), ("", ""))
    option = f" --{way.replace('_', '-')} {quote(value)}" if way else ""
    then = f"  relay get {display.short(hit.ref)}{option}" if way else ""
    return [console.bold(head), f"  {display.clean(hit.snippet)}", *([then] if then else [])]


def _show(console: Console, found: Hits) -> None:
    """Print the scope of the search, what was left out, and which words were not found."""
    summary = f"{display.count(found.found, 'passage')} in {found.scope}"
    if found.left_out:
        summary += f"; left out: {found.left_out}"
    if found.ignored:
        summary += f"; not found: {display.clean(' '.join(found.ignored))}"
    spent = found.spent
    console.note(f"… {summary} · {spent.tokens:,} tok of ~{spent.whole_tokens:,}")
    for note in found.notes:
        console.note(note)
