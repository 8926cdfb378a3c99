"""Home: what was saved, what is new, and what expires soon."""

from __future__ import annotations

from typing import Any

from contextrelay.doors.page.drawing import bars
from contextrelay.doors.page.screen import Done, Screen, Visit
from contextrelay.doors.page.screens.threads import live_among
from contextrelay.errors import Forbidden
from contextrelay.model.savings import Savings

_NEWEST = 8


def home(visit: Visit) -> Screen:
    """The savings of the store, its newest threads and artifacts."""
    relay = visit.relay
    threads = relay.threads(_NEWEST).threads
    artifacts = relay.list(_NEWEST).artifacts
    answer: dict[str, Any] = {
        "is_empty": not threads and not artifacts,
        "savings": _unless_forbidden(lambda: visit.recent("savings", relay.savings)),
        "store": _unless_forbidden(lambda: visit.recent("survey", relay.survey)),
        "threads": threads,
        "live": live_among(threads),
        "artifacts": artifacts,
        "expiring": [],
    }
    return Screen(
        template="home",
        title="Home",
        command="relay stats --all",
        answer=answer,
        drawn={"chart": _chart(answer["savings"])},
        place="home",
    )


def _chart(savings: Savings | None) -> str:
    if savings is None or not savings.whole.tokens:
        return ""
    return bars(
        (
            ("pasted", savings.whole.tokens, "bad"),
            ("sent", savings.sent.tokens, "good"),
            ("pulled back", savings.pulled_back.tokens, "warn"),
        )
    )


def _unless_forbidden(ask: Any) -> Any:
    """What a key that may not see all is not shown."""
    try:
        return ask()
    except Forbidden:
        return None


def left(visit: Visit) -> Done:
    """Signing out is done where the cookie is."""
    return Done(to="/ui/")
