"""Screens of lists: home, threads, search, channels, handoffs and health."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from contextrelay.build import build
from contextrelay.cli import display
from contextrelay.cli.commands.doctor import run_checks
from contextrelay.client.flow import run
from contextrelay.client.names import find_ref
from contextrelay.client.relay import Relay
from contextrelay.client.transport.local import Local
from contextrelay.errors import Forbidden, Invalid, NotFound
from contextrelay.limits import (
    LABEL_CHARS_MAX,
    PAGE_GRAPH_NODES_MAX,
    PAGE_PIECE_TOKENS,
    PAGE_ROWS,
    QUICK_SWEEP_ITEMS,
)
from contextrelay.model.artifact import from_ms
from contextrelay.model.handoff import HandoffLine
from contextrelay.model.key import Key
from contextrelay.model.reports import Savings, Share
from contextrelay.model.thread import ThreadView
from contextrelay.web.rendering import Box, Edge, bars, graph, rows_of
from contextrelay.web.screen import Done, PageVisit, Screen

# Seconds: a thread whose last event is at most this old is marked as live.
PAGE_LIVE_S = 60
PAGE_HITS = 25
PAGE_GRAPH_EDGES = 120
# The number of signals of a channel per screen.
PAGE_SIGNALS = 200
# Seconds: artifacts that expire within this time are listed as expiring soon.
PAGE_EXPIRING_S = 6 * 3600
PAGE_KEYS = 50


_NEWEST = 8
_SHARES, _SHARE_ROOM = 10, 150


def home(visit: PageVisit) -> Screen:
    """Show the savings of the store, and its newest threads and artifacts."""
    relay = visit.relay
    threads = relay.threads(_NEWEST).threads
    artifacts = relay.list(_NEWEST).artifacts
    answer: dict[str, Any] = {
        "is_empty": not threads and not artifacts,
        "savings": None,
        "store": None,
        "is_limited": False,
        "threads": threads,
        "live": live_among(threads),
        "artifacts": artifacts,
        "expiring": relay.list(_NEWEST, expires_in_s=PAGE_EXPIRING_S).artifacts,
    }
    try:
        answer["savings"] = visit.recent("savings", relay.savings)
        answer["store"] = visit.recent("survey", relay.survey)
    except Forbidden:
        answer["is_limited"] = True
    return Screen(
        template="home",
        title="Home",
        command="relay stats --all",
        answer=answer,
        drawn={"charts": _charts(answer["savings"])},
        place="home",
    )


def _charts(savings: Savings | None) -> dict[str, str]:
    if savings is None or not savings.whole.tokens:
        return {}
    whole = bars(
        (
            ("pasted", savings.whole.tokens, "bad"),
            ("sent", savings.sent.tokens, "good"),
            ("pulled back", savings.pulled_back.tokens, "warn"),
        )
    )
    shares = {
        "day": savings.by_day[-_SHARES:],
        "agent": savings.by_agent[:_SHARES],
        "source": savings.by_source[:_SHARES],
    }
    return {"": whole} | {name: _by(each) for name, each in shares.items() if each}


def _by(shares: list[Share]) -> str:
    rows = [(each.name, each.net, "bad" if each.net < 0 else "good") for each in shares]
    return bars(rows, _SHARE_ROOM)


def left(visit: PageVisit) -> Done:
    """Sign out. The caller deletes the cookie."""
    return Done(to="/ui/")


def live_among(threads: Iterable[ThreadView]) -> list[str]:
    """Return the ids of the threads that changed recently."""
    now = datetime.now(UTC)
    return [
        each.thread_id for each in threads if (now - each.updated_at).total_seconds() < PAGE_LIVE_S
    ]


def threads(visit: PageVisit) -> Screen:
    """List threads, newest first, filtered by name, state or agent."""
    fields = {"text": "text", "state": "status", "agent": "agent"}
    asked = {fields[name]: given for name in fields if (given := visit.text(name).strip())}
    listing = visit.relay.threads(PAGE_ROWS, visit.text("after"), **asked)  # pyright: ignore[reportArgumentType] (checked there)
    options = [f"--{name} {display.quoted(given)}" for name, given in asked.items()]
    return Screen(
        template="threads",
        title="Threads",
        command=" ".join(["relay thread list", *options]),
        answer={
            "threads": listing.threads,
            "next": listing.next,
            "live": live_among(listing.threads),
            "is_filtered": bool(asked),
        },
        place="threads",
    )


_THREADS = 10
# Matches the end of a text that is a ref, the beginning of a ref, or a URL.
_REF = re.compile(r"(^|/)[0-9a-f-]{6,}(#|$)")


def search(visit: PageVisit) -> Screen:
    """Search passages by words, threads by name, and artifacts by the beginning of a ref."""
    words, kind = visit.text("q").strip(), visit.text("type")
    command = f"relay search {display.quoted(words)}" if words else "relay search WORDS"
    answer: dict[str, Any] = {
        "words": words,
        "hits": None,
        "types": {},
        "threads": [],
        "ref": "",
        "type": kind,
    }
    if words:
        hits = visit.relay.search(words, limit=PAGE_HITS, tokens_max=PAGE_PIECE_TOKENS)
        answer |= {
            "hits": hits,
            "types": dict(Counter(each.type for each in hits.hits).most_common()),
            "threads": _named(visit, words),
            "ref": _ref(visit, words),
        }
    return Screen(template="search", title="Search", command=command, answer=answer, place="search")


def _named(visit: PageVisit, words: str) -> list[ThreadView]:
    """Return the threads whose name contains the words or whose id begins with them."""
    if len(words) > LABEL_CHARS_MAX:
        return []
    return visit.relay.threads(_THREADS, text=words).threads


def _ref(visit: PageVisit, words: str) -> str:
    if not _REF.search(words):
        return ""
    try:
        return run(visit.relay.transport, find_ref(words, display.DOOR))
    except (Invalid, NotFound):
        return ""


def channels(visit: PageVisit) -> Screen:
    """List channels by name."""
    listing = visit.relay.channels(PAGE_ROWS, visit.text("after"))
    return Screen(
        template="channels",
        title="Channels",
        command="relay channels",
        answer={"channels": listing.channels, "next": listing.next},
        place="channels",
    )


def channel(visit: PageVisit) -> Screen:
    """Show the signals of a channel after a sequence number, oldest first. By default, show the
    newest.
    """
    name = visit.text("name")
    if not name:
        raise Invalid("missing channel name", "choose a channel: /ui/channels")
    head = visit.relay.signals(name).head
    after = visit.number("after", max(0, head - PAGE_ROWS))
    page = visit.relay.signals(name, after, PAGE_SIGNALS)
    last = page.signals[-1].seq if page.signals else after
    return Screen(
        template="channel_signals" if visit.part == "signals" else "channel",
        title=name,
        command=f"relay subscribe {display.quoted(name)} --since {after}",
        answer={
            "channel": name,
            "head": page.head,
            "after": after,
            "signals": page.signals,
            "gap": page.gap,
            "earlier": max(0, after - PAGE_ROWS),
            "later": last if last < page.head and page.signals else 0,
        },
        drawn={"times": {each.seq: from_ms(each.ts) for each in page.signals}},
        place="channels",
    )


def publish(visit: PageVisit) -> Done:
    """Send a message to a channel."""
    name, message = visit.text("name"), visit.text("message")
    if not message.strip():
        raise Invalid("empty message", "write a message")
    visit.relay.once(visit.once).publish(name, message, visit.by)
    return Done(to=visit.link(f"channel?{urlencode({'name': name})}"), note="published")


def handoffs(visit: PageVisit) -> Screen:
    """List handoffs, newest first, with a graph of them."""
    to, is_open = visit.text("to") or None, visit.text("open") == "on"
    listing = visit.relay.handoffs(to, None, is_open, PAGE_ROWS, visit.text("after"))
    return Screen(
        template="handoffs",
        title="Handoffs",
        command="relay handoff list",
        answer={
            "handoffs": listing.handoffs,
            "next": listing.next,
            "is_filtered": bool(to or is_open),
        },
        drawn={"picture": _graph(visit, listing.handoffs)},
        place="handoffs",
    )


def _graph(visit: PageVisit, lines: list[HandoffLine]) -> str:
    """Return a graph of the agents and the number of handoffs between them, as SVG. If there are
    many, only the busiest agents are drawn.
    """
    given = Counter((each.giver, each.to) for each in reversed(lines)).most_common(PAGE_GRAPH_EDGES)
    agents = list(dict.fromkeys(agent for pair, _ in given for agent in pair))
    agents = agents[:PAGE_GRAPH_NODES_MAX]
    pairs = [(pair, times) for pair, times in given if set(pair) <= set(agents)]
    if not pairs:
        return ""
    edges = [Edge(giver, to, str(times), min(6, times)) for (giver, to), times in pairs]
    boxes = {agent: Box(agent, "", visit.link(f"handoffs?to={agent}")) for agent in agents}
    return graph(rows_of(agents, [pair for pair, _ in pairs]), boxes, edges)


def handoff(visit: PageVisit) -> Screen:
    """Show a handoff: its task, its package with the reason for each block, and its refs."""
    ref = visit.ref()
    view = visit.relay.handoff(ref)
    return Screen(
        template="handoff",
        title=f"Handoff {display.short(ref)}",
        command=f"relay handoff show {display.short(ref)} --why",
        answer={"view": view},
        place="handoffs",
    )


class _CheckTarget(NamedTuple):
    """The relay and address that the checks of `relay doctor` use."""

    relay: Relay
    address: str | None


def health(visit: PageVisit) -> Screen:
    """Show sizes, settings and keys. If the query has `doctor`, also show its findings."""
    answer: dict[str, Any] = {
        "store": None,
        "is_limited": False,
        "address": visit.address,
        "settings": _settings(visit),
        "keys": _keys(visit),
        "build": build(),
        "is_owner": visit.is_own,
        "findings": [],
    }
    try:
        answer["store"] = visit.recent("survey", visit.relay.survey)
    except Forbidden:
        answer["is_limited"] = True
    if visit.is_own and visit.text("doctor"):
        answer["findings"] = run_checks(_CheckTarget(visit.relay, visit.address or None))
    return Screen(
        template="health",
        title="Health",
        command="relay doctor",
        answer=answer,
        place="health",
    )


def _settings(visit: PageVisit) -> Any:
    transport = visit.relay.transport
    return transport.stores.settings if isinstance(transport, Local) and visit.is_admin else None


def _keys(visit: PageVisit) -> list[dict[str, Any]]:
    """Return the first keys with their usage."""
    if not visit.is_admin:
        return []
    listed: list[Key] = _unless_forbidden(lambda: visit.relay.keys(PAGE_KEYS).keys) or []
    return [{"key": key, "usage": visit.relay.usage(key.id)} for key in listed]


def _unless_forbidden(ask: Any) -> Any:
    try:
        return ask()
    except Forbidden:
        return None


def sweep(visit: PageVisit) -> Done:
    """Delete some of the expired artifacts."""
    visit.relay.sweep(QUICK_SWEEP_ITEMS, is_deep=False)
    return Done(to=visit.link("health"), note="swept")
