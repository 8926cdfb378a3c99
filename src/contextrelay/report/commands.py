"""The commands stats and report."""

from __future__ import annotations

import os
from argparse import Namespace

from msgspec.structs import asdict

from contextrelay.cli import display, thread_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments, author_option, thread_arguments
from contextrelay.errors import Invalid
from contextrelay.model.reports import Savings
from contextrelay.model.thread import Stats


@arguments(
    *thread_arguments(),
    arg("--all", action="store_true", help="for the whole store, not one thread"),
)
def stats(args: Namespace, console: Console) -> None:
    """Show the tokens that refs saved: by a simple formula, and as counted, net of costs.

    For the whole store, unless a thread is named or set in RELAY_THREAD.
    """
    is_named = bool(args.place or args.thread)
    if args.all and is_named:
        raise Invalid("--all cannot be combined with a thread", "omit the thread, or --all")
    if args.all or not (is_named or os.environ.get(thread_argument.VARIABLE)):
        counted = console.relay.savings()
        console.answer(counted, [*_seed_rows(counted), *_counted(counted)])
        if not args.all:
            console.note("for the whole store; for one thread: relay stats THREAD")
        return
    chosen = thread_argument.choose_thread(console, args)
    figures = chosen.thread.stats()
    counted = console.relay.savings(chosen.thread.id)
    hits = (("cache hits", figures.cache_hits), ("session cache hits", figures.session_cache_hits))
    basis = f"  {figures.basis}; pulled back tokens are not deducted"
    lines = [*_seed_rows(figures), *_rows(*hits), basis, *_counted(counted)]
    console.answer({**asdict(figures), "counted": counted}, lines)


def _rows(*rows: tuple[str, object]) -> list[str]:
    return [f"  {name:24}{number:>9}" for name, number in rows]


def _seed_rows(figures: Stats | Savings) -> list[str]:
    return _rows(
        ("artifacts", figures.artifacts),
        ("naive tokens (if pasted)", figures.naive_tokens),
        ("actual tokens (via refs)", figures.actual_tokens),
        ("tokens avoided", figures.tokens_avoided),
    )


def _counted(savings: Savings) -> list[str]:
    net = (("avoided (whole - sent)", savings.avoided), ("net (minus pulled back)", savings.net))
    parts = ("whole", savings.whole), ("sent", savings.sent), ("pulled back", savings.pulled_back)
    lines = [f"  {name:24}{each.tokens:>9}  {each.basis}" for name, each in parts]
    answers = f"{display.count(savings.answers, 'answer')}, {display.count(savings.pulls, 'pull')}"
    priced = savings.priced
    return [
        "",
        f"counted  {answers}; {savings.tokenizer} where measured",
        lines[0] + ", of everything that was read, once each",
        *lines[1:],
        *_rows(*net),
        f"  priced in input tokens, over {priced.calls} calls {priced.uncached:>18,.0f}",
        f"  the same if your provider caches prompts {priced.cached:>14,.0f}",
        *([f"  {savings.uncounted:,} answers came too fast to count"] if savings.uncounted else []),
        *(["  covers only a part of the artifacts"] if savings.is_partial else []),
    ]


@arguments(
    *thread_arguments(),
    arg("--format", choices=("md", "json", "html"), help="md, unless --json"),
    arg("-o", "--out", metavar="FILE", help="write to a file, atomically"),
    author_option("the caller"),
)
def report(args: Namespace, console: Console) -> None:
    """Write a report of a thread: state, decisions, artifacts, timeline, savings."""
    from contextrelay.report.page import read_report

    chosen = thread_argument.choose_thread(console, args)
    kind = args.format or ("json" if console.is_json else "md")
    with console.busy("gathering"):
        gathered = read_report(chosen.thread)
        if kind == "html":
            from contextrelay.report.page import page as write
        elif kind == "json":
            from contextrelay.report.markdown import as_json as write
        else:
            from contextrelay.report.markdown import markdown as write
        text = write(gathered).encode()
    if args.out is None or args.out == "-":
        show = console.show_json if kind == "json" else console.show
        show(text.decode().removesuffix("\n"))
    else:
        display.save(args.out, [text])
        written = {"file": args.out, "size": len(text), "format": kind}
        console.answer(written, f"{args.out}  {display.size(len(text))}", args.out)
    detail = {"format": kind, "version": gathered.version}
    chosen.thread.add_event("report.generated", detail, args.by)
