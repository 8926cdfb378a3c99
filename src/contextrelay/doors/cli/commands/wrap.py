"""exec and wrap: any command, and any LLM command line, run with what they print kept."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace

from contextrelay.doors.cli import thread_argument
from contextrelay.doors.cli.console import Console
from contextrelay.doors.cli.parser import arg, takes, thread_option
from contextrelay.doors.wrap.child import Child
from contextrelay.doors.wrap.exec_finish import finish
from contextrelay.doors.wrap.exec_options import Options
from contextrelay.errors import Invalid
from contextrelay.limits import OUTPUT_TOKENS_DEFAULT, OUTPUT_TOKENS_MAX, OUTPUT_TOKENS_MIN


def _tokens(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not (
        OUTPUT_TOKENS_MIN <= int(text[:9]) <= OUTPUT_TOKENS_MAX
    ):
        raise ArgumentTypeError(
            f"{text!r} is out of range: take {OUTPUT_TOKENS_MIN} to {OUTPUT_TOKENS_MAX:,}"
        )
    return int(text)


@takes(
    thread_option("record it in a thread; else RELAY_THREAD, else in none"),
    arg(
        "--max-tokens",
        type=_tokens,
        default=OUTPUT_TOKENS_DEFAULT,
        metavar="N",
        help=f"print more than this as a digest ({OUTPUT_TOKENS_DEFAULT:,})",
    ),
    arg("command", nargs="*", metavar="-- CMD", help="the command, behind two dashes"),
)
def exec_(args: Namespace, console: Console) -> None:
    """Run any command: its whole output, stdout and stderr as they came, goes to a ref. A short one
    is printed as it is, of a long one a digest with its error lines. The exit status is kept."""
    if not args.command:
        raise Invalid("no command is named", "write: relay exec -- CMD")
    chosen = thread_argument.thread_if_named(console, args, with_variable=True)
    options = Options()
    vars(options).update(vars(args))
    child = Child(args.command)
    finish(options, console, child, child.output(), chosen.thread.id if chosen else None)
