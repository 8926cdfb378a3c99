"""States: the schema of a thread's state, and what a patch may change.

Rule: after a patch only the parts that it changed are checked, whatever the size of the state,
because everything else was checked when it was added. Unknown fields are kept and ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from msgspec import Struct

from contextrelay.content.untrusted.hidden_chars import spell_hidden
from contextrelay.documents.patch import Operation, Tree, UndoStep, changed_positions
from contextrelay.documents.pointer import parse
from contextrelay.documents.values import is_list, is_object, quote_value
from contextrelay.errors import NotFound, Refused

SCHEMA = "com.relay.state.v1"
METRICS = ("cache_hits", "cache_misses", "tokens_estimate", "tokens_avoided", "hop_count")

# Fields that only Context Relay writes, and why.
OWN_FIELDS = {
    "$schema": "it names the format",
    "thread_id": "it says whose state this is",
    "version": "each patch adds one to it",
    "updated_at": "each patch sets it",
    "metrics": "they are measured, not written; live ones are in stats",
}


class _Rule(NamedTuple):
    """The type of a field of a state."""

    says: str
    allows: Callable[[Any], bool]
    is_optional: bool = False


def _one_of(*allowed: str) -> _Rule:
    def is_allowed(value: Any) -> bool:
        return value in allowed

    return _Rule(" or ".join(f'"{one}"' for one in allowed), is_allowed)


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_texts(value: Any) -> bool:
    return is_list(value) and all(map(_is_text, value))


def _is_share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _is_anything(_: Any) -> bool:
    return True


_TEXT = _Rule("a string", _is_text)
_MAYBE_TEXT = _Rule("a string, or omitted", _is_text, is_optional=True)
_TEXTS = _Rule("a list of strings", _is_texts)
_ANYTHING = _Rule("any JSON value", _is_anything)
_SHARE = _Rule("a number from 0 to 1", _is_share)

AHEAD = ("pending", "in_progress")  # The statuses of a plan step that is not done yet.

SHAPES: Mapping[str, Mapping[str, _Rule]] = {
    "facts": {"id": _TEXT, "key": _TEXT, "value": _ANYTHING, "at": _MAYBE_TEXT},
    "constraints": {"id": _TEXT, "description": _TEXT, "severity": _one_of("hard", "soft")},
    "open_questions": {"id": _TEXT, "question": _TEXT, "status": _one_of("open", "resolved")},
    "decisions": {
        "id": _TEXT,
        "description": _TEXT,
        "reason_codes": _TEXTS,
        "evidence_refs": _TEXTS,
        "confidence": _SHARE,
        "at": _MAYBE_TEXT,
    },
    "plan": {"id": _TEXT, "step": _TEXT, "status": _one_of(*AHEAD, "done", "skipped")},
    "artifacts": {"ref": _TEXT, "type": _TEXT, "name": _MAYBE_TEXT},
    "last_actions": {"at": _TEXT, "description": _TEXT, "result_ref": _MAYBE_TEXT},
}
# For each list, the field that names an artifact.
_REF_FIELDS = {"artifacts": "ref", "decisions": "evidence_refs", "last_actions": "result_ref"}
# The number of levels in the path of the deepest rule: /decisions/0/evidence_refs/1.
_RULE_DEPTH = 4


def new_state(thread_id: str, at: str) -> dict[str, Any]:
    """Return the state of a new thread, at version 1."""
    return {
        "$schema": SCHEMA,
        "thread_id": thread_id,
        "version": 1,
        "updated_at": at,
        **{name: [] for name in SHAPES},
        "metrics": dict.fromkeys(METRICS, 0),
    }


def check_patch(operations: Iterable[Operation]) -> None:
    """Check that a patch does not change the fields that only Context Relay writes.

    It may test and copy them.

    Raises:
        Refused: the patch changes such a field.
    """
    for index, operation in enumerate(operations):
        if operation.op == "test":
            continue
        written = [operation.path]
        if operation.op == "move" and isinstance(operation.from_, str):
            written.append(operation.from_)
        for path in written:
            tokens = parse(path)
            where, details = f"operation {index}, {operation.op}", {"operation": index}
            if not tokens:
                wrong = f"{where}: the state as a whole cannot be patched"
                raise Refused(wrong, "patch its members, such as /facts/-", details)
            if tokens[0] in OWN_FIELDS:
                wrong = f"/{tokens[0]} cannot be patched, {OWN_FIELDS[tokens[0]]}"
                wrong = f"{where} {quote_value(path)}: {wrong}"
                raise Refused(wrong, "remove this operation", details)


def check_touched(
    state: dict[str, Any], steps: Iterable[UndoStep], is_known_artifact: Callable[[str], bool]
) -> None:
    """Check the parts of a state that a patch changed, after all of its steps are applied.

    Raises:
        Refused: a value is invalid, or names an artifact that does not exist.
    """
    tree = changed_positions(steps, _RULE_DEPTH)
    _check(state, dict.fromkeys(_all_fields()) if tree is None else tree, is_known_artifact)


def check_state(state: Any, is_known_artifact: Callable[[str], bool]) -> None:
    """Check a whole state, such as an imported one.

    Raises:
        Refused: a value is invalid, or names an artifact that does not exist.
    """
    _check(state, dict.fromkeys(_all_fields()), is_known_artifact)


def _all_fields() -> Sequence[str]:
    return (*OWN_FIELDS, *SHAPES, "session_summary")


def _check(state: Any, tree: Tree, is_known_artifact: Callable[[str], bool]) -> None:
    if not is_object(state):
        raise Refused("the state is not an object", "it has " + ", ".join(_all_fields()))
    for name, below in cast("dict[str, Tree | None]", tree).items():
        value = state.get(name)
        if name in SHAPES:
            if not is_list(value):
                wrong = "is not a list" if name in state else "is missing"
                raise Refused(f"/{name} {wrong}", "to empty it, replace it with []")
            _check_items(name, value, below, is_known_artifact)
        elif name == "metrics":
            figures = value if is_object(value) else {}
            for each in METRICS:
                count = figures.get(each)
                if type(count) is not int or count < 0:
                    hint = "it must be an integer of 0 or more"
                    raise Refused(f"/metrics/{each} is not a count", hint)
        elif name == "version":
            if type(value) is not int or value < 1:
                raise Refused("/version is invalid", "it must be an integer of 1 or more")
        elif name == "$schema":
            if value != SCHEMA:
                raise Refused("/$schema is not supported", f'it must be "{SCHEMA}"')
        elif (name in OWN_FIELDS or (name == "session_summary" and name in state)) and (
            type(value) is not str
        ):
            raise Refused(f"/{name} is not a string", f"/{name} must be a string")


def _check_items(
    name: str, items: list[Any], tree: Tree | None, is_known_artifact: Callable[[str], bool]
) -> None:
    if tree is None:
        tree = dict.fromkeys(range(len(items)))
    for index, below in cast("dict[int, Tree | None]", tree).items():
        item = items[index]
        _check_item(name, index, item)
        for ref in _new_refs(name, item, below):
            if not is_known_artifact(ref):
                wrong = f"names the artifact {quote_value(ref)}, which does not exist"
                hint = "add the artifact first, or remove its ref"
                raise Refused(f"/{name}/{index}/{_REF_FIELDS[name]} {wrong}", hint)


def _new_refs(name: str, item: dict[str, Any], tree: Tree | None) -> list[str]:
    """Return the refs that a patch added: older ones may name artifacts removed since."""
    field = _REF_FIELDS.get(name)
    if field is None or field not in item or (tree is not None and field not in tree):
        return []
    if name != "decisions":
        return [item[field]]
    which = tree[field] if tree else None
    refs: list[str] = item[field]
    return refs if which is None else [refs[index] for index in cast("dict[int, None]", which)]


def _check_item(name: str, index: int, item: Any) -> None:
    rules = SHAPES[name]
    if not is_object(item):
        hint = f"pass an object with {', '.join(rules)}"
        raise Refused(f"/{name}/{index} is not an object", hint)
    for field, rule in rules.items():
        if field in item:
            if not rule.allows(item[field]):
                raise Refused(f"/{name}/{index}/{field} is not allowed", f"it must be {rule.says}")
        elif not rule.is_optional:
            raise Refused(f"/{name}/{index} has no {field}", f"it must be {rule.says}")


def fact(key: str, value: Any, id: str, at: str | None = None) -> Operation:
    """Return the operation that appends a fact."""
    return _append("facts", id=id, key=key, value=value, at=at)


def constraint(description: str, id: str, severity: str = "hard") -> Operation:
    """Return the operation that appends a constraint."""
    return _append("constraints", id=id, description=description, severity=severity)


def question(text: str, id: str, status: str = "open") -> Operation:
    """Return the operation that appends a question."""
    return _append("open_questions", id=id, question=text, status=status)


def step(text: str, id: str, status: str = "pending") -> Operation:
    """Return the operation that appends a step of the plan."""
    return _append("plan", id=id, step=text, status=status)


def decision(
    description: str,
    id: str,
    reason_codes: Sequence[str] = (),
    evidence_refs: Sequence[str] = (),
    confidence: float = 1.0,
    at: str | None = None,
) -> Operation:
    """Return the operation that appends a decision."""
    return _append(
        "decisions",
        id=id,
        description=description,
        reason_codes=list(reason_codes),
        evidence_refs=list(evidence_refs),
        confidence=confidence,
        at=at,
    )


def action(description: str, at: str, result_ref: str | None = None) -> Operation:
    """Return the operation that appends an action."""
    return _append("last_actions", at=at, description=description, result_ref=result_ref)


def artifact(ref: str, type: str, name: str | None = None) -> Operation:
    """Return the operation that appends an artifact."""
    return _append("artifacts", ref=ref, type=type, name=name)


def _append(list_name: str, /, **fields: Any) -> Operation:
    rules = SHAPES[list_name]
    # Optional fields that are None are omitted.
    kept = (
        name for name, each in fields.items() if each is not None or not rules[name].is_optional
    )
    return Operation("add", f"/{list_name}/-", {name: fields[name] for name in kept})


# Entries: facts, constraints, questions, steps and decisions, as patches.
#
# Rule: the id of an entry is short, and unique in the state for which it was chosen. So a patch
# that adds an entry is valid for one version only, and is built again for the next version.

State = dict[str, Any]
Kind = Literal["fact", "constraint", "question", "step", "decision"]
DEFAULT_KEY = "note"  # Of a fact that was added without a key; such facts replace no other.


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
_ENDINGS = (("open_questions", ("open",), "resolved"), ("plan", AHEAD, "done"))
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
            added = fact(entry.key or DEFAULT_KEY, entry.text, chosen, at)
        case "constraint":
            added = constraint(entry.text, chosen, entry.severity)
        case "question":
            added = question(entry.text, chosen)
        case "step":
            added = step(entry.text, chosen)
        case "decision":
            given = entry.reasons, entry.evidence, entry.confidence
            added = decision(entry.text, chosen, *given, at)
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
