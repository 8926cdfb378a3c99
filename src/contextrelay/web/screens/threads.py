"""Threads: the list, and the mark of those in which something happens now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from contextrelay.cli import display
from contextrelay.limits import PAGE_LIVE_S, PAGE_ROWS
from contextrelay.model.thread import ThreadView
from contextrelay.web.screen import Screen, Visit


def live_among(threads: Iterable[ThreadView]) -> list[str]:
    """The ids of those that changed just now."""
    now = datetime.now(UTC)
    return [
        each.thread_id for each in threads if (now - each.updated_at).total_seconds() < PAGE_LIVE_S
    ]


def threads(visit: Visit) -> Screen:
    """Threads, newest first, by name, state or agent."""
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
