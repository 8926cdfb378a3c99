"""Health: what the store holds, what is due, keys and their use, and what the doctor finds."""

from __future__ import annotations

from typing import Any, NamedTuple

from contextrelay.build import build
from contextrelay.cli.commands.doctor import look_at
from contextrelay.client.relay import Relay
from contextrelay.client.transport.local import Local
from contextrelay.errors import Forbidden
from contextrelay.limits import PAGE_KEYS, QUICK_SWEEP_ITEMS
from contextrelay.model.key import Key
from contextrelay.web.screen import Done, Screen, Visit


class _Looked(NamedTuple):
    """What the doctor looks at."""

    relay: Relay
    address: str | None


def health(visit: Visit) -> Screen:
    """Sizes, settings, keys; with `doctor`, what that finds."""
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
        answer["findings"] = look_at(_Looked(visit.relay, visit.address or None))
    return Screen(
        template="health",
        title="Health",
        command="relay doctor",
        answer=answer,
        place="health",
    )


def _settings(visit: Visit) -> Any:
    transport = visit.relay.transport
    return transport.stores.settings if isinstance(transport, Local) and visit.is_admin else None


def _keys(visit: Visit) -> list[dict[str, Any]]:
    """Keys and what was done with each; of the first, where there are many."""
    if not visit.is_admin:
        return []
    listed: list[Key] = _unless_forbidden(lambda: visit.relay.keys(PAGE_KEYS).keys) or []
    return [{"key": key, "usage": visit.relay.usage(key.id)} for key in listed]


def _unless_forbidden(ask: Any) -> Any:
    try:
        return ask()
    except Forbidden:
        return None


def sweep(visit: Visit) -> Done:
    """Expire what is due, a little at a time."""
    visit.relay.sweep(QUICK_SWEEP_ITEMS, is_deep=False)
    return Done(to=visit.link("health"), note="swept")
