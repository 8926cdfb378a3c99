"""exec and wrap: run any command or LLM command-line tool, and store its output."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace
from typing import get_args

from contextrelay.cli import display, thread_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments, thread_option
from contextrelay.errors import Invalid
from contextrelay.limits import (
    BUNDLE_USER_BYTES_MAX,
    OUTPUT_TOKENS_DEFAULT,
    OUTPUT_TOKENS_MAX,
    OUTPUT_TOKENS_MIN,
)
from contextrelay.runs.child_process import Child, check_command
from contextrelay.runs.exec_finish import finish
from contextrelay.runs.exec_start import ExecOptions
from contextrelay.runs.wrap import AGENTS, BUNDLE, BUNDLE_FILE, Passing, Wrapped, run_agent


def _tokens(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not (
        OUTPUT_TOKENS_MIN <= int(text[:9]) <= OUTPUT_TOKENS_MAX
    ):
        raise ArgumentTypeError(
            f"{text!r} is out of range: use {OUTPUT_TOKENS_MIN} to {OUTPUT_TOKENS_MAX:,}"
        )
    return int(text)


@arguments(
    thread_option("record the command in a thread (default: RELAY_THREAD, or none)"),
    arg(
        "--max-tokens",
        type=_tokens,
        default=OUTPUT_TOKENS_DEFAULT,
        metavar="N",
        help=f"print a digest of output over this size (default: {OUTPUT_TOKENS_DEFAULT:,})",
    ),
    arg("command", nargs="*", metavar="-- CMD", help="the command to run, after --"),
)
def exec_(args: Namespace, console: Console) -> None:
    """Run a command and store its whole output, stdout and stderr in order, under one ref.

    Short output is printed. For long output, a digest with its error lines is printed. The exit
    status is that of the command.
    """
    if not args.command:
        raise Invalid("missing command", "use: relay exec -- CMD")
    chosen = thread_argument.thread_if_named(console, args, with_variable=True)
    options = ExecOptions()
    vars(options).update(vars(args))
    child = Child(args.command)
    finish(options, console, child, child.output(), chosen.thread.id if chosen else None)


@arguments(
    arg(
        "--cli",
        required=True,
        metavar="BIN",
        help=f"the tool to run: {', '.join(AGENTS)}, or any other",
    ),
    thread_option("the thread (default: RELAY_THREAD, the current one, or a new one)"),
    arg(
        "--user",
        metavar="TEXT|-",
        help="the prompt; - reads it from stdin (default: the last of ARGS)",
    ),
    arg(
        "--ref",
        action="append",
        default=[],
        metavar="REF",
        help="show this artifact to the agent; may be repeated",
    ),
    arg(
        "--pass",
        dest="passing",
        choices=get_args(Passing),
        help="how to pass the prompt and context to the tool (default: depends on the tool)",
    ),
    arg(
        "args",
        nargs="*",
        metavar="-- ARGS",
        help="arguments of the tool; {bundle} and {bundle_file} stand for the prompt and context",
    ),
)
def wrap_run(args: Namespace, console: Console) -> None:
    """Run an LLM command-line tool on a thread. The exit status is that of the tool.

    The tool gets the prompt and the context of the thread. Its output is shown and stored, and the
    result is recorded in the state of the thread.
    """
    user, words = _user(args)
    check_command(args.cli)
    thread = thread_argument.choose_or_make(console, args)
    refs = tuple(display.resolve(console.relay, each) for each in args.ref)
    run_agent(console, thread, user, Wrapped(args.cli, words, args.passing), refs)


def _user(args: Namespace) -> tuple[str, list[str]]:
    """Return the prompt, and the remaining arguments of the tool."""
    words: list[str] = list(args.args)
    if args.user == "-":
        read = sys.stdin.buffer.read(BUNDLE_USER_BYTES_MAX + 1)
        return read.decode(errors="replace"), words
    if args.user is not None:
        return args.user, words
    has_place = any(BUNDLE in each or BUNDLE_FILE in each for each in words)
    if not words or has_place or words[-1].startswith("-"):
        raise Invalid("missing prompt", "pass --user TEXT, or pipe the prompt in with --user -")
    return words[-1], words[:-1]
