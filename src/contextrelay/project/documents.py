"""The contents of the four files: templates, JSON documents, and three-way merges.

Rule: loading and dumping a document keeps the order of its members, its indentation, its line
endings and its byte order mark. A merge applies the changes of both sides. If both sides set one
field to different values, the value on disk stays, and the other value is recorded as a conflict.
"""

from __future__ import annotations

import json
import re
from typing import Any

from contextrelay.documents.values import is_equal, is_list, is_object, read_json
from contextrelay.errors import Broken, Conflict, Invalid, Refused
from contextrelay.limits import PROJECT_FILE_BYTES_MAX
from contextrelay.model.project import DECISIONS, STATE, Clash, ProjectTexts
from contextrelay.project.confined import BOM, broken, newline_of
from contextrelay.project.decisions import append_section, read_decisions

Document = dict[str, Any]
CONFLICTS = "conflicts"
_REPAIR = "fix the file by hand or restore it from git; nothing was changed"
_MISSING: Any = object()
_PROJECT_MD = """# {name}

## One-Line Description
{description}

## Tech Stack
- Frontend:
- Backend:
- Database:
- Deployment:

## Directory Structure
/src - Source code
/docs - Documentation
/tests - Tests

## Key Constraints
[Rules that must be followed, such as API compatibility, performance requirements]

## Related Documents
- Architecture decisions: decisions.md
- Current state: state.json
- Todo items: todos.json
"""


def new_texts(name: str, now: str, description: str = "") -> ProjectTexts:
    """Return the texts of the files of a new project."""
    description = description or "[What this project is, what problem it solves]"
    return ProjectTexts(
        about=_PROJECT_MD.format(name=name, description=description),
        state=dump_document(new_state(now)),
        todos=dump_document(new_todos(now)),
        decisions="# Architecture Decision Records\n",
    )


def new_state(now: str) -> Document:
    """Return the document of a new state.json."""
    return {
        "phase": "planning",
        "current_task": "",
        "progress": {"completed": [], "in_progress": "", "blocked": [], "next_steps": []},
        "last_update": now,
        "session_id": "",
        "notes": "",
    }


def new_todos(now: str) -> Document:
    """Return the document of a new todos.json."""
    return {"todos": [], "last_review": now}


def load_document(text: str | None, name: str) -> Document:
    """Return the object in state.json or todos.json, or an empty object for a missing file.

    Raises:
        Broken: the file is not valid JSON; Refused: it is not an object.
    """
    document: Any = {} if text is None else _load(text, name)
    if not is_object(document):
        raise Refused(f"{name} is not a JSON object", "write { ... }; see: relay project doctor")
    return document


def _load(text: str, name: str) -> Any:
    start = 1 if text.startswith(BOM) else 0
    if not text[start:].strip():
        raise broken(name, text, len(text), "the file is empty", f"write {{}}, or {_REPAIR}")
    try:
        return read_json(text[start:], name, PROJECT_FILE_BYTES_MAX)
    except Invalid as error:
        cause = error.__cause__
        if isinstance(cause, json.JSONDecodeError):
            problem = cause.msg[:1].lower() + cause.msg[1:]
            raise broken(name, text, cause.pos + start, problem, _REPAIR) from error
        raise Broken(error.message, _REPAIR, {"file": name}) from error


def dump_document(value: Any, old: str | None = None) -> str:
    """Return a value as JSON in the style of the old text, or the old text of an unchanged value.

    Raises:
        Invalid: the value cannot be written as JSON.
    """
    before: Any = {} if old is None else _load(old, "the old text")
    if old is not None and is_equal(before, value):
        return old
    if is_object(before) and is_object(value):
        value = {name: value[name] for name in before if name in value} | value
    body = (old or "").removeprefix(BOM)
    start = re.match(r"\s*[{\[]\s*?\n([ \t]*)", body)
    is_new = body.strip() in ("", "{}")
    indent = "  " if is_new else start[1] if start else None
    is_tight = indent is None and '": ' not in body
    separators = (",", ":") if is_tight else (", " if indent is None else ",", ": ")
    is_ascii = body.isascii() and "\\u" in body
    try:
        text = json.dumps(value, indent=indent, ensure_ascii=is_ascii, separators=separators)
        # Content that could not be read again must not be written.
        read_json(text.encode(), "the new value", PROJECT_FILE_BYTES_MAX)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"not a JSON value: {error}", "use objects, lists and texts") from error
    end = body[len(body.rstrip()) :] if old is not None else "\n"
    mark = BOM if old is not None and old.startswith(BOM) else ""
    return mark + (text + end.replace("\r\n", "\n")).replace("\n", newline_of(body))


