"""Threads: the list, and the mark of those in which something happens now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from contextrelay.doors.page.screen import Screen, Visit
from contextrelay.limits import LIST_ITEMS_MAX, PAGE_LIVE_S, PAGE_ROWS
from contextrelay.model.thread import ThreadView


def live_among(threads: Iterable[ThreadView]) -> list[str]:
    """The ids of those that changed just now."""
    now = datetime.now(UTC)
    return [
        each.thread_id for each in threads if (now - each.updated_at).total_seconds() < PAGE_LIVE_S
    ]


def threads(visit: Visit) -> Screen:
    """Threads, newest first; of those that are filtered, what is among the newest thousand."""
    text, state, agent = (visit.text(name).strip() for name in ("text", "state", "agent"))
    is_filtered = bool(text or state or agent)
    after, looked_at = visit.text("after"), 0
    if is_filtered:
        listing = visit.relay.threads(LIST_ITEMS_MAX, after)
        looked_at = len(listing.threads)
        found = [each for each in listing.threads if _fits(each, text, state, agent)]
        shown, next_after = found[:PAGE_ROWS], listing.next
    else:
        listing = visit.relay.threads(PAGE_ROWS, after)
        shown, next_after = listing.threads, listing.next
    return Screen(
        template="threads",
        title="Threads",
        command="relay thread list",
        answer={
            "threads": shown,
            "next": next_after,
            "live": live_among(shown),
            "is_filtered": is_filtered,
            "looked_at": looked_at,
        },
        place="threads",
    )


def _fits(view: ThreadView, text: str, state: str, agent: str) -> bool:
    return (
        (text.lower() in (view.name or "").lower() or view.thread_id.startswith(text.lower()))
        and (not state or view.status == state)
        and agent.lower() in view.created_by.lower()
    )
