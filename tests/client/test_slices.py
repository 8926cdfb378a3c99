"""Slice, grep and diff through the clients, blocking and awaited, on every engine and over HTTP."""

from __future__ import annotations

import pytest

from contextrelay import Invalid, NotFound, Relay, RelayError, TooLarge

LOG = b"".join(
    b"%d %s worker %d\n" % (number, b"ERROR" if number % 100 == 0 else b"INFO", number % 7)
    for number in range(1, 20_001)
)


def test_each_way_gives_its_piece(relay: Relay) -> None:
    """Promises L2, L4."""
    log = relay.push(LOG, name="worker.log").ref
    orders = relay.push('{"orders":[{"id":7,"to":"Oslo"}]}', name="orders.json").ref
    table = relay.push("id,city\n0,Oslo\n1,Rome\n", name="t.csv").ref
    prose = relay.push("# One\nfirst\n# Two\nsecond\n", name="p.md").ref
    code = relay.push("class A:\n    def b(self):\n        return 1\n", name="a.py").ref

    assert relay.slice(log, lines="19999:").text == "19999 INFO worker 0\n20000 ERROR worker 1\n"
    assert relay.slice(log, bytes="2:6").text == "INFO"
    assert relay.slice(log, tokens="0:3", tokens_max=10).spent.tokens <= 3
    assert relay.slice(orders, json_pointer="/orders/0/to").text == '"Oslo"'
    assert relay.slice(orders, json_path="$.orders[*].id").text == "/orders/0/id\t7\n"
    assert relay.slice(table, rows="1:2", columns=("city",)).text == "city\nRome\n"
    assert relay.slice(prose, heading="two").text == "# Two\nsecond\n"
    assert relay.slice(code, symbol="A.b").text == "    def b(self):\n        return 1\n"


def test_a_piece_shows_what_it_cost_and_how_to_go_on(relay: Relay) -> None:
    """Promises L2, L5."""
    ref = relay.push(LOG).ref

    piece = relay.slice(ref, lines="1:", tokens_max=50)
    following = relay.slice(ref, **piece.next_args, tokens_max=50)

    assert piece.spent.tokens <= 50 < piece.spent.whole_tokens
    assert piece.spent.tokenizer == "o200k_base"
    assert LOG.decode().startswith(piece.text + following.text)
    assert piece.next == f"relay get {ref[:8]} --lines {piece.next_args['lines']}"


def test_a_wrong_combination_is_refused_everywhere(relay: Relay) -> None:
    """Promise L2."""
    ref = relay.push("x").ref

    with pytest.raises(Invalid):
        relay.slice(ref)
    with pytest.raises(Invalid):
        relay.slice(ref, lines="1:2", bytes="1:2")
    with pytest.raises(Invalid):
        relay.slice(ref, lines="1:2", columns=("a",))
    with pytest.raises(Invalid):
        relay.slice(ref, lines="1:2", tokens_max=1)
    with pytest.raises(Invalid):
        relay.slice(ref, json_pointer="/a")
    with pytest.raises(NotFound):
        relay.slice(relay.push("{}").ref, json_pointer="/a")
    with pytest.raises(TooLarge):
        relay.slice(relay.push("a,b\n" + "x" * 2_000_000, name="t.csv").ref, rows="0:1")


def test_a_pattern_is_found_in_a_ref_a_thread_and_everything(relay: Relay) -> None:
    """Promises L3, L4."""
    log = relay.push(LOG, name="worker.log")
    while relay.push("later").created_at == log.created_at:
        pass  # Equally old ones have no order.
    thread = relay.thread("work")
    inside = thread.put("an ERROR in here\n", name="note.txt")

    one = relay.grep("^500 ERROR", log.ref, context=1)
    here = relay.grep("ERROR", thread=thread.id)
    everywhere = relay.grep("error", ignore_case=True, tokens_max=200)

    assert one.text == "499- 499 INFO worker 2\n500: 500 ERROR worker 3\n501- 501 INFO worker 4\n"
    assert [match.ref for match in here.matches] == [inside.ref]
    assert here.text == f"{inside.ref[:8]} note.txt\n1: an ERROR in here\n"
    assert everywhere.count == 201
    assert everywhere.matches[0].ref == inside.ref
    assert everywhere.next_args["ref"] == log.ref
    assert everywhere.spent.tokens <= 200


def test_two_refs_are_compared(relay: Relay) -> None:
    """Promises L3, L4."""
    old, new = relay.push("a\nb\nc\n").ref, relay.push("a\nB\nc\n").ref

    found = relay.diff(old, f"relay:///pull/{new}", 0)

    assert found.text == f"--- {old[:8]}\n+++ {new[:8]}\n@@ -2 +2 @@\n-b\n+B\n"
    assert (found.added, found.removed, found.is_same) == (1, 1, False)
    assert relay.diff(old, old).is_same


def test_what_is_sealed_is_looked_into_in_the_client(relay: Relay) -> None:
    """Promise L4: on sealed refs it runs in the client."""
    url = relay.push(LOG, name="worker.log", seal=True).url
    new = relay.push(LOG.replace(b"\n500 ERROR", b"\n500 FATAL"), name="worker.log", seal=True).url

    piece = relay.slice(url, lines="500:501")
    found = relay.grep("^500 ", url)
    differing = relay.diff(url, new, 0)

    assert piece.text == found.matches[0].text + "\n" == "500 ERROR worker 3\n"
    assert "sealed" in piece.notes[0]
    assert differing.text.endswith("-500 ERROR worker 3\n+500 FATAL worker 3\n")
    assert "20000 lines" in relay.outline(url).text
    with pytest.raises(RelayError, match="sealed"):
        relay.slice(piece.ref, lines="1:2")
    with pytest.raises(RelayError, match="sealed"):
        relay.outline(piece.ref)
