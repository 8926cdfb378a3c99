"""SIGKILL: whenever a writer dies, what was acknowledged stays true."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.crash.killing import kill_rounds
from tests.rigs import length, rig

# Spread over the workers of a test run.
ROUNDS = length(thin=10, long=200, full=3_000)
SHARDS = length(thin=2, long=4, full=4)


@rig
@pytest.mark.parametrize("shard", range(SHARDS))
def test_nothing_acknowledged_is_lost_when_writers_are_killed(
    shard: int, record_property: Callable[[str, object], None]
) -> None:
    """Promise G1. Bytes, removals, pins and leases survive; a sweep mends what is left over."""
    rounds = -(-ROUNDS // SHARDS)

    tally = kill_rounds(rounds, seed=shard)

    record_property("kills", tally.rounds)
    record_property("acknowledged", tally.acknowledged)
    assert tally.rounds == rounds
    assert tally.acknowledged > 5 * rounds, tally
