"""Compaction: short lists, counted, and nothing to do the second time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.documents.patch import Operation
from contextrelay.limits import ACTIONS_KEPT, ARTIFACTS_KEPT
from contextrelay.state.compaction import compact
from contextrelay.state.schema import action, artifact, check_touched, fact, new_state
from tests.documents.values import AT, THREAD, applied_to, encoded, patched


def state_of(actions: list[str], artifacts: int = 0) -> dict[str, Any]:
    state = new_state(THREAD, AT)
    state["last_actions"] = [{"at": str(n), "description": said} for n, said in enumerate(actions)]
    state["artifacts"] = [{"ref": f"r{n}", "type": "text"} for n in range(artifacts)]
    return state


def compacted(state: dict[str, Any]) -> dict[str, Any]:
    return patched(state, compact(state))


def described(state: dict[str, Any]) -> list[str]:
    return [action["description"] for action in state["last_actions"]]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["a", "a"], ["a (x2)"]),
        (["a", "b", "a"], None),
        (["a", "a", "a", "b", "b", "a"], ["a (x3)", "b (x2)", "a"]),
        (["a (x2)", "a"], ["a (x3)"]),
        (["a (x2)", "a (x40)"], ["a (x42)"]),
        (["x", "a", "a"], ["x", "a (x2)"]),
        (["a (x0)", "a"], None),
        (["a (x)", "a"], None),
        (["a(x2)", "a"], None),
        (["", ""], [" (x2)"]),
        ([], None),
    ],
)
def test_equal_neighbours_become_one_that_counts(
    before: list[str], after: list[str] | None
) -> None:
    """Promise T7."""
    state = state_of(before)

    if after is None:
        assert compact(state) == []
    else:
        assert described(compacted(state)) == after


def test_the_newest_of_equal_neighbours_stays() -> None:
    """Promise T7."""
    state = state_of(["a", "b", "b"])
    state["last_actions"][2]["own_field"] = 1

    last = compacted(state)["last_actions"][-1]

    assert last == {"at": "2", "description": "b (x2)", "own_field": 1}


def test_actions_with_other_results_are_not_equal() -> None:
    """Promise T7."""
    state = state_of(["a", "a"])
    state["last_actions"][0]["result_ref"] = "r1"

    assert compact(state) == []


def test_the_last_50_actions_stay() -> None:
    """Promise T7."""
    state = state_of([f"did {n}" for n in range(ACTIONS_KEPT + 3)])

    after = compacted(state)

    assert described(after) == [f"did {n}" for n in range(3, ACTIONS_KEPT + 3)]
    assert after["session_summary"] == (
        "compacted: 3 actions, 0 artifacts (older versions have them)"
    )


def test_the_last_200_artifacts_stay_and_those_that_kept_actions_name() -> None:
    """Promise T7."""
    state = state_of(["old", *(f"did {n}" for n in range(ACTIONS_KEPT))], ARTIFACTS_KEPT + 5)
    state["last_actions"][0]["result_ref"] = "r0"
    state["last_actions"][1]["result_ref"] = "r1"
    state["last_actions"][-1]["result_ref"] = "r3"

    after = compacted(state)

    refs = [item["ref"] for item in after["artifacts"]]
    assert refs == ["r1", "r3", *(f"r{n}" for n in range(5, ARTIFACTS_KEPT + 5))]
    assert after["session_summary"].startswith("compacted: 1 action, 3 artifacts ")


def test_a_great_many_at_once_are_one_operation_a_list() -> None:
    """Promise T7."""
    state = state_of([f"did {n}" for n in range(2_000)], 2_000)

    operations = compact(state)

    assert [operation.path for operation in operations] == [
        "/last_actions",
        "/artifacts",
        "/session_summary",
    ]
    assert compact(patched(state, operations)) == []


def test_the_summary_adds_up_and_keeps_what_was_written() -> None:
    """Promise T7."""
    state = state_of(["a", "a"])
    state["session_summary"] = "We ship on Friday."

    for _ in range(30):
        state = compacted(state)
        state = patched(state, [action("a", AT)])

    assert state["session_summary"] == (
        "We ship on Friday.\ncompacted: 30 actions, 0 artifacts (older versions have them)"
    )
    assert described(state) == ["a (x31)", "a"]


def test_the_usual_cases_cost_few_small_operations() -> None:
    """Promise T7."""
    repeated = compact(state_of([*(f"did {n}" for n in range(48)), "again", "again"]))
    one_more = compact(state_of([f"did {n}" for n in range(ACTIONS_KEPT + 1)]))

    assert [(operation.op, operation.path) for operation in repeated] == [
        ("remove", "/last_actions/48"),
        ("replace", "/last_actions/48/description"),
        ("add", "/session_summary"),
    ]
    assert [(operation.op, operation.path) for operation in one_more] == [
        ("remove", "/last_actions/0"),
        ("add", "/session_summary"),
    ]


@given(st.lists(st.sampled_from(["a", "b", "a (x2)", "c (x9)"]), max_size=70), st.integers(0, 210))
def test_what_was_compacted_is_compact_and_as_it_must_be(
    actions: list[str], artifacts: int
) -> None:
    """Promise T7."""
    state = state_of(actions, artifacts)
    operations = compact(state)

    steps = applied_to([state], *operations).steps

    check_touched(state, steps, lambda ref: True)
    assert compact(state) == []
    assert len(state["last_actions"]) <= ACTIONS_KEPT
    assert ("session_summary" in state) == bool(operations)


def test_a_patch_of_facts_leaves_nothing_to_compact() -> None:
    """Promise T7."""
    state = state_of([f"did {n}" for n in range(ACTIONS_KEPT)], ARTIFACTS_KEPT)
    before = encoded(state)

    state = patched(state, [fact("k", "v", "f1")])

    assert compact(state) == []
    assert encoded({**state, "facts": []}) == before


def test_an_artifact_more_pushes_the_oldest_out() -> None:
    """Promise T7."""
    state = patched(state_of([], ARTIFACTS_KEPT), [artifact("new", "text")])

    assert compact(state)[0] == Operation("remove", "/artifacts/0")
