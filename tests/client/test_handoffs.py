"""Packages and handoffs through the clients: given, heard of, taken, explained, and given back."""

from __future__ import annotations

import hashlib
import time

import pytest
from msgspec import to_builtins
from msgspec.json import decode, encode

from contextrelay import BudgetTooSmall, Conflict, Invalid, NotFound, Refused, Relay
from contextrelay.client.thread import Thread
from contextrelay.content.tokens import count_tokens
from contextrelay.model.handoff import HANDOFF_MEDIA_TYPE, Handoff
from contextrelay.model.package import Block
from tests.store.waiting import until


def some_thread(relay: Relay) -> Thread:
    thread = relay.new_thread("orders", by="planner")
    thread.patch(
        [
            {"op": "add", "path": "/facts/-", "value": fact}
            for fact in (
                {"id": "f1", "key": "database", "value": "orders live in PostgreSQL 16"},
                {"id": "f2", "key": "office", "value": "the office closes at six"},
            )
        ]
        + [
            {
                "op": "add",
                "path": "/constraints/-",
                "value": {"id": "c1", "description": "no network", "severity": "hard"},
            }
        ]
    )
    return thread


def test_a_thread_is_packed_within_its_budget_with_reasons(relay: Relay) -> None:
    """Promises K5, A5: state and blocks are in it, of an artifact only its outline and ref."""
    thread = some_thread(relay)
    secret = "a line of a long report that nobody asked for\n" * 400
    report = thread.put(f"# Report\n\n{secret}", name="report.md")
    thread.put("Use JSONB for the database.", metadata={"block": {"type": "USER", "id": "u1"}})

    package = thread.pack("which database is it", budget_tokens=150)

    kept = {block.id: block for block in package.blocks}
    assert {"constraints/c1", "facts/f1", "u1"} <= set(kept)
    assert count_tokens(package.text) <= package.total_tokens <= 150
    assert "database" in package.why("facts/f1").words
    assert package.why("constraints/c1").because == "system"
    every = kept | {block.id: block for block in package.dropped}
    assert report.ref in every[f"artifacts/{report.ref}"].content
    assert count_tokens(every[f"artifacts/{report.ref}"].content) < 300


def test_blocks_are_added_and_the_least_relevant_pruned(relay: Relay) -> None:
    """Promise K3: at 90 % down to 80 % of the budget, recoverable; asked again, the same."""
    thread = some_thread(relay)
    blocks = [Block(f"b{n}", f"note {n} of the database " + "words " * 30) for n in range(4)]
    office = Block("b9", "the office plants " + "grow " * 60, group="talk", references=("x",))

    made = thread.once("add").add_blocks([*blocks, office], by="planner")
    again = thread.once("add").add_blocks([*blocks, office], by="planner")
    roomy = thread.prune("database", 5_000)
    pruned = thread.once("prune").prune("database", 240, by="planner")

    assert [each.ref for each in made] == [each.ref for each in again]
    assert relay.pull(made[-1].ref) == office.content.encode()
    assert roomy.pruned == []
    assert made[-1].ref in {each.ref for each in pruned.pruned}
    assert pruned.kept_tokens <= 0.8 * 240
    assert thread.once("prune").prune("database", 240, by="planner").pruned == pruned.pruned
    left = thread.pack("database", 5_000)
    assert "b9" not in {block.id for block in left.blocks}
    assert len(left.blocks) == 8 - len(pruned.pruned)
    assert thread.state()["pruned"] == [to_builtins(each) for each in pruned.pruned]


def test_a_handoff_is_taken_as_it_was_given(relay: Relay) -> None:
    """Promise K7: the receiver sees the same bytes, the giver that it was taken."""
    thread = some_thread(relay)
    spec = thread.put("# Spec\n\n## Orders\n\n## Payments\n", name="spec.md")

    given = thread.hand_off("coder", "Write the migration", 500, (spec.ref,), by="planner")
    taken = relay.accept(given.ref, by="coder")

    body = relay.pull(given.ref)
    assert hashlib.sha256(body).hexdigest() == taken.sha256 == given.sha256
    assert encode(taken.handoff, order="deterministic") == body
    assert taken.handoff == given.handoff == decode(body, type=Handoff)
    assert taken.handoff.state_ref == f"{thread.id}@v{given.handoff.version}"
    assert "## Payments" in taken.handoff.refs[0].outline
    assert count_tokens(taken.text) <= 500
    assert [each.by for each in relay.handoff(given.ref).accepted] == ["coder"]
    types = [each.event.type for each in thread.events()]
    assert types.index("handoff.given") < types.index("handoff.accepted")


