"""Entries of a state as patches: facts, constraints, questions, steps and decisions.

Rule: the id of an entry is short, and unique in the state for which it was chosen. So a patch that
adds an entry is valid for one version only, and is built again for the next version.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from msgspec import Struct

from contextrelay.content.untrusted.hidden_chars import spell_hidden
from contextrelay.documents.patch import Operation
from contextrelay.errors import NotFound
from contextrelay.state import schema

State = dict[str, Any]
Kind = Literal["fact", "constraint", "question", "step", "decision"]
DEFAULT_KEY = "note"
"""The key of a fact that was added without a key. Such facts do not replace one another."""


class NewEntry(Struct, frozen=True, kw_only=True):
    """A new entry of a state. Which fields apply depends on the kind of the entry."""

    kind: Kind
    text: str
    key: str | None = None
    severity: str = "hard"
    reasons: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    confidence: float = 1.0


# The list for a kind of entry, and the first letter of the ids in this list.
_PLACES: dict[Kind, tuple[str, str]] = {
    "fact": ("facts", "f"),
    "constraint": ("constraints", "c"),
    "question": ("open_questions", "q"),
    "step": ("plan", "s"),
    "decision": ("decisions", "d"),
}
_ENDINGS = (("open_questions", ("open",), "resolved"), ("plan", schema.AHEAD, "done"))
_WAITING_SHOWN = 10


def entry_operations(state: State, entry: NewEntry, at: str) -> tuple[str, list[Operation]]:
    """Return the id of a new entry and the patch that adds it.

    A fact with a key replaces those with the same key.
    """
    list_name, letter = _PLACES[entry.kind]
    items: list[State] = state[list_name]
    older: list[int] = []
    if entry.kind == "fact" and entry.key not in (None, DEFAULT_KEY):
        older = [index for index, item in enumerate(items) if item["key"] == entry.key]
    chosen: str = items[older[-1]]["id"] if older else _next_id(items, letter)
    match entry.kind:
        case "fact":
            added = schema.fact(entry.key or DEFAULT_KEY, entry.text, chosen, at)
        case "constraint":
            added = schema.constraint(entry.text, chosen, entry.severity)
        case "question":
            added = schema.question(entry.text, chosen)
        case "step":
            added = schema.step(entry.text, chosen)
        case "decision":
            given = entry.reasons, entry.evidence, entry.confidence
            added = schema.decision(entry.text, chosen, *given, at)
    # Remove from the end, so that the indexes of the remaining removals stay valid.
    removed = (Operation("remove", f"/{list_name}/{index}") for index in reversed(older))
    return chosen, [*removed, added]


def resolve_operations(state: State, id: str) -> list[Operation]:
    """Return the patch that resolves a question or completes a step; empty if already done.

    Raises:
        NotFound: no question or step has this id.
    """
    for name, _, ended in _ENDINGS:
        for index, item in enumerate(state[name]):
            if item["id"] == id:
                is_done = item["status"] == ended
                return [] if is_done else [Operation("replace", f"/{name}/{index}/status", ended)]
    ids = ([each["id"] for each in state[name] if each["status"] in s] for name, s, _ in _ENDINGS)
    waiting = [_shown(each) for some in ids for each in some]
    hint = f"open ids: {', '.join(waiting[:_WAITING_SHOWN])}" if waiting else "nothing is open"
    raise NotFound(f"no question or step with the id {_shown(id)}", hint)


def _next_id(items: list[State], letter: str) -> str:
    own = re.compile(rf"{letter}([0-9]{{1,9}})")
    found = (own.fullmatch(item["id"]) for item in items)
    return f"{letter}{1 + max((int(each[1]) for each in found if each), default=0)}"


def _shown(id: str) -> str:
    return spell_hidden(" ".join(id.split()))
