"""Events: facts in a log, each chained to the one before by its hash."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

CREATED = "state.created"
"""A state's first version; `detail` holds `state`."""
PATCHED = "state.patch.applied"
"""A state's next version; `detail` holds `version`, `operations` as they were done, `metrics`."""

CALLED = "capability.called"
"""A capability is about to run: one hop. `detail` holds `capability`, `cache_key`."""
INVOKED = "capability.invoked"
"""A capability's result is there; if `detail` says `cache_hit`, it was cached: a hop as well."""
FAILED = "capability.failed"
"""A capability that was called brought no result; `detail` holds `error`."""


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened, told by whom and when.

    `id` is made by the writer: after a lost reply it shows whether the write was done.
    """

    id: str
    type: str
    at: datetime
    by: str
    detail: dict[str, Any] = {}
    hash: str = ""
    """Of this event and, through the one before, of all before it; set when it is read."""
