"""Search through the clients: what is found, where, in which order, and what is not."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from contextrelay import Gone, Invalid, NotFound, Relay
from contextrelay.limits import QUERY_CHARS_MAX

ORDERS = """# Orders

An order is kept for seven years.

## Retries

A failed payment is retried five times. After that the order is cancelled and the customer informed.

## Billing

Invoices are sent monthly, by mail.
"""


def test_a_hit_says_where_to_slice_and_the_slice_has_it(relay: Relay) -> None:
    """Promises L3, L4: the ranked search, alike on every leg."""
    ref = relay.push(ORDERS * 3, name="orders.md").ref
    relay.push("nothing of the kind")

    found = relay.search("retry payments")

    hit = found.hits[0]
    assert (hit.ref, hit.name, found.scope) == (ref, "orders.md", "all")
    assert set(hit.why) == {"retry", "payments"}
    assert "retried five times" in hit.snippet
    assert "retried five times" in relay.slice(ref, **hit.next_args).text
    assert found.spent.tokens > 0
    assert found.spent.whole_tokens > 0
    assert ref in found.text
    assert relay.search("nothing such zzz").ignored == ("zzz",)


def test_in_one_ref_the_place_that_has_all_words_as_they_are_comes_first(relay: Relay) -> None:
    """Promise L3: exact words, identifiers and numbers before stems."""
    log = "\n".join(
        f"job {number} on node_{number % 7} took {number * 3} ms" for number in range(900)
    )
    table = "id,city,zip\n" + "".join(f"u{n},Rome,{20_000 + n}\n" for n in range(900))
    ref, rows = relay.push(log, name="a.log").ref, relay.push(table, name="a.csv").ref

    in_log = relay.search("job 431", ref=ref, tokens_max=150)
    in_rows = relay.search("zip u431", ref=rows, tokens_max=150)

    assert in_log.hits[0].snippet == "job 431 on node_4 took 1293 ms"
    assert relay.slice(ref, **in_log.hits[0].next_args).text == "job 431 on node_4 took 1293 ms\n"
    assert in_rows.hits[0].snippet == "row 431: id=u431, city=Rome, zip=20431"


def test_a_search_is_in_one_ref_a_thread_or_everything(relay: Relay) -> None:
    """Promise L3: scope."""
    thread = relay.new_thread()
    inside = thread.put("a needle in the thread").ref
    outside = relay.push("a needle in the hay").ref

    everywhere = relay.search("needle")
    within = relay.search("needle", thread=thread.id)
    one = relay.search("needle", ref=outside)

    assert {hit.ref for hit in everywhere.hits} == {inside, outside}
    assert ([hit.ref for hit in within.hits], within.scope) == ([inside], f"thread {thread.id}")
    assert ([hit.ref for hit in one.hits], one.scope) == ([outside], f"ref {outside}")
    with pytest.raises(NotFound):
        relay.search("needle", thread="00000000-0000-4000-8000-000000000000")
    relay.remove(outside)
    with pytest.raises(Gone):
        relay.search("needle", ref=outside)


def test_the_newer_of_a_name_comes_first_and_the_older_says_so(relay: Relay) -> None:
    """Promise L3: fresh before stale."""
    first = relay.push("the port is 8080, the port, the port", name="notes.md")
    while (second := relay.push("now the port is 9090", name="notes.md")).created_at == (
        first.created_at
    ):
        relay.remove(second.ref)  # In the same millisecond neither is the newer one.
    old, new = first.ref, second.ref

    hits = relay.search("port").hits

    assert [(hit.ref, hit.newer) for hit in hits] == [(new, None), (old, new)]
    relay.remove(new)
    assert [(hit.ref, hit.newer) for hit in relay.search("port").hits] == [(old, None)]


def test_what_is_shown_is_bounded_and_the_rest_is_counted(relay: Relay) -> None:
    """Promise L3."""
    relay.push_many([f"needle number {index}" for index in range(40)])

    found = relay.search("needle", limit=5)
    short = relay.search("needle", limit=50, tokens_max=100)

    assert (len(found.hits), found.found) == (5, 40)
    assert found.left_out == "35 more passages with lower scores"
    assert 1 <= len(short.hits) < 40
    assert short.spent.tokens <= 100
    assert any("100 tokens" in note for note in short.notes)
    for limit in (0, 51):
        with pytest.raises(Invalid):
            relay.search("needle", limit=limit)


def test_any_query_is_text(relay: Relay) -> None:
    """Promise L3: no syntax, no error of the server's."""
    ref = relay.push("plain words, and 更大的 ones").ref
    many = " ".join(f"word{index}" for index in range(1_000))

    for query in (
        '"plain" AND (words OR NOT *)',
        "plain NEAR/2 words^ -x ':; DROP TABLE text",
        "plain \x00\u202e\ufeff words",
        "更大",
        f"plain {many}",
    ):
        assert [hit.ref for hit in relay.search(query).hits] == [ref], query
    for query in ("*", "''", "\n", "\x00", "🙂"):
        assert relay.search(query).hits == []
    with pytest.raises(Invalid, match="query"):
        relay.search("x" * (QUERY_CHARS_MAX + 1))


def test_an_index_that_is_rebuilt_finds_the_same(leg: Callable[..., Relay]) -> None:
    """Promise L3: rebuildable by command."""
    relay = leg()
    relay.push(ORDERS, name="orders.md")
    relay.push(json.dumps([{"id": index, "note": "lorem " * 50} for index in range(30)]))
    before = relay.search("invoices order lorem").hits

    state = relay.rebuild_search()

    assert (state.artifacts, state.waiting, state.is_complete) == (2, 0, True)
    assert relay.search("invoices order lorem").hits == before
