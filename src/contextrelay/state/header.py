"""Headers: the bounded view of a state that goes into a prompt.

Rule: a header never grows with the state. Every list is cut by a limit in limits.py, and the whole
header by HEADER_BYTES_MAX. Each cut is counted, so that a reader knows that something was left out.
The result does not depend on the order of an object's members: equal states give equal bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import compress, islice
from operator import itemgetter
from typing import Any, NamedTuple, cast

import msgspec

from contextrelay.documents.values import is_list, is_object
from contextrelay.limits import HEADER_ACTIONS, HEADER_ARTIFACTS, HEADER_BYTES_MAX
from contextrelay.state.schema import AHEAD, METRICS, SCHEMA, SHAPES

HEADER_FACTS = 10
HEADER_CONSTRAINTS = 5
HEADER_QUESTIONS = 5
HEADER_STEPS = 5
HEADER_DECISIONS = 3

# The id of a thread is a ref, which is short; this limit keeps the header bounded for any other
# value.
_THREAD_ID_BYTES_MAX = 512
_CUT = "…"
_CUT_BYTES = len(_CUT.encode())

_encode = msgspec.json.encode
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
_status_of = itemgetter("status")

# The lists of a state in the order of the header, with their names there. If a header is too large,
# _DROPS says which items are dropped first.
_SECTIONS = {
    "facts": "top_facts",
    "constraints": "top_constraints",
    "open_questions": "open_questions",
    "plan": "next_steps",
    "artifacts": "artifact_refs",
    "last_actions": "last_actions",
}
_FIRST, _LAST = 0, -1
_DROPS = (
    ("decisions", _FIRST),
    ("facts", _FIRST),
    ("last_actions", _FIRST),
    ("artifacts", _FIRST),
    ("session_summary", _LAST),
    ("plan", _LAST),
    ("open_questions", _LAST),
)


class Header(NamedTuple):
    """A header as JSON, and whether something was left out of it."""

    json: bytes
    truncated: bool


def header(state: dict[str, Any]) -> Header:
    """Return the header of a state."""
    draft = _Draft(state)
    made = draft.fitting()
    for name, which in _DROPS:
        while made is None and draft.shown[name]:
            draft.shown[name].pop(which)
            made = draft.fitting()
    return Header(made or draft.with_short_constraints(), draft.is_truncated())


class _Draft:
    """A header before it is cut to size: each item as JSON, or None for one that is too large."""

    def __init__(self, state: dict[str, Any]) -> None:
        facts, constraints, decisions = state["facts"], state["constraints"], state["decisions"]
        artifacts, actions = state["artifacts"], state["last_actions"]
        questions, open_count = _with_status(state["open_questions"], ("open",), HEADER_QUESTIONS)
        steps, ahead_count = _with_status(state["plan"], AHEAD, HEADER_STEPS)
        summary = state.get("session_summary")
        self._constraints: list[dict[str, Any]] = constraints[:HEADER_CONSTRAINTS]
        self.shown: dict[str, list[bytes | None]] = {
            "facts": _items("facts", facts[-HEADER_FACTS:]),
            "constraints": _items("constraints", self._constraints),
            "open_questions": _items("open_questions", questions),
            "plan": _items("plan", steps),
            "artifacts": [_text(item["ref"]) for item in artifacts[-HEADER_ARTIFACTS:]],
            "last_actions": _items("last_actions", actions[-HEADER_ACTIONS:]),
            "session_summary": [] if summary is None else [_text(summary)],
            "decisions": _items("decisions", decisions[-HEADER_DECISIONS:]),
        }
        self._totals = {name: len(state[name]) for name in (*_SECTIONS, "decisions")}
        self._totals |= {"open_questions": open_count, "plan": ahead_count}
        self._totals["session_summary"] = summary is not None
        self._is_shortened = False
        thread_id = _cut(state["thread_id"], _THREAD_ID_BYTES_MAX)
        first = {"$schema": SCHEMA, "thread_id": thread_id, "version": state["version"]}
        self._first = _encode(first)[:-1]
        metrics = state["metrics"]
        self._metrics = _encode({name: metrics[name] for name in METRICS})

    def fitting(self) -> bytes | None:
        """Return the header as JSON, or None if it is too large."""
        if any(None in items for items in self.shown.values()):
            return None
        made = self._json()
        return made if len(made) <= HEADER_BYTES_MAX else None

    def is_truncated(self) -> bool:
        return self._is_shortened or bool(self._omitted())

    def _json(self) -> bytes:
        parts = [self._first]
        for name, field in _SECTIONS.items():
            parts.append(b',"%b":%b' % (field.encode(), self._list(name)))
        summary = cast("list[bytes]", self.shown["session_summary"])
        omitted = self._omitted()
        parts.append(
            b',"metrics":%b,"session_summary":%b,"truncated":%b,"omitted":%b,'
            b'"top_decisions":%b}'
            % (
                self._metrics,
                summary[0] if summary else b"null",
                b"true" if omitted or self._is_shortened else b"false",
                _encode(omitted),
                self._list("decisions"),
            )
        )
        return b"".join(parts)

    def _list(self, name: str) -> bytes:
        return b"[%b]" % b",".join(cast("list[bytes]", self.shown[name]))

    def _omitted(self) -> dict[str, int]:
        left_out = {name: self._totals[name] - len(items) for name, items in self.shown.items()}
        return {name: count for name, count in left_out.items() if count}

    def with_short_constraints(self) -> bytes:
        """Return the header as JSON with truncated constraints, dropping some if necessary.

        Hard constraints are dropped last. At this point all other items were dropped already.
        """
        self._is_shortened = True
        text_bytes_max = {"soft": HEADER_BYTES_MAX, "hard": HEADER_BYTES_MAX}
        for severity in ("soft", "hard"):
            # Find the largest length to which each text is cut, so that the header fits.
            fits, over = _CUT_BYTES, HEADER_BYTES_MAX
            while fits < over - 1:
                middle = (fits + over) // 2
                if self._fitting_with(text_bytes_max | {severity: middle}):
                    fits = middle
                else:
                    over = middle
            text_bytes_max[severity] = fits
            if made := self._fitting_with(text_bytes_max):
                return made
        for severity in ("soft", "hard"):
            for item in reversed(self._constraints):
                if item["severity"] == severity:
                    self._constraints = [kept for kept in self._constraints if kept is not item]
                    if made := self._fitting_with(text_bytes_max):
                        return made
        raise AssertionError("a header without items is too large")

    def _fitting_with(self, text_bytes_max: dict[str, int]) -> bytes | None:
        cut = (
            {**item, "description": _cut(item["description"], text_bytes_max[item["severity"]])}
            for item in self._constraints
        )
        self.shown["constraints"] = _items("constraints", cut)
        return self.fitting()


def _with_status(
    items: list[dict[str, Any]], wanted: Collection[str], count_max: int
) -> tuple[list[dict[str, Any]], int]:
    """Return the first items that have a wanted status, and the number of all such items."""
    are_wanted = [status in wanted for status in map(_status_of, items)]
    return list(islice(compress(items, are_wanted), count_max)), sum(are_wanted)


def _items(name: str, items: Iterable[dict[str, Any]]) -> list[bytes | None]:
    return [_item(SHAPES[name], item) for item in items]


def _item(fields: Iterable[str], item: dict[str, Any]) -> bytes | None:
    """Encode the known fields of an item, in the order of `fields`; None if it is too large."""
    chosen = {name: item[name] for name in fields if name in item}
    for name, value in chosen.items():
        if is_object(value) or is_list(value):
            if not _is_small(value):
                return None
            chosen[name] = msgspec.Raw(_encode_sorted(value))
        elif type(value) is str and len(value) > HEADER_BYTES_MAX:
            return None
    return _encode(chosen)


def _text(text: str) -> bytes | None:
    return _encode(text) if len(text) <= HEADER_BYTES_MAX else None


def _is_small(value: object) -> bool:
    """Return True if a value may fit into a header, in a time independent of its size."""
    left_bytes = HEADER_BYTES_MAX
    below: list[Any] = [value]
    while below:
        item = below.pop()
        left_bytes -= len(item) if is_list(item) or is_object(item) or type(item) is str else 1
        if left_bytes < 0:
            return False
        # Add the items only now: their number was just checked against the limit.
        if is_list(item):
            below += item
        elif is_object(item):
            below += (*item, *item.values())
    return True


def _cut(text: str, bytes_max: int) -> str:
    """Return a text cut to a number of bytes as a JSON string, with a mark at the cut."""
    if len(text) <= bytes_max and _inner_bytes(text) <= bytes_max:
        return text
    fits, over = 0, min(len(text), bytes_max) + 1
    while fits < over - 1:
        middle = (fits + over) // 2
        if _inner_bytes(text[:middle]) <= bytes_max - _CUT_BYTES:
            fits = middle
        else:
            over = middle
    return text[:fits] + _CUT


def _inner_bytes(text: str) -> int:
    return len(_encode(text)) - 2
