"""Twins for tests of fast paths: two copies of one store, and what a request leaves in each.

A request is sent down one path at the first twin, down another at the second. Afterwards both have
to show the same: replies, state, events, who did it, counters and signals. Ids and times of what
was made since are replaced by names, so that they can be compared.
"""

from __future__ import annotations

import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import force_setattr

from contextrelay import Relay
from contextrelay.client.transport.local import Local, open_stores
from contextrelay.core import Stores
from contextrelay.core.schema import RowKind, walk_facts, walk_logs, walk_rows
from contextrelay.errors import Forbidden, RelayError
from contextrelay.model.key import IssuedKey
from contextrelay.store.ledger import Ledger
from contextrelay.verbs import Push, Stream
from tests.core.keyed import Things, fill

LINES = b"".join(b"line %d of the campaign\n" % number for number in range(4_000))
REMOVED = "removed.txt"
HASH_BYTES = 32
"""Of the event before, at the start of each fact of a chain."""

# Rows of times or of random values, and those that a sweep or a read writes when it likes to.
_PASSING = {
    RowKind.ASKED,
    RowKind.ONCE,
    RowKind.USED,
    RowKind.LINES,
    RowKind.LOOKED,
    RowKind.SNAPSHOT,
    RowKind.KEPT,
    RowKind.READ,
}
# As text, in milliseconds, or counted down in the key of an index.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|(?<!\d)(?:1[78]\d{11}|98\d{12})(?!\d)")
# Of things, also in short, and of keys.
_ID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?<![0-9a-f-])[0-9a-f]{8}(?:[0-9a-f]{4})?(?![0-9a-f-])"
)
_HASH = re.compile(
    r"(?<![0-9a-f])(?:[0-9a-f]{64}-[0-9a-f]{16,32}|(?:[0-9a-f]{16}){1,4})(?![0-9a-f])"
)
_TOOK = re.compile(r'\\?"duration_ms\\?":\d+')
_DAY = re.compile(r"(i/a/)\d{5}$")
_CHAINED = re.compile(r"(?:x/[^/]+/)?[at]/")


class Template(Struct, frozen=True):
    """A store to be copied: what is in it, and the keys of its callers."""

    home: Path
    things: Things
    keys: dict[str, IssuedKey]
    refs: dict[str, str]
    """Of artifacts by what they are."""

    def twin(self, name: str) -> Path:
        """Return the folder of a fresh copy."""
        home = self.home.parent / name
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(self.home, home)
        return home

    def known(self) -> set[str]:
        """Return the ids that both twins have from the beginning."""
        things = (self.things.thread, self.things.handoff, self.things.ref)
        return {*things, *self.refs.values(), *(made.key.id for made in self.keys.values())}


def make_template(home: Path) -> Template:
    with Relay(home) as relay:
        keys = {
            "writer": relay.new_key(name="writer", scope="write"),
            "reader": relay.new_key(name="reader", scope="read"),
            "limited": relay.new_key(name="limited", scope="write", channels=("war",)),
            "short": relay.new_key(name="short", scope="write", quota_bytes=3_000),
            "tenant": relay.new_key(name="tenant", scope="write", tenant="acme"),
        }
        things = fill(relay, keys["writer"])
        refs = {
            "text": relay.push("plain text", name="a.txt").ref,
            "binary": relay.push(bytes(range(256)) * 4).ref,
            "json": relay.push({"a": [1, 2, {"b": None}]}, metadata={"n": 1}).ref,
            "lines": relay.push(LINES, name="lines.log").ref,
            "removed": relay.push("soon gone", name=REMOVED).ref,
            "hidden": relay.push("in a channel", channel="war room").ref,
        }
        relay.remove(refs["removed"])
        as_tenant = Local(relay.transport.stores).with_permissions_of(keys["tenant"].key)
        refs["foreign"] = as_tenant.ask(Push(), b"of the tenant").ref
    return Template(home, things, keys, refs)


class Fate:
    """The time and the random bytes of stores: the same in each twin, for each request."""

    def __init__(self, *twins: Stores) -> None:
        for stores in twins:
            force_setattr(stores, "now_ms", lambda: self._now_ms)
            force_setattr(stores, "random_bytes", partial(self._draw, stores))
        self._drawn: dict[int, random.Random] = {}
        self.turn(0)

    def turn(self, number: int) -> None:
        """Begin the request with a number."""
        self._now_ms = _BEGIN_MS + 1_000 * number
        self._drawn.clear()

    def _draw(self, stores: Stores, count: int) -> bytes:
        return self._drawn.setdefault(id(stores), random.Random(self._now_ms)).randbytes(count)


_BEGIN_MS = time.time_ns() // 1_000_000 + 600_000


class Plain:
    """Replaces ids and times that are not the same in twins."""

    def __init__(self, known: set[str]) -> None:
        self._known = known

    def text(self, text: str) -> str:
        text = _HASH.sub("HASH", _DAY.sub(r"\1DAY", text))
        text = _ID.sub(lambda found: found[0] if found[0] in self._known else "ID", text)
        return _TOOK.sub("duration", _TIME.sub("TIME", text))

    def reply(self, reply: Any) -> Any:
        """Return a reply, with the bytes of its body, as it is compared."""
        if isinstance(reply, Forbidden):
            return "Forbidden"  # A server may refuse before it knows all of what is asked.
        if isinstance(reply, RelayError):
            return type(reply).__name__, self.text(reply.message)
        if isinstance(reply, Stream):
            stream = cast("Stream[Any]", reply)
            return self.reply(stream.value), self.text(stream.whole().decode("latin-1"))
        # Things that were made in the same millisecond come in the order of their random ids.
        return Counter(self._leaves(decode(encode(reply))))

    def _leaves(self, value: Any, place: str = "") -> Iterator[str]:
        """Yield the values in a JSON value, line by line, each with its place."""
        if isinstance(value, dict):
            for name, each in cast("dict[str, Any]", value).items():
                yield from self._leaves(each, f"{place}/{self.text(name)}")
        elif isinstance(value, list):
            yield place
            for each in cast("list[Any]", value):
                yield from self._leaves(each, f"{place}/-")
        elif place.endswith("/duration_ms"):
            yield place
        else:
            yield from (f"{place} {line}" for line in self.text(str(value)).splitlines() or [""])


def left_in(home: Path, known: set[str]) -> dict[str, Any]:
    """Return all that a store holds, with ids and times replaced."""
    stores = open_stores(home, None)
    try:
        return held_in(stores.ledger, known)
    finally:
        stores.close()


def held_in(ledger: Ledger, known: set[str]) -> dict[str, Any]:
    """Return all that a ledger holds, with ids and times replaced."""
    plain = Plain(known)
    found: Counter[str] = Counter()
    for log in walk_logs(ledger, ""):
        name = plain.text(log)
        chained = HASH_BYTES if _CHAINED.match(log) else 0
        for fact in walk_facts(ledger, log):
            found[f"{name}: {plain.text(_shown(fact.body[chained:]))}"] += 1
        for kind in ledger.kinds(log):
            if kind in _PASSING:
                continue
            for row in walk_rows(ledger, log, kind):
                shown = plain.text(f"{row.key} {_shown(row.body or b'')}")
                found[f"{name} {kind} {shown}"] += 1
    counters = {plain.text(name): ledger.tally(name) for name in ledger.tallies()}
    return {"held": found, "counters": counters}


def _shown(body: bytes) -> str:
    """Return a fact or a row as it is compared: JSON with its hashes, else what it says."""
    try:
        value = decode(body)
    except ValueError:
        return body.decode("latin-1")
    return encode(value, order="deterministic").decode()
