"""run, ask, chat: a model answers on a thread. The answer is shown as it arrives.

Rule: stdout carries the answer as it is stored. Sequences that control a terminal are written as
visible characters (terminal.py). Ctrl-C stops the answer: the text so far is stored, and the exit
code is 130.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from pathlib import Path

from msgspec.json import decode

from contextrelay.cli import display, thread_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments, thread_option
from contextrelay.cli.place import remember_push
from contextrelay.client.flow import run as run_flow
from contextrelay.client.thread import Thread
from contextrelay.errors import Invalid, RelayError
from contextrelay.limits import BUDGET_TOKENS_MAX, BUNDLE_SYSTEM_BYTES_MAX, BUNDLE_USER_BYTES_MAX
from contextrelay.model.run import RunResult, ToolUse
from contextrelay.runs.bundle import Estimated, estimate_bundle, gather
from contextrelay.runs.prices import prices_here
from contextrelay.runs.provider import Provider, Tool
from contextrelay.runs.run import chosen_provider, tracked_files

_INTERRUPTED = 130
_THREAD = "the thread (default: RELAY_THREAD, the current one, or a new one)"


def _budget(text: str) -> int:
    digits = text.replace("_", "").replace(",", "")
    if not digits.isascii() or not digits.isdigit() or not 1 <= int(digits) <= BUDGET_TOKENS_MAX:
        raise ArgumentTypeError(
            f"invalid number of tokens {text!r}: use a number, for example 4000"
        )
    return int(digits)


_OPTIONS = (
    thread_option(_THREAD),
    arg(
        "-m",
        "--model",
        metavar="PROVIDER[:MODEL]",
        help="the model (default: the setting `model`, or RELAY_MODEL)",
    ),
    arg(
        "--ref",
        action="append",
        default=[],
        metavar="REF",
        help="include this artifact in the prompt; may be repeated",
    ),
    arg(
        "--budget",
        type=_budget,
        metavar="N",
        help="include this number of tokens from the context of the thread",
    ),
    arg("--system", metavar="TEXT|@FILE", help="replace the default system prompt"),
    arg(
        "--no-files",
        action="store_true",
        help="do not let the model read the files that git tracks in this folder",
    ),
    arg(
        "--dry-run",
        action="store_true",
        help="print the request with its tokens and price, without sending it",
    ),
    arg("--dump-rpb", metavar="FILE", help="write the request to FILE as JSON"),
)


@arguments(arg("--user", metavar="TEXT|-", help="the prompt; - reads it from stdin"), *_OPTIONS)
def run(args: Namespace, console: Console) -> None:
    """Ask a model on a thread. The model gets a size-limited bundle of the thread, and tools to
    read refs.
    """
    if args.user is None:
        raise Invalid("missing prompt", "pass --user TEXT, or pipe it in with --user -")
    _ask(args, console, _piped() if args.user == "-" else args.user)


@arguments(
    arg("words", nargs="*", metavar="WORDS", help="the prompt; - or no words reads it from stdin"),
    *_OPTIONS,
)
def ask(args: Namespace, console: Console) -> None:
    """Ask a model on a thread, with the prompt as arguments. The short form is: relay "WORDS"."""
    words = " ".join(args.words)
    if words in ("", "-"):
        if not words and sys.stdin.isatty():
            raise Invalid("missing prompt", 'for example: relay ask "what is this about?"')
        words = _piped()
    _ask(args, console, words)


def _piped() -> str:
    """Return the prompt on stdin. At most one byte over the limit is read, so that a longer prompt
    is refused.
    """
    return sys.stdin.buffer.read(BUNDLE_USER_BYTES_MAX + 1).decode(errors="replace")


def _ask(args: Namespace, console: Console, words: str) -> None:
    if not words.strip():
        raise Invalid("empty prompt", "write what the model should do")
    provider = chosen_provider(console.relay.transport, args.model)
    thread = thread_argument.choose_or_make(console, args, may_make=not args.dry_run)
    refs = [display.resolve(console.relay, each) for each in args.ref]
    if args.dry_run or args.dump_rpb:
        estimated = _estimated(args, console, thread, words, refs, provider)
        if args.dump_rpb:
            display.save(args.dump_rpb, [estimated.bundle.json()])
        if args.dry_run:
            _show_estimate(console, estimated)
            return
    _answer(args, console, thread, words, refs, provider)


def _system(args: Namespace) -> str | None:
    """Return the system prompt, given as text or as @FILE."""
    if args.system is None or not args.system.startswith("@"):
        return args.system
    text = bytearray()
    for chunk in display.read_body(args.system[1:]):
        text += chunk
        if len(text) > BUNDLE_SYSTEM_BYTES_MAX:
            break
    return text.decode(errors="replace")


# The answer


def _answer(
    args: Namespace,
    console: Console,
    thread: Thread,
    words: str,
    refs: list[str],
    provider: Provider,
) -> RunResult | None:
    """Print an answer as it arrives. Return its result, or None if it was interrupted before the
    first word.
    """
    answer = _Words()
    stream = thread.run_stream(
        words,
        provider,
        refs=refs,
        system=_system(args),
        budget_tokens=args.budget,
        files=None if args.no_files else Path.cwd(),
        on_tool=None if console.is_json else lambda use: _note_tool(console, use, answer),
    )
    try:
        with stream:
            answer.write(stream, is_shown=not console.is_json)
    except KeyboardInterrupt:
        console.exit_code = _INTERRUPTED
    result = stream.result
    if result is None:
        raise KeyboardInterrupt
    if result.ref is not None:
        remember_push(console.relay.transport, result.ref)
    if console.is_json:
        console.answer(result, "")
    else:
        console.note(_summary(result))
    return result


class _Words:
    """Writes the text of an answer to stdout as it arrives."""

    def __init__(self) -> None:
        self.is_in_line = False
        """True if the last line that was written has no line feed yet."""

    def write(self, pieces: Iterator[str], is_shown: bool) -> None:
        """Write pieces of text. The last line is always ended."""
        held = ""
        try:
            for piece in pieces:
                if not is_shown:
                    continue
                # A carriage return is harmless before a line feed, which may come with the next
                # piece.
                text = held + piece
                held = "\r" if text.endswith("\r") else ""
                text = text.removesuffix("\r")
                sys.stdout.write(text)
                sys.stdout.flush()
                self.is_in_line = not text.endswith("\n") if text else self.is_in_line
        finally:
            if held or self.is_in_line:
                sys.stdout.write(f"{held}\n" if self.is_in_line else held)
                sys.stdout.flush()


def _note_tool(console: Console, use: ToolUse, words: _Words) -> None:
    if console.is_human:
        refs = " ".join(display.short(ref) for ref in use.refs[:3])
        failed = " (refused)" if use.is_error else ""
        line_end = "\n" if words.is_in_line else ""
        console.note(f"{line_end}  · {use.name} {refs or use.arguments}{failed}")
        words.is_in_line = False


def _summary(result: RunResult) -> str:
    about = "~" if result.tokens.basis == "estimated" else ""
    cached = f", {result.tokens.cache_read:,} cached" if result.tokens.cache_read else ""
    kept = "interrupted; partial answer stored: " if result.status == "interrupted" else ""
    if result.ref is None:
        kept = "interrupted before the first word"
    cut = ", truncated at its limit" if result.stop == "length" else ""
    return (
        f"{kept}{display.short(result.ref) if result.ref else ''}  {result.provider}:{result.model}"
        f"  {about}{result.tokens.input:,} tok in{cached}, {about}{result.tokens.output:,} out{cut}"
        f" · {_price(result.price)} · {result.duration_ms / 1000:.1f} s"
        f"{f' · {result.rounds} rounds' if result.rounds > 1 else ''}"
    )


def _price(price: str | None) -> str:
    return "price unknown" if price is None else f"${price}"


# The estimate


def _estimated(
    args: Namespace,
    console: Console,
    thread: Thread,
    words: str,
    refs: list[str],
    provider: Provider,
) -> Estimated:
    transport = console.relay.transport
    gathered = run_flow(
        transport, gather(thread.id, words, tuple(refs), _system(args), args.budget)
    )
    has_files = not args.no_files and tracked_files(Path.cwd()) is not None
    return estimate_bundle(gathered.bundle, provider, has_files, prices_here(os.environ))


def _show_estimate(console: Console, estimated: Estimated) -> None:
    lines: list[str] = []
    for part in estimated.parts:
        text = part.text if part.name != "tools" else _tool_names(part.text)
        lines += [f"── {part.name} · {part.tokens:,} tok ──", text, ""]
    stable = sum(part.tokens for part in estimated.parts if part.is_stable)
    lines.append(f"{estimated.tokens:,} tok [{estimated.tokenizer}], {stable:,} of them cacheable")
    lines.append(f"{estimated.model}: {_price(estimated.price)} without a cache")
    if estimated.price_cached_first is not None:
        lines.append(
            f"with a cache: {_price(estimated.price_cached_first)} for the first call,"
            f" {_price(estimated.price_cached)} for later calls (input only)"
        )
    console.answer(estimated.view(), lines)


def _tool_names(tools: str) -> str:
    """Return the names of the tools as one text. Their schemas are in the output of --json."""
    return ", ".join(tool.name for tool in decode(tools, type=list[Tool]))


# Chat


@arguments(*(each for each in _OPTIONS if each.names[0] not in ("--dry-run", "--dump-rpb")))
def chat(args: Namespace, console: Console) -> None:
    """Chat with a model until /quit. /ref REF shows the model an artifact, and /model NAME changes
    the model.
    """
    args.dry_run, args.dump_rpb = False, None
    provider = chosen_provider(console.relay.transport, args.model)
    thread = thread_argument.choose_or_make(console, args, may_make=not args.dry_run)
    refs = [display.resolve(console.relay, each) for each in args.ref]
    console.note(f"{provider.name}:{provider.model} · /ref REF, /model NAME, /quit")
    while (line := _next_line(console)) is not None:
        word, _, rest = line.partition(" ")
        try:
            if word == "/quit":
                return
            if word == "/ref":
                refs.append(display.resolve(console.relay, rest.strip()))
                console.note(f"{display.short(refs[-1])} will be shown with the next question")
            elif word == "/model":
                provider = chosen_provider(console.relay.transport, rest.strip())
                console.note(f"model: {provider.name}:{provider.model}")
            elif word.startswith("/"):
                raise Invalid(f"unknown command {word}", "commands: /ref REF, /model NAME, /quit")
            elif line:
                console.exit_code = 0
                _answer(args, console, thread, line, refs, provider)
                refs = []
        except RelayError as error:
            console.fail(error)
        except KeyboardInterrupt:
            console.note("interrupted before the first word")


def _next_line(console: Console) -> str | None:
    """Return the next line of input, or None at the end of input or at Ctrl-C."""
    if sys.stdin.isatty() and not console.is_quiet:
        print("> ", end="", file=sys.stderr, flush=True)
    try:
        line = sys.stdin.readline(BUNDLE_USER_BYTES_MAX)
    except KeyboardInterrupt:
        return None
    return line.strip() if line else None
