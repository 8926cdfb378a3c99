"""Functions that format patch operations, events and items of a state as one line, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import convert
from msgspec.json import encode

from contextrelay.cli import display
from contextrelay.documents.values import is_object
from contextrelay.limits import STATE_BYTES_MAX
from contextrelay.model.thread import Event
from contextrelay.state.schema import DEFAULT_KEY

LINE_CHARS = 100
# For each kind of item, the name of the field that holds its text.
_TEXT_FIELDS = ("value", "description", "question", "step", "name", "ref")
_SIGNS = {"add": "+", "remove": "-", "replace": "~", "move": ">", "copy": "&", "test": "="}


def value(given: Any) -> str:
    """Format a JSON value, shortened to one line."""
    return display.cut(whole_value(given), LINE_CHARS)


def whole_value(given: Any) -> str:
    return display.clean(encode(given).decode())


def item(given: Any) -> str:
    """Format a list item of a state: its text and its id."""
    if not is_object(given):
        return value(given)
    fields = given
    for name in _TEXT_FIELDS:
        if name in fields:
            id = f" ({display.clean(str(fields['id']))})" if "id" in fields else ""
            if name == "ref":
                return display.short(display.clean(str(fields[name])))
            return f"{key_of(fields)}{value(fields[name])}{id}"
    return value(fields)


def key_of(fact: dict[str, Any]) -> str:
    """Return the key of a fact and a colon, or "" if the key was generated."""
    key = fact.get("key")
    return f"{display.clean(str(key))}: " if key and key != DEFAULT_KEY else ""


def text_of(given: Any) -> str:
    """Format a value for people: a string is shown without quotes."""
    return display.clean(given) if isinstance(given, str) else whole_value(given)


def operation(given: dict[str, Any]) -> str:
    """Format one operation of a patch."""
    sign = _SIGNS.get(given["op"], "?")
    path = display.clean(given["path"])
    if given["op"] == "add" and (name := _ENTRY_NAMES.get(path.removesuffix("/-"))):
        return f"+ {name} {item(given['value'])}"
    if "from" in given:
        return f"{sign} {path}  from {display.clean(given['from'])}"
    return f"{sign} {path}  {item(given['value'])}" if "value" in given else f"{sign} {path}"


def operations(given: list[dict[str, Any]]) -> str:
    """Format a patch as one line: the first operation, and the number of further operations."""
    if not given:
        return "no changes"
    return operation(given[0]) + _more(given[1:])


def _more(others: list[dict[str, Any]]) -> str:
    return f"  and {display.count(len(others), 'more operation')}" if others else ""


def patch(old: dict[str, Any] | None, given: list[dict[str, Any]]) -> str:
    """Format a patch as one line, with the values that it replaces in the state `old`."""
    if old is not None and len(given) == 2 and [each["op"] for each in given] == ["remove", "add"]:
        removed, added = _found(old, given[0]["path"]), given[1]["value"]
        if is_object(removed) and is_object(added) and removed.get("key") == added.get("key"):
            return f"~ {key_of(added)}{value(removed['value'])} -> {value(added['value'])}"
    first = given[0]
    if old is None or first["op"] != "replace":
        return operations(given)
    was, path = value(_found(old, first["path"])), display.clean(first["path"])
    return f"~ {path}  {was} -> {value(first['value'])}{_more(given[1:])}"


# The name of an entry of each list.
_ENTRY_NAMES = {
    "/facts": "fact",
    "/constraints": "constraint",
    "/open_questions": "question",
    "/decisions": "decision",
    "/plan": "step",
}


def _found(state: dict[str, Any], path: str) -> Any:
    from contextrelay.documents.pointer import find, parse

    return find(state, parse(path))


def change(old: dict[str, Any] | None, operations: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a difference, including old values. This modifies `old`.

    Pass None if no operation removes or replaces a value.
    """
    from contextrelay.documents.patch import Operation, apply
    from contextrelay.documents.pointer import find, parse

    document: list[Any] = [old or {}]
    size_bytes = len(encode(old))
    for each in operations:
        yield f"@ {display.clean(each['path'])}"
        if each["op"] in ("remove", "replace"):
            yield f"- {value(find(document[0], parse(each['path'])))}"
        if "value" in each:
            yield f"+ {value(each['value'])}"
        if "from" in each:
            yield f"+ {each['op']} from {display.clean(each['from'])}"
        if old is None:
            continue
        applied = apply(document, [convert(each, Operation)], size_bytes, 2 * STATE_BYTES_MAX)
        size_bytes = applied.size_bytes


def event(happened: Event) -> str:
    """Format the details of an event, without its type, as one line."""
    detail = happened.detail
    match happened.type:
        case "state.patch.applied":
            restored = detail.get("restored_version")
            head = f"v{detail.get('version', '?')}  "
            if restored is not None:
                head += f"restored v{restored}  "
            return head + operations(detail.get("operations", []))
        case "state.created":
            return "v1"
        case "checkpoint.created":
            return f"{display.clean(str(detail.get('label')))}  v{detail.get('version', '?')}"
        case "artifact.created":
            size = display.size(int(detail.get("size", 0)))
            return f"{display.short(str(detail.get('ref')))}  {detail.get('type')}  {size}"
        case "capability.called" | "capability.failed":
            why = display.cut(display.clean(str(detail.get("message", ""))), LINE_CHARS)
            return f"{display.clean(str(detail.get('capability')))}  {why}".rstrip()
        case "capability.invoked":
            how = "cached" if detail.get("cache_hit") else f"{detail.get('duration_ms')} ms"
            ref = display.short(display.clean(str(detail.get("artifact_ref"))))
            return f"{display.clean(str(detail.get('capability')))}  {how}  {ref}"
        case _:
            kept = {name: each for name, each in detail.items() if each is not None}
            return value(kept) if kept else ""
