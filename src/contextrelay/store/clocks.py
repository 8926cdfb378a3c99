"""Clocks: that of an engine's server, against ours."""

from __future__ import annotations

import time

# Of two machines over one engine: what expires does so by the clock of the one who looks.
CLOCKS_DIFFER_MS_MAX = 60_000


def clock_problems(server_ms: int) -> list[str]:
    """What is wrong with a server's clock, if anything: what expires does so by ours."""
    ahead_ms = server_ms - time.time_ns() // 1_000_000
    if abs(ahead_ms) <= CLOCKS_DIFFER_MS_MAX:
        return []
    how = f"{abs(ahead_ms) // 1000:,} s {'ahead of' if ahead_ms > 0 else 'behind'} this one's"
    return [f"the clock of the store's server is {how}; set both by NTP"]
