"""Complaints: what is wrong with the values of a verb, said so that one knows which and why."""

from __future__ import annotations

from typing import Any

from contextrelay.errors import Invalid
from contextrelay.wire.verbs import Verb


def wrong(verb: type[Verb[Any]], complaint: str) -> Invalid:
    """Say which field is wrong, and how: `ttl_s: expected int >= 1`."""
    reason, _, place = complaint.replace("`", "").partition(" - at $.")
    what = place.partition("[")[0] or verb.__name__.lower()
    return Invalid(f"{what}: {reason[:1].lower()}{reason[1:]}", takes(verb))


def takes(verb: type[Verb[Any]]) -> str:
    return f"{verb.__name__} takes {', '.join(verb.__struct_fields__) or 'nothing'}"
