"""get, grep and diff: read a part of a ref, search in refs, and compare two refs.

Rule: stdout carries only the requested part. stderr carries its size in tokens, what was left
out, and the command that prints the next part.
"""

from __future__ import annotations

import re
from argparse import Namespace
from typing import Any

from contextrelay.cli import display, thread_argument, url_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments, one_of, thread_option
from contextrelay.client.relay import Relay
from contextrelay.errors import Invalid
from contextrelay.limits import GREP_MATCHES_DEFAULT, PIECE_TOKENS_DEFAULT
from contextrelay.model.inspect import Differing, Found
from contextrelay.model.tokens import Spent

_WAYS = ("lines", "bytes", "tokens", "json_pointer", "json_path", "rows", "heading", "symbol")


_MATCH = (
    arg(
        "--context",
        type=int,
        default=0,
        metavar="N",
        help="number of lines to print around each match",
    ),
    arg(
        "--ignore-case",
        action="store_true",
        help="ignore the difference between upper and lower case",
    ),
    arg(
        "--fixed",
        action="store_true",
        help="treat the pattern as plain text, not as a regular expression",
    ),
    arg("--count", action="store_true", help="print the number of matches instead of the matches"),
    arg("--after-line", type=int, default=0, metavar="N", help="print only matches after line N"),
    arg(
        "--matches-max",
        type=int,
        default=GREP_MATCHES_DEFAULT,
        metavar="N",
        help="maximum number of matches to print",
    ),
)


_BUDGET = arg(
    "--tokens-max",
    "--max-tokens",
    type=int,
    metavar="N",
    help=f"maximum size of the answer in tokens (default: {PIECE_TOKENS_DEFAULT:,})",
)


def _tokens_max(args: Namespace) -> int:
    return PIECE_TOKENS_DEFAULT if args.tokens_max is None else args.tokens_max


@arguments(
    arg("ref", metavar="REF", help=url_argument.FROM_STDIN),
    one_of(
        arg("--outline", action="store_true", help="print the outline instead of the content"),
        arg(
            "--digest",
            action="store_true",
            help="print a digest: outline, errors, first and last lines",
        ),
        arg("--lines", metavar="A:B", help="print lines A to B, without B; the first line is 1"),
        arg("--bytes", metavar="A:B", help="print bytes A to B, without B; the first byte is 0"),
        arg("--tokens", metavar="A:B", help="print tokens A to B, without B; the first token is 0"),
        arg(
            "--grep",
            action="append",
            metavar="RE",
            help="print the lines that match a regular expression (RE2); may be repeated",
        ),
        arg(
            "--json-pointer",
            metavar="P",
            help="print the value at a JSON pointer, for example /orders/0/id",
        ),
        arg(
            "--json-path",
            metavar="P",
            help="print the values at a JSONPath (RFC 9535), for example $.orders[*].id",
        ),
        arg("--rows", metavar="A:B", help="print table rows A to B, without B; the first row is 0"),
        arg("--heading", metavar="H", help="print the section with this title, or 'Part > Title'"),
        arg("--symbol", metavar="S", help="print a definition in code: name or Class.name"),
        title="the part to print (choose one)",
    ),
    arg("--columns", metavar="A,B", help="with --rows, print only these columns"),
    *_MATCH,
    _BUDGET,
)
def get(args: Namespace, console: Console) -> None:
    """Print a part of an artifact: lines, bytes, tokens, matches, a JSON value, rows or a
    section.
    """
    relay, ref = _looked_at(console, args.ref)
    if args.grep is not None:
        _show_found(console, _grep(relay, args, args.grep, ref=ref), ref)
        return
    if args.outline or args.digest:
        _show_shape(console, args, relay, ref)
        return
    given = {way: getattr(args, way) for way in _WAYS if getattr(args, way) is not None}
    if not given and args.columns is None:
        name = args.ref if "#" not in args.ref else "-"
        raise Invalid(
            "missing option: choose a part of the ref",
            f"start with its outline: relay get {name} --outline",
        )
    columns = tuple(args.columns.split(",")) if args.columns else ()
    piece = relay.slice(ref, columns=columns, tokens_max=_tokens_max(args), **given)
    lines = [_cost(f"{piece.way.replace('_', ' ')} {piece.at}", piece.spent)]
    following = _next(piece.next, ref)
    _show(console, piece, piece.text, lines, piece.left_out, following, piece.notes)


def _looked_at(console: Console, text: str) -> tuple[Relay, str]:
    """Return the relay and the ref of a REF argument. The key of a URL is kept in the ref and used
    only locally.
    """
    given = url_argument.read(console, text)
    relay, ref = url_argument.resolved(console, given.text)
    return relay, given.keyed(ref)


def _next(following: str, ref: str) -> str:
    """Return the command that prints the next part. If the ref has a key, the command reads the URL
    from stdin.
    """
    bare, key, _ = ref.partition("#")
    if not key or not following:
        return following
    again = re.sub(rf"\b{bare[: display.SHORT_REF_CHARS]}[0-9a-f-]*", "-", following)
    return f"{again}  (with the URL and its key on stdin)"


