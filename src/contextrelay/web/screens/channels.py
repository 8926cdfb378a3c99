"""Channels: the list, and one of them live, from any point on."""

from __future__ import annotations

from urllib.parse import urlencode

from contextrelay.cli import display
from contextrelay.errors import Invalid
from contextrelay.limits import PAGE_ROWS, PAGE_SIGNALS
from contextrelay.model.artifact import moment
from contextrelay.web.screen import Done, Screen, Visit


def channels(visit: Visit) -> Screen:
    """Channels, by name."""
    listing = visit.relay.channels(PAGE_ROWS, visit.text("after"))
    return Screen(
        template="channels",
        title="Channels",
        command="relay channels",
        answer={"channels": listing.channels, "next": listing.next},
        place="channels",
    )


def channel(visit: Visit) -> Screen:
    """The signals of a channel after a point, oldest first; the newest unless one is given."""
    name = visit.text("name")
    if not name:
        raise Invalid("no channel is named", "choose one: /ui/channels")
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
        drawn={"times": {each.seq: moment(each.ts) for each in page.signals}},
        place="channels",
    )


def publish(visit: Visit) -> Done:
    """Send a message to a channel."""
    name, message = visit.text("name"), visit.text("message")
    if not message.strip():
        raise Invalid("the message is empty", "write something")
    visit.relay.once(visit.once).publish(name, message, visit.by)
    return Done(to=visit.link(f"channel?{urlencode({'name': name})}"), note="published")
