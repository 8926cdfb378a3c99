"""init, gc, verify, backup, restore: looking after the store."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

from msgspec.json import encode, format

from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, takes
from contextrelay.errors import Invalid
from contextrelay.model.settings import Settings
from contextrelay.store.durable_files import write_whole
from contextrelay.store.engine import SETTINGS_NAME


def init(args: Namespace, console: Console) -> None:
    """Make the store and its config.json; what is there already stays as it is."""
    console.own_address("this makes files")
    home = console.relay.transport.stores.engine.home
    if home is None:
        raise Invalid("only a store in a folder has a config.json", "use --store FOLDER")
    config = home / SETTINGS_NAME
    is_new = not config.exists()
    if is_new:
        write_whole(config, [format(encode(Settings()), indent=2) + b"\n"])
    console.relay.sweep(items_max=1, is_deep=False)
    text = f"{home} {'is ready' if is_new else 'was ready before'}"
    console.answer(
        {"home": str(home), "is_new": is_new}, [text, "  next: relay push FILE"], str(home)
    )


def gc(args: Namespace, console: Console) -> None:
    """Expire what is due, free the bytes that nothing holds, repair what a crash left over."""
    with console.busy("sweeping"):
        report = console.relay.sweep()
    freed = display.count(report.freed_bodies, "body", "bodies")
    console.answer(
        report,
        [
            f"expired    {report.expired:,}",
            f"freed      {freed}, {display.size(report.freed_bytes)}",
            f"forgotten  {display.count(report.forgotten_tombstones, 'tombstone')}",
            f"mended     {report.mended:,}",
            *([] if report.is_done else ["  more is due: relay gc again"]),
        ],
    )


def verify(args: Namespace, console: Console) -> None:
    """Re-derive every hash and follow every reference; exit 1 where something is wrong."""
    with console.busy("verifying"):
        report = console.relay.verify()
    artifacts = display.count(report.artifacts, "artifact")
    bodies = f"{display.count(report.bodies, 'body', 'bodies')} ({display.size(report.body_bytes)})"
    problems = display.count(report.problem_count, "problem")
    found = problems if report.problem_count else "all is well"
    if report.unchecked:
        found += (
            f"; {display.count(report.unchecked, 'description')} of an earlier version unchecked"
        )
    console.answer(
        report,
        [
            f"{artifacts}, {bodies}, {display.count(report.events, 'event')}: {found}",
            *(
                f"  {problem.ref or 'store'}: {problem.what}; {problem.next_step}"
                for problem in report.problems
            ),
        ],
    )
    if report.problem_count:
        console.exit_code = 1


@takes(arg("-o", "--out", metavar="FILE", help="where to (relay-DATE.tar)"))
def backup(args: Namespace, console: Console) -> None:
    """Write the whole store to one file, consistent while others go on writing."""
    path = Path(args.out or f"relay-{datetime.now(UTC):%Y-%m-%d-%H%M%S}.tar")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise Invalid(f"{path} cannot be written", "name a file in a folder that exists")
    with console.busy("backing up"):
        console.relay.backup(path)
    size_bytes = path.stat().st_size
    console.answer(
        {"file": str(path), "size": size_bytes},
        [f"{path}  {display.size(size_bytes)}", f"  back: relay --store NEW restore {path}"],
        str(path),
    )


@takes(
    arg("file", metavar="FILE", nargs="?"),
    arg(
        "--abandon",
        action="store_true",
        help="give up a restore that was cut short: erase what it wrote, and nothing else",
    ),
)
def restore(args: Namespace, console: Console) -> None:
    """Fill an empty store from a backup, checking every hash.

    One that was cut short leaves the store locked, to reads and writes, until it is run again or
    abandoned.
    """
    if args.abandon == (args.file is not None):
        raise Invalid("a restore takes a FILE or --abandon", "relay restore FILE")
    if args.abandon:
        console.answer(console.relay.abandon_restore(), ["the store is empty and open"])
        return
    with console.busy("restoring"):
        report = console.relay.restore(args.file)
    large = display.count(report.bodies, "large body", "large bodies")
    text = f"{display.count(report.logs, 'log')}, {large} ({display.size(report.body_bytes)})"
    console.answer(
        report,
        [f"{text} of {report.created_at:%Y-%m-%d %H:%M} UTC", "  next: relay verify"],
    )
