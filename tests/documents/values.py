"""Values: JSON documents and states for property tests, small ones and wild ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from contextrelay.documents.patch import Applied, Operation, apply
from contextrelay.state.schema import new_state

THREAD = "550e8400-e29b-41d4-a716-446655440000"
AT = "2026-01-02T03:04:05Z"

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
# Few names and few values, so that two documents have much in common.
_ALIKE: list[Any] = [0, 1, 1.0, True, False, None, "", "1", "a", {}, []]
ALIKE = st.sampled_from(_ALIKE)
NAMES = st.sampled_from(["a", "b", "0", "1", "-", "", "~", "/", "~1", "id"]) | st.text(max_size=3)


def documents(scalars: st.SearchStrategy[Any] = SCALARS | ALIKE) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=5)
            | st.dictionaries(NAMES, inner, max_size=5)
            | st.lists(st.fixed_dictionaries({"id": st.sampled_from("abcdef"), "v": inner}))
        ),
        max_leaves=20,
    )


DOCUMENTS = documents()


def encoded(value: object) -> bytes:
    """A value as bytes that differ if anything does: also the order of members, and 1 from 1.0."""
    return msgspec.json.encode(value)


def copied(value: Any) -> Any:
    return msgspec.json.decode(encoded(value))


def applied_to(holder: list[Any], *operations: Operation) -> Applied:
    return apply(holder, operations, len(encoded(holder[0])))


def patched(document: Any, operations: Sequence[Operation]) -> Any:
    """A new document: the old one, with operations applied."""
    holder = [copied(document)]
    applied_to(holder, *operations)
    return holder[0]


# Texts that are short, long, wide and full of what JSON escapes.
TEXTS = st.text(max_size=20) | st.tuples(
    st.text(min_size=1, max_size=8), st.integers(1, 2_000)
).map(lambda drawn: drawn[0] * drawn[1])
IDS = st.text(max_size=8) | TEXTS


def _items(most: int, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.fixed_dictionaries(fields), max_size=most)


@st.composite
def states(draw: st.DrawFn) -> dict[str, Any]:
    """Any state that passes T2."""
    state = new_state(THREAD, AT)
    value = DOCUMENTS | TEXTS
    state["version"] = draw(st.integers(1, 2**63))
    state["facts"] = draw(_items(12, id=IDS, key=TEXTS, value=value))
    severity = st.sampled_from(["hard", "soft"])
    state["constraints"] = draw(_items(7, id=IDS, description=TEXTS, severity=severity))
    status = st.sampled_from(["open", "resolved"])
    state["open_questions"] = draw(_items(7, id=IDS, question=TEXTS, status=status))
    status = st.sampled_from(["pending", "done", "skipped"])
    state["plan"] = draw(_items(7, id=IDS, step=TEXTS, status=status))
    state["artifacts"] = draw(_items(12, ref=IDS, type=IDS, other=value))
    state["last_actions"] = draw(_items(7, at=IDS, description=TEXTS))
    if draw(st.booleans()):
        state["session_summary"] = draw(TEXTS)
    return state