def _show_shape(console: Console, args: Namespace, relay: Relay, ref: str) -> None:
    asked = {} if args.tokens_max is None else {"tokens_max": args.tokens_max}
    found = relay.outline(ref, **asked) if args.outline else relay.digest(ref, **asked)
    lines = [_cost("outline" if args.outline else "digest", found.spent)]
    following = _next(found.next, ref)
    if found.kind == "binary":
        following = _next(f"relay pull {display.short(ref)} -o FILE", ref)
    _show(console, found, found.text, lines, found.left_out, following, found.notes)


@arguments(
    arg("pattern", metavar="PATTERN", nargs="?", help="a regular expression (RE2)"),
    arg(
        "ref",
        metavar="REF",
        nargs="?",
        help="search only this ref; - reads it from stdin (default: all refs)",
    ),
    arg(
        "-e",
        dest="patterns",
        action="append",
        metavar="RE",
        help="a pattern; may be repeated; REF is then the only other argument",
    ),
    *_MATCH,
    thread_option("search only this thread"),
    _BUDGET,
)
def grep(args: Namespace, console: Console) -> None:
    """Search by regular expression in one ref, in a thread, or in the whole store."""
    patterns, ref_given = _patterns(args)
    if not all(patterns):
        raise Invalid("empty pattern", "use: relay grep PATTERN [REF]")
    if ref_given is not None:
        relay, ref = _looked_at(console, ref_given)
        _show_found(console, _grep(relay, args, patterns, ref=ref), ref)
        return
    chosen = thread_argument.thread_if_named(console, args, with_variable=False)
    thread = chosen.thread.id if chosen else None
    _show_found(console, _grep(console.relay, args, patterns, thread=thread))


def _patterns(args: Namespace) -> tuple[list[str], str | None]:
    """Return the patterns to search for, and the ref. With -e, the only positional argument is the
    ref.
    """
    if not args.patterns:
        if args.pattern is None:
            raise Invalid("missing pattern", "use: relay grep PATTERN [REF]")
        return [args.pattern], args.ref
    if args.ref is not None:
        raise Invalid(
            "too many arguments: with -e only a REF may follow", "use: relay grep -e A -e B REF"
        )
    return args.patterns, args.pattern


def _grep(relay: Relay, args: Namespace, patterns: list[str], **where: Any) -> Found:
    return relay.grep(
        tuple(patterns),
        context=args.context,
        ignore_case=args.ignore_case,
        is_fixed=args.fixed,
        is_count=args.count,
        after_line=args.after_line,
        matches_max=args.matches_max,
        tokens_max=_tokens_max(args),
        **where,
    )


def _show_found(console: Console, found: Found, ref: str = "") -> None:
    least = "" if found.is_complete else "at least "
    shown = display.count(len(found.matches), "match", "matches")
    shown = f"{shown} shown of {least}{found.count:,}"
    if not found.matches:
        shown = f"{least}{display.count(found.count, 'match', 'matches')}"
    skipped = [f"skipped: {each.why}" for each in found.skipped[:_SKIPPED_SHOWN]]
    if len(found.skipped) > _SKIPPED_SHOWN:
        skipped.append(f"skipped {len(found.skipped) - _SKIPPED_SHOWN} more")
    text = found.text or (f"{found.count}\n" if found.count else "")
    notes = (*found.notes, *skipped)
    lines, following = [_cost(shown, found.spent)], _next(found.next, ref)
    _show(console, found, text, lines, found.left_out, following, notes)


_SKIPPED_SHOWN = 3


@arguments(
    arg("old", metavar="OLD"),
    arg("new", metavar="NEW"),
    arg(
        "--context",
        type=int,
        default=3,
        metavar="N",
        help="number of unchanged lines to print around each change",
    ),
    _BUDGET,
)
def diff(args: Namespace, console: Console) -> None:
    """Print the differences between two refs as a unified diff."""
    relay, old = _looked_at(console, args.old)
    other, new = _looked_at(console, args.new)
    if other is not relay:
        raise Invalid(
            "OLD and NEW are in different stores",
            "copy one to the other: relay pull URL | relay push -",
        )
    found = relay.diff(old, new, args.context, _tokens_max(args))
    lines = [_cost(_difference(found), found.spent)]
    _show(console, found, found.text, lines, found.left_out, "", found.notes)


def _difference(found: Differing) -> str:
    if found.is_same:
        return "no differences"
    if not found.is_text:
        return "binary contents differ"
    return f"{display.count(found.added, 'line')} added, {found.removed:,} removed"


def _cost(what: str, spent: Spent) -> str:
    share = f" ({100 * spent.tokens / spent.whole_tokens:.1f} %)" if spent.whole_tokens else ""
    about = "~" if spent.basis == "estimated" else ""
    return f"… {what} · {spent.tokens:,} tok of {about}{spent.whole_tokens:,}{share}"


def _show(
    console: Console,
    value: object,
    text: str,
    lines: list[str],
    left_out: str,
    following: str,
    notes: tuple[str, ...],
) -> None:
    if console.is_json:
        console.answer(value, "")
        return
    console.show(text.removesuffix("\n"))
    lines += [f"  {note}" for note in notes]
    if left_out:
        lines.append(f"  left out: {left_out}")
    if following:
        lines.append(f"  next: {following}")
    console.note("\n".join(lines))
