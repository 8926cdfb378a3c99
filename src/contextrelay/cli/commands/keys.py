"""keys new, list, revoke, usage: the keys of a server, their scopes and their usage."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError, Namespace
from datetime import UTC, datetime

from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments, integer_between, ttl
from contextrelay.errors import Invalid
from contextrelay.limits import KEY_RATE_MAX, LIST_ITEMS_MAX, NUMBER_MAX
from contextrelay.model.key import Key, Usage

SCOPES = ("read", "write", "admin")
_ID = re.compile(r"[0-9a-f]{12}")
_UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(rf"([0-9]{{1,15}})\s?({'|'.join(_UNITS)})", re.ASCII)


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None or int(match[1]) * _UNITS[match[2]] > NUMBER_MAX:
        raise ArgumentTypeError(
            f"invalid size {text!r}: use a number and a unit, for example 500kB, 20MB or 1GB"
        )
    return int(match[1]) * _UNITS[match[2]]


_RATE = integer_between(
    1, KEY_RATE_MAX, f"is not a valid number of requests: use 1 to {KEY_RATE_MAX:,}"
)


@arguments(
    arg("--name", metavar="NAME", help="a label for the key"),
    arg(
        "--scope",
        choices=SCOPES,
        default="write",
        help="what the key allows (default: write, which includes read)",
    ),
    arg(
        "--tenant",
        metavar="NAME",
        help="tenant of the key; a tenant sees only the content of that tenant",
    ),
    arg(
        "--threads",
        action="append",
        default=[],
        metavar="PREFIX",
        help="allow only threads with this name prefix or id; may be repeated",
    ),
    arg(
        "--channels",
        action="append",
        default=[],
        metavar="PREFIX",
        help="allow only channels with this name prefix; may be repeated",
    ),
    arg(
        "--ttl",
        type=ttl,
        default=None,
        metavar="TIME",
        help="time until expiry: 90s, 30m, 24h or 7d (default: no expiry)",
    ),
    arg(
        "--quota",
        type=_size,
        metavar="SIZE",
        help="total size that may be pushed with the key, for example 1GB",
    ),
    arg("--rate", type=_RATE, metavar="N", help="maximum number of requests per minute"),
)
def keys_new(args: Namespace, console: Console) -> None:
    """Create a key and print its token once. Only a hash of the token is stored.

    A key that is limited to some threads or channels can neither read nor change anything else.
    """
    made = console.relay.new_key(
        name=args.name,
        scope=args.scope,
        tenant=args.tenant,
        threads=tuple(args.threads),
        channels=tuple(args.channels),
        ttl_s=args.ttl,
        quota_bytes=args.quota,
        requests_per_minute=args.rate,
    )
    lines = [
        made.token,
        f"  {_about(made.key)}",
        "  it is not shown again; the client sets: export CONTEXTRELAY_API_KEY=TOKEN",
    ]
    console.answer(made, lines, made.token)


def keys_list(args: Namespace, console: Console) -> None:
    """List keys, including revoked and expired ones; tokens are not stored."""
    found = _all(console)
    lines = [_about(key) for key in found] or ["no keys yet", "  next: relay keys new"]
    console.answer({"keys": found}, lines, "\n".join(key.id for key in found))


def _all(console: Console) -> list[Key]:
    page = console.relay.keys(LIST_ITEMS_MAX)
    found = page.keys
    while page.next:
        page = console.relay.keys(LIST_ITEMS_MAX, page.next)
        found += page.keys
    return found


def _about(key: Key) -> str:
    parts = [key.id, key.scope]
    if key.tenant is not None:
        parts.append(f"of {key.tenant}")
    parts += [f"threads {display.clean(each)}…" for each in key.threads]
    parts += [f"channels {display.clean(each)}…" for each in key.channels]
    if key.quota_bytes is not None:
        parts.append(f"quota {display.size(key.quota_bytes)}")
    if key.requests_per_minute is not None:
        parts.append(f"{key.requests_per_minute:,} requests/min")
    parts.append(_state(key))
    return "  ".join([*parts, *([display.clean(key.name)] if key.name else [])])


def _state(key: Key) -> str:
    if key.revoked_at is not None:
        return f"revoked {display.age(key.revoked_at)}"
    if key.expires_at is None:
        return "no expiry"
    left_s = (key.expires_at - datetime.now(UTC)).total_seconds()
    return f"expires in {display.span(left_s)}" if left_s > 0 else "expired"


@arguments(arg("id", metavar="ID", help="id of the key, as shown by relay keys list"))
def keys_revoke(args: Namespace, console: Console) -> None:
    """Revoke a key on every server at once, and close the connections that use the key."""
    key = console.relay.revoke_key(_id(args.id))
    console.answer(key, f"revoked {key.id}", key.id)


def _id(text: str) -> str:
    """Return a key id as typed.

    Raises:
        Invalid: the id is malformed.
    """
    if not _ID.fullmatch(text):
        raise Invalid(f"invalid key id {text[:80]!r}", "see: relay keys list")
    return text


@arguments(arg("id", nargs="?", metavar="ID", help="id of the key to show (default: all keys)"))
def keys_usage(args: Namespace, console: Console) -> None:
    """Show how much each key has been used. Servers record the usage every second."""
    ids = [_id(args.id)] if args.id else [key.id for key in _all(console)]
    found = [console.relay.usage(each) for each in ids]
    lines = [_used(each) for each in found] or ["no keys yet", "  next: relay keys new"]
    console.answer({"usage": found}, lines, "\n".join(_used(each) for each in found))


def _used(usage: Usage) -> str:
    quota = "" if usage.quota_bytes is None else f" of {display.size(usage.quota_bytes)}"
    last = "never used" if usage.last_used_at is None else f"used {display.age(usage.last_used_at)}"
    parts = [
        usage.id,
        display.count(usage.requests, "request"),
        f"in {display.size(usage.bytes_in)}",
        f"out {display.size(usage.bytes_out)}",
        f"pushed {display.size(usage.pushed_bytes)}{quota}",
        last,
    ]
    return "  ".join(parts)
