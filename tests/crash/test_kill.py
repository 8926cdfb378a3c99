"""SIGKILL: whatever moment a writer dies at, what it was told stays true."""

from __future__ import annotations

import os

import pytest

from tests.crash.killing import kill_rounds

# make crash does thousands; here the rounds are spread over the workers of a test run.
ROUNDS = int(os.environ.get("RELAY_CRASH_ROUNDS", "200"))
SHARDS = 4


@pytest.mark.parametrize("shard", range(SHARDS))
def test_nothing_acknowledged_is_lost_when_writers_are_killed(shard: int) -> None:
    """Promise G1. Bytes, removals, pins and leases survive; a sweep mends what is left over."""
    rounds = -(-ROUNDS // SHARDS)

    tally = kill_rounds(rounds, seed=shard)

    assert tally.rounds == rounds
    assert tally.acknowledged > 5 * rounds, tally