def merge_texts(name: str, base: str | None, ours: str, disk: str, now: str) -> str:
    """Return our text of a file merged with the text on disk. Both were made from the text `base`.

    Raises:
        Broken: the text on disk is not valid JSON; Conflict: the file cannot be merged.
    """
    if disk in (ours, base):
        return ours
    if name.endswith(".json"):
        before: Any = _load(base, name) if base else {}
        value, clashes = merge(before, _load(ours, name), _load(disk, name))
        if name == STATE and is_object(value):
            add_conflicts(value, clashes, now)
        return dump_document(value, disk)
    if name == DECISIONS:
        return _merge_decisions(base or "", ours, disk)
    raise Conflict(f"{name} was edited at the same time", "compare both versions, then try again")


def _merge_decisions(base: str, ours: str, disk: str) -> str:
    def with_number(section: str, number: str) -> str:
        return re.sub(r"ADR[- ]?[0-9]+", f"ADR{number}", section, count=1)

    # The numbers are not compared, because a decision that got another number must not be appended
    # again.
    known = {with_number(each.text, "") for text in (base, disk) for each in read_decisions(text)}
    for each in read_decisions(ours):
        if with_number(each.text, "") not in known:
            numbers = [other.number for other in read_decisions(disk)]
            number = each.number if each.number not in numbers else max(numbers) + 1
            disk = append_section(disk, with_number(each.text, f"-{number:03d}"))
    return disk


def merge(base: Any, ours: Any, theirs: Any, field: str = "") -> tuple[Any, list[Clash]]:
    """Return the merge of two values that were made from `base`, and the conflicts.

    In a conflict, the value of `theirs` stays. Lists are merged by the ids of their items, or as
    sets of simple values.
    """
    if _is_same(ours, base) or _is_same(ours, theirs):
        return theirs, []
    if _is_same(theirs, base):
        return ours, []
    if is_object(ours) and is_object(theirs):
        return _merge_named(base if is_object(base) else {}, ours, theirs, field)
    if is_list(ours) and is_list(theirs):
        before = base if is_list(base) else []
        one, two, three = _by_id(before), _by_id(ours), _by_id(theirs)
        if one is not None and two is not None and three is not None:
            merged, clashes = _merge_named(one, two, three, field)
            return list(merged.values()), clashes
        if not any(is_object(each) or is_list(each) for each in [*before, *ours, *theirs]):
            result = [each for each in theirs if _has(ours, each) or not _has(before, each)]
            for each in ours:
                if not _has(before, each) and not _has(result, each):
                    result.append(each)
            return result, []
    # If one side changes a value and the other removes it, the change is kept.
    if theirs is _MISSING:
        return ours, []
    return theirs, [] if ours is _MISSING else [Clash(field, theirs, ours)]


def _is_same(one: Any, other: Any) -> bool:
    return one is other if _MISSING in (one, other) else is_equal(one, other)


def _has(values: list[Any], value: Any) -> bool:
    return any(is_equal(value, each) for each in values)


def _merge_named(
    base: Document, ours: Document, theirs: Document, field: str
) -> tuple[Document, list[Clash]]:
    result: Document = {}
    clashes: list[Clash] = []
    for name in dict.fromkeys([*theirs, *ours]):
        values = (side.get(name, _MISSING) for side in (base, ours, theirs))
        value, found = merge(*values, field=f"{field}.{name}" if field else name)
        clashes += found
        if value is not _MISSING:
            result[name] = value
    return result, clashes


def _by_id(items: list[Any]) -> Document | None:
    """Return the items by their ids, or None if an id is missing or is used twice."""
    ids = [item.get("id") if is_object(item) else None for item in items]
    found = {each: item for each, item in zip(ids, items, strict=True) if isinstance(each, str)}
    return found if len(found) == len(items) else None


def objects_of(value: Any) -> list[Document]:
    """Return the objects in a list, or [] for any other value."""
    return [each for each in value if is_object(each)] if is_list(value) else []


def conflicts_of(state: Document) -> list[Document]:
    """Return the conflicts that are recorded in a state."""
    return objects_of(state.get(CONFLICTS))


def add_conflicts(state: Document, clashes: list[Clash], now: str) -> None:
    """Record conflicts in a state. A conflict that is already recorded is not added again."""
    known = conflicts_of(state)
    for clash in clashes:
        entry = clash._asdict()
        if not any(all(is_equal(each.get(name), entry[name]) for name in entry) for each in known):
            known.append({**entry, "at": now})
    if clashes:
        state[CONFLICTS] = known
