"""The Python page: docs/python.md, written from the signatures by `python -m` of this file.

Rule: nothing here is written by hand but the frame; a test holds the page to the code.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Struct, UnsetType
from msgspec.structs import fields as fields_of

import contextrelay
from contextrelay import errors
from contextrelay.client.content import Content
from contextrelay.client.thread import Thread
from contextrelay.model.artifact import ArtifactType

FRAME = Path(__file__).with_name("python_page.md")
_LINE_CHARS = 88
_ALIASES: dict[str, Any] = {"Content": Content, "ArtifactType": ArtifactType}


def page() -> str:
    """Write the page."""
    return FRAME.read_text() + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    values: dict[str, Any] = {}
    relay: Any = contextrelay.Relay
    yield from ("", "## Relay and AsyncRelay", "", _signature("Relay", relay.__init__, values))
    yield from ("", _paragraphs(relay.__doc__))
    yield from _methods("relay", relay, values)
    yield from ("", "## Thread and AsyncThread", "")
    yield "What `relay.thread` and `relay.new_thread` give: a thread's verbs without its id."
    yield from _methods("thread", Thread, values)
    yield from ("", "## pack", "", _signature("pack", contextrelay.pack, values))
    yield from ("", _paragraphs(contextrelay.pack.__doc__))
    yield from ("", "## capability", "", _signature("capability", contextrelay.capability, values))
    yield from ("", _paragraphs(contextrelay.capability.__doc__))
    handles: dict[type, str] = {
        contextrelay.Pipeline: "pipeline",
        contextrelay.ContextRelay: "hub",
        contextrelay.AgentBridge: "bridge",
    }
    for kind, handle in handles.items():
        name = kind.__name__
        yield from ("", f"## {name}", "", _signature(name, kind.__init__, values))
        yield from ("", _paragraphs(kind.__doc__))
        yield from _methods(handle, kind, values)
    yield from _errors()
    for name in contextrelay.__all__:
        _note(getattr(contextrelay, name), values)
    yield from _values(values)


def _methods(handle: str, kind: type, values: dict[str, Any]) -> Iterator[str]:
    for name, method in inspect.getmembers(kind, inspect.isroutine):
        if name.startswith("_") or name in ("ask", "handle", "hear", "hearing"):
            continue
        yield from ("", f"### {handle}.{name}", "", _signature(name, method, values))
        yield from ("", _paragraphs(method.__doc__))


def _signature(name: str, function: Callable[..., Any], values: dict[str, Any]) -> str:
    """A signature as a block: in one line, or a line for each parameter where that is long."""
    signature = inspect.signature(function)
    hints = {} if hasattr(function, "__wrapped__") else get_type_hints(function)
    parameters: list[str] = []
    kinds = inspect.Parameter
    is_starred = False
    for each in signature.parameters.values():
        if each.name == "self":
            continue
        if each.kind is kinds.KEYWORD_ONLY and not is_starred:
            parameters.append("*")
            is_starred = True
        annotation = hints.get(each.name, each.annotation)
        _note(annotation, values)
        text = f"{each.name}: {spelled(annotation)}"
        if each.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD):
            text = ("*" if each.kind is kinds.VAR_POSITIONAL else "**") + text
        if each.default is not each.empty:
            text += f" = {_default(each.default)}"
        parameters.append(text)
        if each.kind is kinds.POSITIONAL_ONLY:
            parameters.append("/")
    returns = hints.get("return", signature.return_annotation)
    _note(returns, values)
    end = "" if name[0].isupper() else f" -> {spelled(returns)}"
    line = f"{name}({', '.join(parameters)}){end}"
    if len(line) > _LINE_CHARS:
        line = f"{name}(\n" + "".join(f"    {each},\n" for each in parameters) + f"){end}"
    return f"```text\n{line}\n```"


def _default(value: object) -> str:
    return "..." if callable(value) else repr(value)


def spelled(annotation: Any) -> str:
    """A type as people write it, the same in every version of Python."""
    for name, alias in _ALIASES.items():
        if annotation == alias:
            return name
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return spelled(args[0])
    if origin in (Union, UnionType):
        rest = [each for each in args if each is not UnsetType]
        names = ["Content"] if set(get_args(Content)) <= set(rest) else []
        names += [spelled(each) for each in rest if not names or each not in get_args(Content)]
        return " | ".join(names)
    if origin is Literal:
        return " | ".join(map(repr, args))
    if annotation in (None, NoneType):
        return "None"
    if isinstance(annotation, list):
        return f"[{', '.join(map(spelled, annotation))}]"  # pyright: ignore[reportUnknownArgumentType]
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")
    name = "..." if annotation is Ellipsis else name
    if isinstance(annotation, TypeVar) or not args:
        return name
    return f"{name}[{', '.join(map(spelled, args))}]"


def _note(annotation: Any, values: dict[str, Any]) -> None:
    """Note the values of ours that a type names, and those that they hold."""
    for each in get_args(annotation):
        _note(each, values)
    if not isinstance(annotation, type) or not issubclass(annotation, Struct):
        return
    if annotation.__module__.startswith("contextrelay.") and annotation.__name__ not in values:
        values[annotation.__name__] = annotation
        for field in fields_of(annotation):
            _note(field.type, values)


def _values(values: dict[str, Any]) -> Iterator[str]:
    yield from ("", "## Values", "")
    types = " ".join(f"`{each}`" for each in get_args(ArtifactType))
    yield "What methods give, and what these hold. All are frozen."
    yield f"An `ArtifactType` is one of {types}."
    for name, kind in sorted(values.items()):
        yield from ("", f"### {name}", "", _paragraphs(kind.__doc__), "")
        for field in fields_of(kind):
            yield f"- `{field.name}`: `{spelled(field.type)}`"
        for each, value in cast("dict[str, Any]", vars(kind)).items():
            if isinstance(value, property) and not each.startswith("_"):
                hint = get_type_hints(value.fget).get("return")
                yield f"- `{each}`: `{spelled(hint)}`, computed"


def _errors() -> Iterator[str]:
    yield from ("", "## Errors", "")
    yield "All are a `RelayError`, with `message`, `hint` (the next step), `details` and `code`."
    yield from ("", "| error | is | code | when |", "|---|---|---|---|")
    for name in contextrelay.__all__:
        kind = getattr(errors, name, None)
        if inspect.isclass(kind) and issubclass(kind, errors.RelayError):
            above = kind.__mro__[1].__name__
            first = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
            yield f"| `{name}` | `{above}` | `{kind.code}` | {first} |"


def _paragraphs(doc: str | None) -> str:
    """A docstring as Markdown: its last part, on errors, as a list."""
    text, _, raises = inspect.cleandoc(doc or "").partition("\n\nRaises:\n")
    lines = [text]
    if raises:
        lines += ["", "Raises:", ""]
        for line in inspect.cleandoc(raises).splitlines():
            name, colon, rest = line.partition(": ")
            is_new = colon and name.isidentifier()
            lines.append(f"- `{name}`: {rest}" if is_new else f"  {line.strip()}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())
