"""Clocks: compare the clock of an engine's server with the local one."""

from __future__ import annotations

import time

# The tolerated difference in ms. It matters because each machine that uses an engine expires
# content by its own clock.
CLOCKS_DIFFER_MS_MAX = 60_000


def clock_problems(server_ms: int) -> list[str]:
    """Return a problem if a server's clock differs from the local one, in a list."""
    ahead_ms = server_ms - time.time_ns() // 1_000_000
    if abs(ahead_ms) <= CLOCKS_DIFFER_MS_MAX:
        return []
    how = f"{abs(ahead_ms) // 1000:,} s {'ahead of' if ahead_ms > 0 else 'behind'} the local clock"
    return [f"the clock of the store's server is {how}; synchronize both with NTP"]
