"""Entries of a state: added and resolved without writing a patch, by threads of both clients."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from contextrelay import NotFound, Relay
from contextrelay.identity import user_name


def test_entries_of_every_kind_are_added_and_resolved(relay: Relay) -> None:
    thread = relay.new_thread("release")
    evidence = thread.put("the log").ref

    fact = thread.add_fact("orders live in PostgreSQL 16", by="planner")
    constraint = thread.add_constraint("no network", "soft")
    question = thread.add_question("which TTL?")
    step = thread.add_step("write the test")
    decision = thread.add_decision("use K2", ["SAFE"], [evidence], 0.9)
    resolved = thread.resolve(question.id)
    thread.resolve(step.id)

    added = (fact, constraint, question, step, decision)
    assert [each.id for each in added] == ["f1", "c1", "q1", "s1", "d1"]
    assert resolved.version == decision.version + 1
    state = thread.state()
    assert (state["facts"][0]["key"], state["facts"][0]["value"]) == (
        "note",
        "orders live in PostgreSQL 16",
    )
    assert state["constraints"][0]["severity"] == "soft"
    assert state["open_questions"][0]["status"] == "resolved"
    assert state["plan"][0]["status"] == "done"
    assert state["decisions"][0]["evidence_refs"] == [evidence]
    assert state["decisions"][0]["confidence"] == 0.9
    assert {each.event.by for each in thread.events()} >= {"planner", user_name()}


def test_a_fact_with_a_key_replaces_the_older_one_which_stays_in_history(relay: Relay) -> None:
    thread = relay.new_thread("release")
    first = thread.add_fact("Ada", key="owner")
    other = thread.add_fact("blue", key="colour")

    second = thread.add_fact("Grace", key="owner")

    facts = [(fact["id"], fact["key"], fact["value"]) for fact in thread.state()["facts"]]
    assert facts == [(other.id, "colour", "blue"), (first.id, "owner", "Grace")]
    assert second.id == first.id
    assert [fact["value"] for fact in thread.state(first.version)["facts"]] == ["Ada"]


def test_what_is_resolved_already_makes_no_version(relay: Relay) -> None:
    thread = relay.new_thread("release")
    question = thread.add_question("which TTL?")
    once = thread.resolve(question.id)

    again = thread.resolve(question.id)

    assert (again.version, again.operations) == (once.version, [])


def test_an_unknown_id_is_not_found_and_those_that_wait_are_named(relay: Relay) -> None:
    thread = relay.new_thread("release")
    thread.add_question("which TTL?")

    with pytest.raises(NotFound) as error:
        thread.resolve("q7")

    assert error.value.hint == "open ids: q1"


def test_entries_that_are_added_at_once_have_an_id_each() -> None:
    with Relay("memory:") as relay:
        thread = relay.new_thread("release")

        with ThreadPoolExecutor(8) as pool:
            added = list(pool.map(thread.add_step, [f"step {number}" for number in range(24)]))

        assert len({each.id for each in added}) == 24
        assert len(thread.state()["plan"]) == 24
