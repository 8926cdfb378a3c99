"""trace, replay: the runs of a thread, and their replay."""

from __future__ import annotations

from argparse import BooleanOptionalAction, Namespace
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from contextrelay.cli import display, thread_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import (
    arg,
    arguments,
    author_option,
    items,
    one_of,
    thread_arguments,
    version,
)
from contextrelay.cli.thread_argument import Chosen
from contextrelay.client.flow import iterate
from contextrelay.errors import Invalid
from contextrelay.limits import TRACE_RUNS_DEFAULT
from contextrelay.model.run import Replay
from contextrelay.runs import trace_display
from contextrelay.runs.tools import is_tracked_folder
from contextrelay.runs.trace import read_runs

REPLAY_DIFFS_SHOWN = 5


_RUNS_PER_BATCH = 100


@arguments(
    *thread_arguments(),
    arg(
        "--limit",
        type=items,
        default=TRACE_RUNS_DEFAULT,
        metavar="N",
        help="number of runs to show, newest first (default: 20)",
    ),
    one_of(
        arg("--html", metavar="FILE", help="write an HTML page with all requests and answers"),
        arg("--otlp", metavar="FILE|URL", help="write all runs to FILE as OpenTelemetry spans"),
    ),
)
def trace(args: Namespace, console: Console) -> None:
    """Show the runs of a thread: calls, tools, refs, tokens, price and time."""
    chosen = thread_argument.choose_thread(console, args)
    if args.otlp is not None:
        _export(console, chosen, args.otlp)
        return
    found = chosen.thread.trace(args.limit)
    if args.html is None:
        console.answer(found, trace_display.tree(found, chosen.label))
        return
    from contextrelay.report.trace_page import trace_page

    name = chosen.view.name or chosen.view.thread_id
    with console.busy("writing the page"):
        page = trace_page(console.relay, found, name, datetime.now(UTC))
        size = display.save(args.html, page)
    written = {"file": args.html, "size": size, "runs": len(found.runs)}
    console.answer(written, f"{args.html}  {display.size(size)}", args.html)


@arguments(
    *thread_arguments(),
    arg(
        "--from",
        dest="version",
        type=version,
        metavar="vN",
        help="replay only runs after this version (default: v1)",
    ),
    arg(
        "-m",
        "--model",
        metavar="PROVIDER[:MODEL]",
        help="ask another model (default: use the recorded answers)",
    ),
    arg("--dry-run", action="store_true", help="call no model and write nothing"),
    arg(
        "--files",
        action=BooleanOptionalAction,
        help="compare with the files that git tracks here; with -m, always readable",
    ),
    author_option("name of the author (default: RELAY_AGENT, or you)"),
)
def replay(args: Namespace, console: Console) -> None:
    """Replay the runs of a thread in a copy of the thread, with the recorded answers or with
    another model.

    With the recorded answers, no model is called, and the exit code is 1 if a recorded tool result
    has changed.
    """

    chosen = thread_argument.choose_thread(console, args)
    has_files = args.model is not None if args.files is None else args.files
    files = Path.cwd() if has_files else None
    if args.files and not is_tracked_folder(Path.cwd()):
        raise Invalid("git tracks no files here", "go to the folder in which the model was asked")
    with console.busy("replaying"):
        done = chosen.thread.replay(args.version, args.model, args.dry_run, args.by, files)
    console.answer(done, trace_display.lines(done), done.fork)
    if console.is_human and not console.is_json:
        _show_answers(console, done)
    if done.diverged is not None and not console.is_human:
        console.note("\n".join(trace_display.diverged(done.diverged, done.version)))
    console.exit_code = 1 if done.diverged is not None else 0


def _show_answers(console: Console, done: Replay) -> None:
    """Print the differences between the new answers and the recorded answers."""
    pairs = [(run.old_ref, run.new_ref) for run in done.runs]
    for old, new in pairs[:REPLAY_DIFFS_SHOWN]:
        if old is not None and new is not None and old != new:
            console.show(console.relay.diff(old, new).text.removesuffix("\n"))


def _export(console: Console, chosen: Chosen, target: str) -> None:
    """Write the spans of all runs of a thread to a file, or send them to a collector, a few runs at
    a time.
    """
    from contextrelay.runs.otlp import Sender, SpanFactory, otlp_json

    count = 0
    thread = chosen.thread.id
    factory = SpanFactory()

    def batches() -> Iterator[list[Any]]:
        nonlocal count
        runs = iterate(chosen.thread.transport, read_runs(thread))
        while some := list(islice(runs, _RUNS_PER_BATCH)):
            count += len(some)
            yield [span for run in some for span in factory.spans_of(run, thread)]

    if target.lower().startswith(("http://", "https://")):
        with console.busy("sending"), closing(Sender(target)) as sender:
            for spans in batches():
                sender.send(spans)
        sent = {"url": sender.url, "runs": count}
        console.answer(sent, f"{display.count(count, 'run')} sent to {sender.url}", str(count))
        return
    with console.busy("writing"):
        size = display.save(target, map(otlp_json, batches()))
    written = {"file": target, "size": size, "runs": count}
    console.answer(
        written, f"{target}  {display.size(size)}  {display.count(count, 'run')}", target
    )
