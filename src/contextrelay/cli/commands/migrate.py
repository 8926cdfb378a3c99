"""migrate: copy a store to another engine."""

from __future__ import annotations

import sys
import time
from argparse import Namespace

from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments
from contextrelay.cli.terminal import ERASE
from contextrelay.client.transport.address import is_server
from contextrelay.client.transport.local import Local, open_stores
from contextrelay.errors import Invalid, NotFound
from contextrelay.model.reports import MigrateProgress, MigrateReport
from contextrelay.store.engine import is_there
from contextrelay.verbs import Migrate

# Seconds between progress lines if stderr is not a terminal, where a line cannot be overwritten.
LINE_EVERY_S = 10.0


@arguments(
    arg("source", metavar="FROM", help="the store to copy: a folder, or the address of an engine"),
    arg("target", metavar="TO", help="the store to write: empty, or with an unfinished migration"),
    arg(
        "--blobs",
        metavar="PLACE",
        help="folder or bucket where TO stores large bodies (default: in TO)",
    ),
    arg("--verify", action="store_true", help="read all of TO back and check every hash"),
    arg(
        "--keep-locked", action="store_true", help="keep TO locked, so that another pass can follow"
    ),
)
def migrate(args: Namespace, console: Console) -> None:
    """Copy threads, artifacts, channels and keys to another engine while FROM is in use.

    To continue an interrupted migration, run the same command again. TO stays locked until a pass
    copies nothing new.
    """
    for address in (args.source, args.target):
        if is_server(address):
            raise Invalid(f"{address} is a server, not an engine", "use the address of its store")
    if args.target.startswith("memory:"):
        raise Invalid("a store in memory ends with this command", "name a folder or an engine")
    if not is_there(args.source):
        raise NotFound(f"no store in {args.source}", "check the folder")
    target = Local(open_stores(args.target, None, args.blobs or ""))
    try:
        report = target.ask(Migrate(args.source, args.verify, args.keep_locked, _Shown(console)))
    except KeyboardInterrupt:
        address = target.stores.engine.address
        console.note(
            f"{address} stays locked: run the same command to continue, or abandon it: "
            f"relay --store {address} restore --abandon"
        )
        raise
    finally:
        target.close()
    console.answer(report, _lines(report), report.target)
    if not report.is_open and not (report.is_same and args.keep_locked):
        console.exit_code = 1


def _lines(report: MigrateReport) -> list[str]:
    bodies = display.count(report.bodies, "large body", "large bodies")
    passes = display.count(report.passes, "pass", "passes")
    moved = f"{display.count(report.logs, 'log')}, {bodies} ({display.size(report.body_bytes)})"
    lines = [f"{moved}, {passes}: {report.source} → {report.target}"]
    if report.verified is not None:
        problems = display.count(report.verified.problem_count, "problem")
        lines.append(f"  verified: {problems if report.verified.problem_count else 'no problems'}")
        lines += [f"  {each.ref or 'store'}: {each.what}" for each in report.verified.problems]
    if report.is_open:
        lines.append(f"  next: relay serve --store {report.target}")
    elif not report.is_same:
        lines.append("  TO stays locked, because FROM is being written to")
        lines.append("  next: stop the writers of FROM, then run the same command again")
    elif report.verified is not None and report.verified.problem_count:
        lines.append(
            "  TO stays locked; next: relay --store FROM verify, then the same command again"
        )
    else:
        lines.append("  TO stays locked; next: the same command without --keep-locked")
    return lines


class _Shown:
    """Progress on stderr: one line that is overwritten on a terminal, or a new line at intervals
    otherwise.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._is_terminal = sys.stderr.isatty()
        self._next_s = 0.0

    def __call__(self, progress: MigrateProgress) -> None:
        left = progress.seconds_left
        text = (
            f"pass {progress.pass_number}: {progress.logs:,} of {progress.logs_total:,} logs, "
            f"{display.size(progress.body_bytes)} of {display.size(progress.body_bytes_total)}"
            f"{'' if left is None else f', {left:,.0f} s left'}"
        )
        is_end = progress.logs >= progress.logs_total
        if self._is_terminal and not self._console.is_quiet:
            print(f"{ERASE}{text}", end="\n" if is_end else "", file=sys.stderr, flush=True)
        elif is_end or time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + LINE_EVERY_S
            self._console.note(text)
