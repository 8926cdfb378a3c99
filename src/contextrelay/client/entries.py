"""Entries of a state: facts, constraints, questions, steps and decisions, without writing a patch.

Rule: an id is short and unique in its state, also where several add at once: a patch is for the
version that its id was chosen in, and is tried again on the next one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from msgspec import to_builtins
from msgspec.json import decode

from contextrelay.client.flow import Flow
from contextrelay.client.names import clean
from contextrelay.errors import Conflict, NotFound, Unavailable
from contextrelay.limits import RETRIES_MAX
from contextrelay.logic.document.patch import Operation
from contextrelay.logic.state import schema
from contextrelay.model.thread import Added, Patched
from contextrelay.wire.verbs import PatchState, ReadState

State = dict[str, Any]
Kind = Literal["fact", "constraint", "question", "step", "decision"]
DEFAULT_KEY = "note"
"""Of a fact that has no key. Such facts do not replace one another."""


class _Place(NamedTuple):
    """The list of a state that a kind of entry goes to, and the letter that its ids begin with."""

    list_name: str
    letter: str


_PLACES: dict[Kind, _Place] = {
    "fact": _Place("facts", "f"),
    "constraint": _Place("constraints", "c"),
    "question": _Place("open_questions", "q"),
    "step": _Place("plan", "s"),
    "decision": _Place("decisions", "d"),
}
_ENDINGS = (("open_questions", "open", "resolved"), ("plan", "pending", "done"))


def add_entry(
    thread: str,
    kind: Kind,
    text: str,
    by: str = "you",
    *,
    key: str | None = None,
    severity: str = "hard",
    reasons: Sequence[str] = (),
    evidence: Sequence[str] = (),
    confidence: float = 1.0,
) -> Flow[Added]:
    """Add one entry to the state of a thread; a fact takes the place of those with its key.

    Raises:
        Refused: a value is not allowed.
        Unavailable: others keep changing the thread.
    """
    list_name, letter = _PLACES[kind]
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    chosen = ""

    def added(state: State) -> list[Operation]:
        nonlocal chosen
        items: list[State] = state[list_name]
        older = [
            index
            for index, item in enumerate(items)
            if kind == "fact" and key not in (None, DEFAULT_KEY) and item["key"] == key
        ]
        chosen = items[older[-1]]["id"] if older else _next_id(items, letter)
        match kind:
            case "fact":
                entry = schema.fact(key or DEFAULT_KEY, text, chosen, now)
            case "constraint":
                entry = schema.constraint(text, chosen, severity)
            case "question":
                entry = schema.question(text, chosen)
            case "step":
                entry = schema.step(text, chosen)
            case "decision":
                entry = schema.decision(text, chosen, reasons, evidence, confidence, now)
        # Backwards, so that the places of the others stay.
        return [*(Operation("remove", f"/{list_name}/{at}") for at in reversed(older)), entry]

    patched = yield from _patch(thread, added, by)
    return Added(
        thread_id=thread, version=patched.version, operations=patched.operations, id=chosen
    )


def resolve_entry(thread: str, id: str, by: str = "you") -> Flow[Patched]:
    """Mark a question as resolved, or a step of the plan as done; once is enough.

    Raises:
        NotFound: no question and no step has this id.
        Unavailable: others keep changing the thread.
    """

    def resolved(state: State) -> list[Operation]:
        for name, _, ended in _ENDINGS:
            for index, item in enumerate(state[name]):
                if item["id"] == id:
                    is_done = item["status"] == ended
                    path = f"/{name}/{index}/status"
                    return [] if is_done else [Operation("replace", path, ended)]
        waiting = [
            clean(item["id"])
            for name, begun, _ in _ENDINGS
            for item in state[name]
            if item["status"] == begun
        ]
        hint = f"waiting are {', '.join(waiting[:10])}" if waiting else "nothing waits"
        raise NotFound(f"no question and no step has the id {clean(id)}", hint)

    return (yield from _patch(thread, resolved, by))


def _next_id(items: list[State], letter: str) -> str:
    own = re.compile(rf"{letter}([0-9]{{1,9}})")
    found = (own.fullmatch(item["id"]) for item in items)
    return f"{letter}{1 + max((int(each[1]) for each in found if each), default=0)}"


def _patch(thread: str, change: Callable[[State], list[Operation]], by: str) -> Flow[Patched]:
    """Patch the newest version; again, where others change the state meanwhile."""
    for _ in range(RETRIES_MAX):
        state: State = decode((yield ReadState(thread)).state)
        version: int = state["version"]
        operations = [to_builtins(each) for each in change(state)]
        if not operations:
            return Patched(thread_id=thread, version=version, operations=[])
        try:
            return (yield PatchState(thread, operations, version, by=by))
        except Conflict:
            continue
    raise Unavailable(f"others keep changing thread {thread}", "try again")
