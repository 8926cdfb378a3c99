"""stats and report: what a thread has saved, and all of it to read."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from contextrelay.doors.cli import choosing, forms
from contextrelay.doors.cli.desk import Desk
from contextrelay.doors.cli.parser import thread_arguments


def stats_arguments(parser: ArgumentParser) -> None:
    thread_arguments(parser)


def stats(args: Namespace, desk: Desk) -> None:
    """Tell what refs have saved in a thread: an estimate, a quarter of the characters."""
    told = choosing.choose_thread(desk, args).thread.stats()
    rows = (
        ("artifacts", told.artifacts),
        ("naive tokens (if pasted)", told.naive_tokens),
        ("actual tokens (via refs)", told.actual_tokens),
        ("tokens avoided", told.tokens_avoided),
        ("cache hits", told.cache_hits),
        ("session cache hits", told.session_cache_hits),
    )
    lines = [f"  {name:24}{number:>9}" for name, number in rows]
    desk.answer(told, [*lines, f"  {told.basis}; what was pulled back is not taken off"])


def report_arguments(parser: ArgumentParser) -> None:
    thread_arguments(parser)
    parser.add_argument("--format", choices=("md", "json", "html"), help="md, unless --json")
    parser.add_argument("-o", "--out", metavar="FILE", help="write to a file, whole or not at all")
    parser.add_argument("--by", default="you", help="who asks for it")


def report(args: Namespace, desk: Desk) -> None:
    """Write a thread down to read: state, decisions, artifacts, timeline, savings."""
    from contextrelay.doors.report.gathering import gather

    chosen = choosing.choose_thread(desk, args)
    kind = args.format or ("json" if desk.is_json else "md")
    with desk.busy("gathering"):
        gathered = gather(chosen.thread)
        if kind == "html":
            from contextrelay.doors.report.page import page as write
        elif kind == "json":
            from contextrelay.doors.report.markdown import as_json as write
        else:
            from contextrelay.doors.report.markdown import markdown as write
        text = write(gathered).encode()
    if args.out is None or args.out == "-":
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    else:
        forms.save(args.out, [text])
        told = {"file": args.out, "size": len(text), "format": kind}
        desk.answer(told, f"{args.out}  {forms.size(len(text))}", args.out)
    detail = {"format": kind, "version": gathered.version}
    chosen.thread.add_event("report.generated", detail, args.by)
