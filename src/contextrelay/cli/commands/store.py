"""init, gc, verify, backup, restore: maintenance of the store."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

from msgspec.json import encode, format

from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments
from contextrelay.errors import Invalid
from contextrelay.model.settings import Settings
from contextrelay.store.durable_files import write_whole
from contextrelay.store.engine import SETTINGS_NAME


def init(args: Namespace, console: Console) -> None:
    """Create the store and its config.json. Existing files are not changed."""
    console.own_address("init creates files")
    home = console.relay.transport.stores.engine.home
    if home is None:
        raise Invalid("only a store in a folder has a config.json", "use --store FOLDER")
    config = home / SETTINGS_NAME
    is_new = not config.exists()
    if is_new:
        write_whole(config, [format(encode(Settings()), indent=2) + b"\n"])
    console.relay.sweep(items_max=1, is_deep=False)
    text = f"{home} {'created' if is_new else 'already exists'}"
    console.answer(
        {"home": str(home), "is_new": is_new}, [text, "  next: relay push FILE"], str(home)
    )


def gc(args: Namespace, console: Console) -> None:
    """Delete expired artifacts and unreferenced bodies, and repair what a crash has left."""
    with console.busy("sweeping"):
        report = console.relay.sweep()
    freed = display.count(report.freed_bodies, "body", "bodies")
    console.answer(
        report,
        [
            f"expired    {report.expired:,}",
            f"freed      {freed}, {display.size(report.freed_bytes)}",
            f"deleted    {display.count(report.forgotten_tombstones, 'tombstone')}",
            f"repaired   {report.mended:,}",
            *([] if report.is_done else ["  more to clean up: run relay gc again"]),
        ],
    )


def verify(args: Namespace, console: Console) -> None:
    """Recompute every hash of the store and check every reference; exit 1 if there is a problem."""
    with console.busy("verifying"):
        report = console.relay.verify()
    artifacts = display.count(report.artifacts, "artifact")
    bodies = f"{display.count(report.bodies, 'body', 'bodies')} ({display.size(report.body_bytes)})"
    problems = display.count(report.problem_count, "problem")
    found = problems if report.problem_count else "no problems"
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


@arguments(arg("-o", "--out", metavar="FILE", help="the backup file (default: relay-DATE.tar)"))
def backup(args: Namespace, console: Console) -> None:
    """Write a consistent backup of the store to one file. The store may be in use."""
    path = Path(args.out or f"relay-{datetime.now(UTC):%Y-%m-%d-%H%M%S}.tar")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise Invalid(f"cannot write {path}", "name a file in an existing folder")
    with console.busy("backing up"):
        console.relay.backup(path)
    size_bytes = path.stat().st_size
    console.answer(
        {"file": str(path), "size": size_bytes},
        [f"{path}  {display.size(size_bytes)}", f"  restore it: relay --store NEW restore {path}"],
        str(path),
    )


@arguments(
    arg("file", metavar="FILE", nargs="?"),
    arg(
        "--abandon",
        action="store_true",
        help="abandon an interrupted restore and erase only what that restore wrote",
    ),
)
def restore(args: Namespace, console: Console) -> None:
    """Restore a backup into an empty store, and check every hash.

    If a restore is interrupted, the store stays locked until the restore is run again or abandoned.
    """
    if args.abandon == (args.file is not None):
        raise Invalid("expected either FILE or --abandon", "use: relay restore FILE")
    if args.abandon:
        console.answer(
            console.relay.abandon_restore(), ["restore abandoned; the store is empty and unlocked"]
        )
        return
    with console.busy("restoring"):
        report = console.relay.restore(args.file)
    large = display.count(report.bodies, "large body", "large bodies")
    text = f"{display.count(report.logs, 'log')}, {large} ({display.size(report.body_bytes)})"
    console.answer(
        report,
        [f"{text} of {report.created_at:%Y-%m-%d %H:%M} UTC", "  next: relay verify"],
    )
