"""Home: what was saved, what is new, and what expires soon."""

from __future__ import annotations

from typing import Any

from contextrelay.errors import Forbidden
from contextrelay.limits import PAGE_EXPIRING_S
from contextrelay.model.savings import Savings, Share
from contextrelay.web.drawing import bars
from contextrelay.web.screen import Done, Screen, Visit
from contextrelay.web.screens.threads import live_among

_NEWEST = 8
_SHARES, _SHARE_ROOM = 10, 150


def home(visit: Visit) -> Screen:
    """The savings of the store, its newest threads and artifacts."""
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


def left(visit: Visit) -> Done:
    """Signing out is done where the cookie is."""
    return Done(to="/ui/")
