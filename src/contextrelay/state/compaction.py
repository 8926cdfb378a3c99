"""Compaction: operations that shorten the lists of a state that grow automatically.

Rule: this reads only the two lists that compaction itself keeps short. Removed entries are counted
in the summary, and older versions of the state still have them.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from contextrelay.documents.patch import Operation
from contextrelay.limits import ACTIONS_KEPT, ARTIFACTS_KEPT

_TIMES = re.compile(r" \(x([1-9][0-9]{0,8})\)\Z")
_COMPACTED = re.compile(
    r"(?:\A|\n)compacted: ([0-9]{1,15}) actions?, ([0-9]{1,15}) artifacts? "
    r"\(older versions have them\)\Z"
)
# The maximum length of a match of _COMPACTED, so that a long summary is not searched from its
# start.
_COMPACTED_CHARS_MAX = 100


def compact(state: dict[str, Any]) -> list[Operation]:
    """Return the operations that compact a state; an empty list if the state is compact."""
    actions: list[dict[str, Any]] = state["last_actions"]
    artifacts: list[dict[str, Any]] = state["artifacts"]
    operations: list[Operation] = []
    kept_actions = actions
    if len(actions) > ACTIONS_KEPT or _has_equal_neighbours(actions):
        kept_actions = _merge_repeats(actions)[-ACTIONS_KEPT:]
        operations += _operations_to(kept_actions, actions)
    gone: list[int] = []
    if len(artifacts) > ARTIFACTS_KEPT:
        named = {action.get("result_ref") for action in kept_actions}
        older = artifacts[:-ARTIFACTS_KEPT]
        gone = [index for index, item in enumerate(older) if item["ref"] not in named]
        if len(gone) > ARTIFACTS_KEPT:
            out = set(gone)
            kept = [item for index, item in enumerate(artifacts) if index not in out]
            operations.append(Operation("replace", "/artifacts", kept))
        else:
            operations += [Operation("remove", f"/artifacts/{index}") for index in reversed(gone)]
    if operations:
        actions_gone = len(actions) - len(kept_actions)
        summary = _counted_in(state.get("session_summary") or "", actions_gone, len(gone))
        operations.append(Operation("add", "/session_summary", summary))
    return operations


def _has_equal_neighbours(actions: list[dict[str, Any]]) -> bool:
    described = [action["description"] for action in actions]
    # Equal neighbours have equal texts, or one text ends in "(x2)", so that only a few need a full
    # comparison.
    return any(
        _are_equal(actions[index], actions[index + 1])
        for index, (one, other) in enumerate(pairwise(described))
        if one == other or one.endswith(")") or other.endswith(")")
    )


def _are_equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    one_done, other_done = _counted(one["description"])[0], _counted(other["description"])[0]
    return one_done == other_done and one.get("result_ref") == other.get("result_ref")


def _counted(description: str) -> tuple[str, int]:
    """Return the description of an action without its count, and how often the action was done."""
    times = _TIMES.search(description) if description.endswith(")") else None
    return (description[: times.start()], int(times[1])) if times else (description, 1)


def _merge_repeats(actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge equal consecutive actions: the newest one is kept, with the total of their counts."""
    folded: list[dict[str, Any]] = []
    for action in actions:
        if folded and _are_equal(folded[-1], action):
            done, times = _counted(action["description"])
            times += _counted(folded[-1]["description"])[1]
            folded[-1] = {**action, "description": f"{done} (x{times})"}
        else:
            folded.append(action)
    return folded


def _operations_to(kept: list[dict[str, Any]], actions: list[dict[str, Any]]) -> list[Operation]:
    """Return operations that turn `actions` into `kept`: a single one for many changes."""
    if kept == actions[-len(kept) :]:
        gone = len(actions) - len(kept)
        if gone <= ACTIONS_KEPT:
            return [Operation("remove", "/last_actions/0")] * gone
    elif len(kept) == len(actions) - 1 and kept[:-1] == actions[:-2]:
        # The last action was repeated, which is the usual case.
        last = len(kept) - 1
        return [
            Operation("remove", f"/last_actions/{last}"),
            Operation("replace", f"/last_actions/{last}/description", kept[-1]["description"]),
        ]
    return [Operation("replace", "/last_actions", kept)]


def _counted_in(summary: str, actions: int, artifacts: int) -> str:
    """Return the summary with a last line that counts the entries removed so far."""
    tail_at = max(0, len(summary) - _COMPACTED_CHARS_MAX)
    before = _COMPACTED.search(summary, tail_at)
    if before:
        actions += int(before[1])
        artifacts += int(before[2])
        summary = summary[: before.start()]
    line = (
        f"compacted: {actions} action{'s' * (actions != 1)}, "
        f"{artifacts} artifact{'s' * (artifacts != 1)} (older versions have them)"
    )
    return f"{summary}\n{line}" if summary else line
