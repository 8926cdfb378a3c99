"""Pull rates: what was shown as a ref and then read, by kind and size, decides what is next."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextrelay import Relay
from contextrelay.client.thread import Thread
from contextrelay.content.tokens import count_tokens
from contextrelay.core.stores import Stores
from tests.core.keyed import as_seen_by, owner, stores_of

NAME = "pulls/TOOL/under_1600"


def text(number: int, lines: int = 40) -> str:
    return "\n".join(f"call {number}, line {line}: 200 OK after 31 ms" for line in range(lines))


def add(thread: Thread, number: int, lines: int = 40) -> str:
    fields = {"type": "TOOL", "id": f"tool {number}"}
    return thread.put(text(number, lines), metadata={"block": fields}).ref


def counts(relay: Relay, name: str = NAME) -> dict[str, int]:
    relay.savings()  # Everything that was noted is written before this is answered.
    stores: Stores = stores_of(relay)
    return stores.ledger.tally(name)


def test_what_is_shown_as_a_ref_and_then_read_is_counted_by_kind_and_size() -> None:
    """Promise K6: p1, p2 and L are measured."""
    relay = owner()
    thread = relay.new_thread("work")
    refs = [add(thread, number) for number in range(4)]
    assert 400 < count_tokens(text(0)) < 1_600

    package = thread.pack("calls")
    piece = relay.slice(refs[0], lines="1:5")
    relay.slice(refs[0], lines="5:9")
    thread.pack("calls")
    late = relay.slice(refs[1], lines="1:3")

    assert all(package.why(f"tool {number}").is_digest for number in range(4))
    assert counts(relay) == {
        "shown": 4,
        "at_first_call": 1,
        "later": 1,
        "slice_tokens": piece.spent.tokens + late.spent.tokens,
    }


@pytest.mark.parametrize("is_read", [True, False])
def test_the_choice_follows_what_this_store_measured(is_read: bool) -> None:
    """Promise K6: what is always pulled at once is shown whole, what never is stays a ref."""
    relay = owner()
    thread = relay.new_thread("work")
    small = 20  # Lines: by the prior alone, just large enough for a ref.
    for number in range(30):
        ref = add(thread, number, small)
        thread.pack("calls", 100_000)
        if is_read:
            relay.pull(ref)
        relay.savings()

    package = thread.pack("calls", 100_000)

    tokens = count_tokens(text(0, small))
    assert 250 < tokens < 400
    assert package.why("tool 0").is_digest != is_read
    assert thread.pack("calls", 100_000, prefix_tokens=50_000).why("tool 0").is_digest is False


def test_rates_are_kept_from_one_process_to_the_next(tmp_path: Path) -> None:
    """Promise K6: on disk, and also where the pull comes from another process."""
    place = tmp_path / "store"
    with Relay(place) as relay:
        thread = relay.new_thread("work")
        ref = add(thread, 1)
        thread.pack("calls")
    with Relay(place) as relay:
        relay.pull(ref)
    with Relay(place) as relay:
        assert counts(relay)["at_first_call"] == 1


def test_a_tenant_has_rates_of_its_own() -> None:
    """Promise Z1, of counters."""
    relay = owner()
    tenant = as_seen_by(relay, relay.new_key(tenant="acme").key)
    thread = tenant.new_thread("work")
    add(thread, 1)

    thread.pack("calls")

    assert counts(tenant) == {"shown": 1}
    assert counts(relay) == {}
