"""States: what a patch may make of one, looked at only where it was touched."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.documents.patch import Operation, apply, undo
from contextrelay.errors import Refused, RelayError
from contextrelay.state import schema as states
from contextrelay.state.compaction import compact
from contextrelay.state.header import header
from contextrelay.state.schema import (
    SHAPES,
    check_patch,
    check_state,
    check_touched,
    new_state,
)
from tests.documents.values import AT, THREAD, applied_to, encoded


def is_there(ref: str) -> bool:
    return ref.startswith("ref-")


def filled() -> dict[str, Any]:
    """A state with an item in each list, and one field that we do not know in each place."""
    state = new_state(THREAD, AT)
    applied_to(
        [state],
        states.fact("owner", {"team": ["orders"]}, "f1", AT),
        states.constraint("no network", "c1", "hard"),
        states.question("which TTL?", "q1"),
        states.step("write the test", "s1"),
        states.decision("use SQLite", "d1", ["fast"], ["ref-1"], 0.9, AT),
        states.artifact("ref-1", "text", "notes.txt"),
        states.action("pushed the notes", AT, "ref-1"),
        Operation("add", "/session_summary", "begun"),
        Operation("add", "/own_field", {"kept": True}),
        Operation("add", "/facts/0/own_field", [1]),
    )
    return state


def checked(state: dict[str, Any], *operations: Operation) -> None:
    """What the core does with a patch, up to the log."""
    check_patch(operations)
    check_touched(state, applied_to([state], *operations).steps, is_there)


def test_a_new_state_is_empty_at_version_1_and_as_it_must_be() -> None:
    """Promise T2."""
    state = new_state(THREAD, AT)

    assert state == {
        "$schema": "com.relay.state.v1",
        "thread_id": THREAD,
        "version": 1,
        "updated_at": AT,
        "facts": [],
        "constraints": [],
        "open_questions": [],
        "decisions": [],
        "plan": [],
        "artifacts": [],
        "last_actions": [],
        "metrics": {
            "cache_hits": 0,
            "cache_misses": 0,
            "tokens_estimate": 0,
            "tokens_avoided": 0,
            "hop_count": 0,
        },
    }
    check_state(state, is_there)


def test_unknown_fields_are_kept_at_the_top_and_in_items() -> None:
    """Promise T2."""
    state = filled()

    check_state(state, is_there)
    checked(state, Operation("replace", "/own_field", [None]))

    assert state["own_field"] == [None]
    assert state["facts"][0]["own_field"] == [1]


@pytest.mark.parametrize(
    ("operation", "path", "hint"),
    [
        (Operation("add", "/facts/-", "text"), "/facts/1 is not an object", "id, key, value"),
        (Operation("add", "/facts/-", {"id": "f", "key": "k"}), "/facts/1 has no value", "any"),
        (Operation("add", "/facts/0", {"key": "k", "value": 1}), "/facts/0 has no id", "string"),
        (Operation("replace", "/facts/0/id", 7), "/facts/0/id", "a string"),
        (Operation("add", "/facts/0/at", None), "/facts/0/at", "omitted"),
        (Operation("remove", "/facts/0/key"), "/facts/0 has no key", "a string"),
        (Operation("replace", "/constraints/0/severity", "hot"), "severity", '"hard" or "soft"'),
        (Operation("replace", "/constraints/0/severity", ["hard"]), "severity", '"hard"'),
        (Operation("replace", "/open_questions/0/status", "done"), "status", '"resolved"'),
        (Operation("replace", "/plan/0/status", "open"), "/plan/0/status", '"skipped"'),
        (Operation("replace", "/decisions/0/confidence", 1.01), "confidence", "from 0 to 1"),
        (Operation("replace", "/decisions/0/confidence", True), "confidence", "from 0 to 1"),
        (Operation("replace", "/decisions/0/confidence", "1"), "confidence", "from 0 to 1"),
        (Operation("add", "/decisions/0/reason_codes/-", 1), "reason_codes", "list of strings"),
        (Operation("replace", "/decisions/0/evidence_refs", "ref-1"), "evidence_refs", "list"),
        (Operation("add", "/artifacts/0/name", 1), "/artifacts/0/name", "a string"),
        (Operation("replace", "/last_actions/0", {"at": AT}), "has no description", "a string"),
        (Operation("remove", "/facts"), "/facts is missing", "[]"),
        (Operation("replace", "/plan", {}), "/plan is not a list", "[]"),
        (Operation("move", "/decisions", from_="/plan"), "/plan is missing", "[]"),
        (Operation("copy", "/plan", from_="/facts"), "/plan/0 has no step", "a string"),
        (Operation("copy", "/plan/-", from_="/facts/0"), "/plan/1 has no step", "a string"),
        (Operation("replace", "/session_summary", None), "/session_summary", "a string"),
    ],
)
def test_a_result_that_breaks_the_schema_is_refused_and_says_what_is_allowed(
    operation: Operation, path: str, hint: str
) -> None:
    """Promise T2."""
    with pytest.raises(Refused) as caught:
        checked(filled(), operation)

    assert path in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.status == 422


def test_only_the_result_counts_not_what_it_was_in_between() -> None:
    """Promise T2."""
    state = filled()

    checked(
        state,
        Operation("add", "/facts/0", "wrong"),
        Operation("add", "/plan/-", {"id": "s2"}),
        Operation("remove", "/facts/0"),
        Operation("add", "/plan/1/step", "later"),
        Operation("add", "/plan/1/status", "pending"),
        Operation("remove", "/decisions"),
        Operation("add", "/decisions", []),
        Operation("remove", "/session_summary"),
    )

    check_state(state, is_there)


def test_a_wrong_item_that_others_pushed_on_is_still_found() -> None:
    """Promise T2."""
    good = {"id": "f", "key": "k", "value": 1}

    with pytest.raises(Refused, match="/facts/2 is not an object"):
        checked(
            filled(),
            Operation("add", "/facts/0", "wrong"),
            Operation("add", "/facts/0", good),
            Operation("add", "/facts/0", good),
        )


def move(source: str, path: str) -> Operation:
    return Operation("move", path, from_=source)


ITEMS = st.sampled_from([{"id": "f", "key": "k", "value": 1}, {"id": "f"}, "wrong", None])
OPERATIONS = st.builds(
    Operation,
    st.sampled_from(["add", "add", "remove", "replace"]),
    st.sampled_from(["/facts/0", "/facts/1", "/facts/2", "/facts/-", "/facts/1/key", "/facts"]),
    ITEMS | st.lists(ITEMS, max_size=2),
) | st.builds(
    move,
    st.sampled_from(["/facts/0", "/facts/1", "/facts/2", "/x"]),
    st.sampled_from(["/facts/0", "/facts/1", "/facts/-", "/x"]),
)


@given(st.lists(OPERATIONS, max_size=8))
def test_looking_at_what_was_touched_finds_what_looking_at_all_finds(
    operations: list[Operation],
) -> None:
    """Promise T2."""
    state = new_state(THREAD, AT)
    state["facts"] = [{"id": f"f{n}", "key": "k", "value": n} for n in range(3)]
    try:
        steps = applied_to([state], *operations).steps
    except RelayError:
        return

    assert is_refused(check_touched, state, steps) == is_refused(check_state, state)


def is_refused(check: Any, *args: Any) -> bool:
    try:
        check(*args, is_there)
    except Refused:
        return True
    return False


@pytest.mark.parametrize(
    "operation",
    [
        states.artifact("gone", "text"),
        states.action("did it", AT, "gone"),
        states.decision("because", "d2", [], ["ref-1", "gone"]),
        Operation("add", "/decisions/0/evidence_refs/-", "gone"),
        Operation("replace", "/artifacts/0/ref", "gone"),
        Operation("replace", "/artifacts", [{"ref": "gone", "type": "text"}]),
    ],
)
def test_a_reference_to_an_artifact_that_is_not_there_is_refused(operation: Operation) -> None:
    """Promise T7."""
    with pytest.raises(Refused, match="names the artifact 'gone', which does not exist"):
        checked(filled(), operation)


def test_a_reference_that_was_there_before_is_not_looked_up_again() -> None:
    """Promise T7."""
    state = msgspec.json.decode(encoded(filled()).replace(b"ref-1", b"gone"))

    checked(
        state,
        Operation("replace", "/artifacts/0/name", "renamed"),
        Operation("add", "/decisions/0/evidence_refs/-", "ref-2"),
        Operation("replace", "/decisions/0/confidence", 0.5),
        Operation("replace", "/last_actions/0/description", "did it"),
        Operation("add", "/artifacts/0", {"ref": "ref-2", "type": "text"}),
    )

    assert state["decisions"][0]["evidence_refs"] == ["gone", "ref-2"]


@pytest.mark.parametrize(
    "operation",
    [
        Operation("replace", "/$schema", "other"),
        Operation("replace", "/thread_id", "other"),
        Operation("remove", "/version"),
        Operation("replace", "/updated_at", AT),
        Operation("add", "/metrics/cache_hits", 10),
        Operation("replace", "/metrics", {}),
        Operation("add", "/version/x", 1),
        Operation("move", "/own", from_="/version"),
        Operation("move", "/thread_id", from_="/session_summary"),
        Operation("copy", "/version", from_="/metrics/cache_hits"),
        Operation("replace", "", {}),
        Operation("copy", "", from_="/metrics"),
        Operation("move", "/x", from_=""),
    ],
)
def test_what_is_relays_own_cannot_be_patched(operation: Operation) -> None:
    """Promise T3."""
    with pytest.raises(Refused, match=r"operation 1.* cannot be patched") as caught:
        check_patch([Operation("add", "/facts/-", 1), operation])

    assert caught.value.hint


def test_what_is_relays_own_can_be_tested_and_copied() -> None:
    """Promise T3."""
    checked(
        filled(),
        Operation("test", "/version", 1),
        Operation("test", "/thread_id", THREAD),
        Operation("copy", "/own_field", from_="/metrics"),
    )


def test_a_patch_of_one_fact_costs_the_same_in_a_state_of_any_size() -> None:
    """Promise T3."""
    costs_s = [best_s(count) for count in (10, 1_000, 100_000)]

    # Of ten thousand times as much; the machine has other work.
    assert max(costs_s) < 5 * min(costs_s)


def best_s(fact_count: int) -> float:
    """What a fact more costs, in a state of so many, when nobody else uses the machine."""
    state = filled()
    state["facts"] = [{"id": f"f{n}", "key": "k", "value": f"v{n}"} for n in range(fact_count)]
    size_bytes = len(encoded(state))
    times: list[float] = []
    for _ in range(300):
        operations = [states.fact("key", {"team": ["orders"]}, "new", AT)]
        started = time.perf_counter()
        check_patch(operations)
        applied = apply([state], operations, size_bytes)
        check_touched(state, applied.steps, is_there)
        compact(state)
        header(state)
        times.append(time.perf_counter() - started)
        undo(applied.steps)
    return min(times)


@pytest.mark.parametrize("name", [*SHAPES, "version", "$schema", "thread_id", "metrics"])
def test_a_whole_state_is_checked_in_every_field(name: str) -> None:
    """Promise T2."""
    state = filled()
    state[name] = {"wrong": True}

    with pytest.raises(Refused, match=rf"^/{name.replace('$', '[$]')}"):
        check_state(state, is_there)


def test_a_whole_state_must_be_an_object() -> None:
    """Promise T2."""
    with pytest.raises(Refused, match="not an object"):
        check_state([], is_there)
