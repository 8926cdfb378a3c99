"""state header, show, patch, diff, log, restore, compact, adopt: the state of a thread."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from msgspec import Raw
from msgspec.json import decode, encode, format

from contextrelay.cli import display, state_display, thread_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import (
    LIMIT,
    arg,
    arguments,
    author_option,
    one_of,
    thread_arguments,
    thread_option,
    version,
)
from contextrelay.cli.thread_argument import Chosen
from contextrelay.content.untrusted.hidden_chars import spell_hidden
from contextrelay.documents.patch import read_operations
from contextrelay.documents.pointer import find, parse
from contextrelay.documents.values import is_object, read_json
from contextrelay.errors import Conflict, Invalid, NotFound, Refused
from contextrelay.identity import agent_name
from contextrelay.limits import LIST_ITEMS_MAX, STATE_BYTES_MAX
from contextrelay.model.thread import Numbered, Patched
from contextrelay.verbs import ReadHeader, ReadState

_SECTIONS = (
    ("facts", "top_facts", "facts", "•"),
    ("constraints", "top_constraints", "constraints", "•"),
    ("questions", "open_questions", "open_questions", "?"),
    ("next", "next_steps", "plan", "→"),
    ("actions", "last_actions", "last_actions", "·"),
    ("decisions", "top_decisions", "decisions", "✓"),
)
_VERSION_EVENTS = ("state.created", "state.patch.applied")
_CHANGES_SHOWN = 10


@arguments(*thread_arguments("THREAD[@vN]"))
def state_header(args: Namespace, console: Console) -> None:
    """Print the size-limited header of a state, for a prompt. In a pipe, the header is printed as
    exact JSON.
    """
    chosen = _at(console, args, None)
    reply = chosen.thread.ask(ReadHeader(chosen.thread.id, chosen.version))
    raw = bytes(reply.header).decode()
    console.answer(Raw(reply.header), _header_lines(chosen.label, raw), raw)


def _header_lines(label: str, raw: str) -> list[str]:
    header = decode(raw)
    lines = [f"{label} @ v{header['version']} · {display.tokens(len(raw.encode()))}"]
    for name, field, list_name, sign in _SECTIONS:
        items: list[dict[str, Any]] = header.get(field, [])  # Older servers send no decisions.
        total = len(items) + header["omitted"].get(list_name, 0)
        if not items:
            if total:
                lines.append(f"{name:12} {'all left out; see: relay state show':56} (0 of {total})")
            continue
        texts = [f"{sign} {_said(item)}" for item in items]
        lines.append(f"{name:12} {display.filled(texts[0], 56)} ({len(items)} of {total})")
        lines += [f"{'':12} {each}" for each in texts[1:]]
    if header["artifact_refs"]:
        lines.append(f"{'artifacts':12} {' '.join(map(display.short, header['artifact_refs']))}")
    if header["session_summary"]:
        lines.append(f"{'summary':12} {display.clean(header['session_summary'])}")
    return lines


def _said(item: dict[str, Any]) -> str:
    for name in ("description", "question", "step"):
        if name in item:
            more = " (soft)" if item.get("severity") == "soft" else ""
            more += " (in progress)" if item.get("status") == "in_progress" else ""
            return display.cut(display.clean(item[name]), state_display.LINE_CHARS) + more
    text = state_display.text_of(item.get("value"))
    return state_display.key_of(item) + display.cut(text, state_display.LINE_CHARS)


@arguments(
    *thread_arguments("[THREAD][@vN][:/PATH]"),
    arg(
        "--at",
        type=version,
        metavar="vN",
        help="print the state at this version (default: the newest)",
    ),
)
def state_show(args: Namespace, console: Console) -> None:
    """Print a state as JSON, at any version, or print one value in a state."""
    chosen = _at(console, args, args.at)
    raw = chosen.thread.ask(ReadState(chosen.thread.id, chosen.version)).state
    if chosen.pointer:
        try:
            value = find(decode(raw), parse(chosen.pointer))
        except Refused as error:
            raise NotFound(error.message, error.hint) from error
        if isinstance(value, str):
            console.answer(value, spell_hidden(value), value)
            return
        raw = Raw(encode(value))
    human = spell_hidden(format(bytes(raw), indent=2).decode())
    console.answer(raw, human, bytes(raw).decode())


def _at(console: Console, args: Namespace, at: int | None) -> Chosen:
    chosen = thread_argument.choose(console, args)
    if at is not None and chosen.version not in (None, at):
        raise Invalid(
            f"conflicting versions: v{chosen.version} and v{at}",
            "name only one version: THREAD@vN or --at vN",
        )
    return chosen._replace(version=at or chosen.version)


@arguments(
    arg("source", nargs="?", metavar="-", help="read the patch from stdin"),
    one_of(
        arg("--json", dest="document", metavar="PATCH", help="the JSON Patch"),
        arg("--file", metavar="FILE", help="file with the JSON Patch"),
    ),
    thread_option(),
    arg("--expected", type=version, metavar="vN", help="fail if vN is not the newest version"),
    arg(
        "--merge",
        action="store_true",
        help="accept newer versions that changed other parts of the state",
    ),
    author_option("name of the author (default: RELAY_AGENT, or you)"),
)
def state_patch(args: Namespace, console: Console) -> None:
    """Change a state by a JSON Patch (RFC 6902). All operations are applied, or none.

    For JSON output, use relay --json state patch.
    """
    chosen = thread_argument.choose_thread(console, args)
    operations, expected = _patch(args)
    try:
        patched = chosen.thread.patch(operations, args.expected or expected, args.merge, args.by)
    except Conflict as error:
        raise error if console.is_json else _for_people(error) from None
    show_patched(console, chosen, patched, args.by)


def _patch(args: Namespace) -> tuple[Any, int | None]:
    """Return the operations of a patch, and the expected version if the document contains one, else
    None.
    """
    if args.source not in (None, "-") or (args.source and (args.document or args.file)):
        raise Invalid(
            f"unexpected argument {args.source!r}", "use one of --json PATCH, --file FILE or -"
        )
    if args.document is not None and args.document != "-":
        document = read_json(args.document, "the patch")
    else:
        if args.file is None and args.source is None and sys.stdin.isatty():
            raise Invalid("missing patch", "use --json PATCH or --file FILE, or pipe the patch in")
        document = read_json(_bounded(args.file), "the patch")
    if is_object(document) and "operations" in document:
        expected = document.get("expected")
        if expected is not None and type(expected) is not int:
            raise Invalid("`expected` is not a valid version", "use a version number")
        document = document["operations"]
    else:
        expected = None
    read_operations(document)
    return document, expected


def _bounded(file: str | None) -> bytes:
    text = bytearray()
    for chunk in display.read_body(file or "-"):
        text += chunk
        if len(text) > STATE_BYTES_MAX:
            break
    return bytes(text)


def _for_people(error: Conflict) -> Conflict:
    """Return a conflict error that lists the changes since the expected version, as lines for
    people.
    """
    changed: Any = error.details.get("changed") or []
    lines = [f"changed since: {state_display.operation(each)}" for each in changed[:_CHANGES_SHOWN]]
    if len(changed) > _CHANGES_SHOWN:
        lines.append(f"and {len(changed) - _CHANGES_SHOWN} more: see relay state log")
    return Conflict(error.message, "\n  ".join([*lines, error.hint]), error.details)


def show_patched(console: Console, chosen: Chosen, patched: Patched, by: str) -> None:
    """Print the thread, its new version, the change and the command that undoes it."""
    text = f"{chosen.label} v{patched.version}  "
    if not patched.operations:
        text += "unchanged"
    elif not console.is_json:
        before = patched.version - 1
        # The old values are shown, if there are any.
        has_old = any(each["op"] in ("remove", "replace") for each in patched.operations)
        old = chosen.thread.state(before) if has_old else None
        undo = f"undo: relay state restore v{before} -t {chosen.argument}"
        author = display.author(by or agent_name(None))
        text += f"{state_display.patch(old, patched.operations)}  by {author}    {undo}"
    console.confirm_write(patched, text, f"v{patched.version}")


@arguments(
    arg("old", type=version, metavar="vA"),
    arg(
        "new",
        type=version,
        nargs="?",
        metavar="vB",
        help="version to compare with (default: the newest)",
    ),
    thread_option(),
)
def state_diff(args: Namespace, console: Console) -> None:
    """Print the changes from one version of a state to another."""
    chosen = thread_argument.choose_thread(console, args)
    changes = chosen.thread.diff(args.old, args.new)
    lines = [f"{chosen.label} v{changes.old_version} → v{changes.new_version}"]
    if console.is_json:
        console.answer(changes, lines)
        return
    lines += state_display.change(chosen.thread.state(args.old), changes.operations)
    console.answer(changes, lines if changes.operations else [*lines, "no differences"])


@arguments(*thread_arguments(), LIMIT)
def state_log(args: Namespace, console: Console) -> None:
    """List the versions of a state, newest first: time, author, change and checkpoints."""
    chosen = thread_argument.choose_thread(console, args)
    labels: dict[int, list[str]] = {}
    versions: list[Numbered] = []
    before = chosen.view.events
    while before > 0 and len(versions) < args.limit:
        after = max(0, before - LIST_ITEMS_MAX)
        page = chosen.thread.events(after, before - after)
        for each in reversed(page):
            if each.event.type == "checkpoint.created":
                marked = int(each.event.detail.get("version", 0))
                labels.setdefault(marked, []).append(str(each.event.detail.get("label")))
            elif each.event.type in _VERSION_EVENTS:
                versions.append(each)
        before = after
    versions = versions[: args.limit]
    lines = [_version_line(each, labels) for each in versions]
    if versions and _number(versions[-1]) > 1:
        lines.append(f"  more: relay state log --limit {min(args.limit * 5, LIST_ITEMS_MAX)}")
    console.answer([each.event for each in versions], lines)


def _number(numbered: Numbered) -> int:
    return int(numbered.event.detail.get("version", 1))


def _version_line(numbered: Numbered, labels: dict[int, list[str]]) -> str:
    event, number = numbered.event, _number(numbered)
    text = state_display.event(event).removeprefix(f"v{number}").strip() or "created"
    flags = "".join(f"  ⚑ {display.clean(label)}" for label in labels.get(number, ()))
    when = f"{event.at.astimezone():%Y-%m-%d %H:%M:%S}"
    return f"{f'v{number}':6} {when}  {display.filled(display.author(event.by), 10)}  {text}{flags}"


@arguments(
    arg("version", type=version, metavar="vN"),
    thread_option(),
    author_option("name of the author (default: RELAY_AGENT, or you)"),
)
def state_restore(args: Namespace, console: Console) -> None:
    """Restore an earlier version of a state, as a new version."""
    chosen = thread_argument.choose_thread(console, args)
    show_patched(console, chosen, chosen.thread.restore(args.version, args.by), args.by)


@arguments(*thread_arguments(), author_option("name of the author (default: RELAY_AGENT, or you)"))
def state_compact(args: Namespace, console: Console) -> None:
    """Shorten the lists of a state that grow automatically. Earlier versions stay readable."""
    chosen = thread_argument.choose_thread(console, args)
    show_patched(console, chosen, chosen.thread.compact(args.by), args.by)


@arguments(*thread_arguments(), author_option("name of the author (default: RELAY_AGENT, or you)"))
def state_adopt(args: Namespace, console: Console) -> None:
    """Import a manual edit of the state.json that `relay thread files` wrote, as a patch."""
    console.own_address("state.json is stored next to the store")
    chosen = thread_argument.choose_thread(console, args)
    show_patched(console, chosen, chosen.thread.adopt(args.by), args.by)
