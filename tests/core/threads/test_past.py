"""States at older versions: the same in whatever order, and by how many, they are asked for."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import to_builtins

from contextrelay import Relay
from contextrelay.core.threads.state import plain_difference

VERSIONS = 60


def test_old_versions_are_the_same_in_any_order_and_by_many_at_once(tmp_path: Path) -> None:
    """Promise T5: those that are kept go on to others, and nobody sees one on its way."""
    chance = random.Random(7)
    with Relay(tmp_path) as relay:
        thread = relay.new_thread("work")
        for number in range(VERSIONS - 1):
            fact = {"id": f"f{number}", "key": "note", "value": f"{number}"}
            steps = [{"op": "add", "path": "/facts/-", "value": fact}]
            if number % 5 == 4:
                steps.append({"op": "replace", "path": "/facts/0/value", "value": f"now {number}"})
            if number % 7 == 6:
                steps.append({"op": "remove", "path": "/facts/1"})
            thread.patch(steps)
        states = {version: thread.state(version) for version in range(1, VERSIONS + 1)}

        def asked(pair: tuple[int, int]) -> None:
            old, new = pair
            wanted = plain_difference(states[old], states[new])
            assert thread.state(old) == states[old]
            assert thread.diff(old, new).operations == to_builtins(wanted)
            assert thread.header(new)["version"] == new

        pairs = [(chance.randint(1, VERSIONS), chance.randint(1, VERSIONS)) for _ in range(200)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(asked, pairs))