def test_what_was_left_out_is_listed_with_the_way_to_get_it(relay: Relay) -> None:
    """Promise K7: what was left out, and why."""
    thread = some_thread(relay)
    for number in range(30):
        thread.put(f"note {number} " * 30, metadata={"block": {"id": f"n{number}"}})

    given = thread.hand_off("coder", "Where do the orders live?", 300)

    left_out = {each.id: each for each in given.handoff.left_out}
    kept = {block.id for block in given.handoff.package.blocks}
    assert "facts/f1" in kept
    assert left_out
    assert not kept & set(left_out)
    assert len(kept) + len(left_out) == 33
    note = next(each for name, each in left_out.items() if name.startswith("n"))
    assert note.get.startswith("relay get ")
    assert "no room" in note.why
    assert count_tokens(given.text) <= 300


def test_handoffs_are_listed_newest_first_and_by_whom_they_are_for(relay: Relay) -> None:
    """Promise K7: list."""
    thread = some_thread(relay)
    first = thread.hand_off("coder", "one")
    begun_ms = time.time_ns() // 1_000_000
    until(lambda: time.time_ns() // 1_000_000 > begun_ms, "the next millisecond")
    second = thread.hand_off("tester", "two")
    relay.accept(first.ref, by="coder")

    assert [each.ref for each in relay.handoffs().handoffs] == [second.ref, first.ref]
    assert [each.ref for each in relay.handoffs(to="coder").handoffs] == [first.ref]
    assert [each.ref for each in relay.handoffs(is_open=True).handoffs] == [second.ref]
    page = relay.handoffs(limit=1)
    assert [each.ref for each in relay.handoffs(after=page.next).handoffs] == [first.ref]


def test_a_result_goes_back_into_the_givers_thread_as_one_patch(relay: Relay) -> None:
    """Promise K7, for sub-agents: give, wait, take the result back."""
    thread = some_thread(relay)
    given = thread.hand_off("coder", "Write the migration", by="planner")
    version = thread.show().version
    relay.accept(given.ref, by="coder")

    result = relay.give_back("ALTER TABLE orders;", given.ref, name="migration.sql", by="coder")

    assert thread.show().version == version + 1
    assert thread.state()["artifacts"][-1]["ref"] == result.ref
    assert relay.handoff(given.ref).returned == (result.ref,)
    assert relay.signals("handoff/planner", 0).signals[0].ref == result.ref
    assert relay.lineage(result.ref).sources[0] == given.ref


def test_a_handed_ref_does_not_expire(relay: Relay) -> None:
    """Promise R6: refs held by a handoff do not expire."""
    thread = some_thread(relay)
    loose = relay.push("for a day", name="loose.txt")

    thread.hand_off("coder", "go", refs=(loose.ref,))

    assert relay.peek(loose.ref).expires_at is None


def test_what_cannot_be_handed_off_is_refused(relay: Relay) -> None:
    thread = some_thread(relay)
    with pytest.raises(BudgetTooSmall):
        thread.hand_off("coder", "a long ask " * 200, 100)
    with pytest.raises(NotFound):
        thread.hand_off("coder", "go", refs=("00000000-0000-4000-8000-000000000000",))
    with pytest.raises(Invalid):
        relay.accept(relay.push("no handoff").ref)
    with pytest.raises(Invalid):
        relay.accept(relay.push("{}", media_type=HANDOFF_MEDIA_TYPE).ref)
    thread.close()
    with pytest.raises((Refused, Conflict)):
        thread.hand_off("coder", "go")
