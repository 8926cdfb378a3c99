"""Templates: `{{steps.plan.ref}}` in a text, and nothing cleverer.

A value is a root (`inputs`, `steps`, `item`, `run`) followed by names and indexes:
`{{inputs.topic}}`, `{{steps.plan.json.items[0].title}}`, `{{item}}`. There are no calls, no
attributes and no expressions: what is looked up is a JSON document that the runner made.

`{{{{` stands for `{{` as it is.

Rule: a template is parsed once, when the pipeline is read. What a value holds is never parsed
again, so an input that looks like a template is a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from contextrelay.documents.values import is_list, is_object, shown
from contextrelay.errors import Invalid
from contextrelay.limits import TEMPLATE_PATH_MAX

ROOTS = ("inputs", "steps", "item", "run")
STEP_FIELDS = ("ref", "refs", "preview", "json", "status", "by")
"""What is known of a finished step: its artifact, of a fan-out all of them; who approved it."""

_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_VALUE = re.compile(rf"({_NAME})((?:\.{_NAME}|\[[0-9]{{1,6}}\])*)")
_PART = re.compile(rf"\.({_NAME})|\[([0-9]+)\]")
_OPEN, _CLOSE = "{{", "}}"


class Value(Struct, frozen=True):
    """What stands between the braces: a root, and the way from it."""

    root: str
    path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        steps = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return self.root + "".join(steps)


class Template(Struct, frozen=True):
    """A text with values in it, in order."""

    parts: tuple[str | Value, ...]

    def values(self) -> list[Value]:
        return [part for part in self.parts if isinstance(part, Value)]

    @property
    def lone_value(self) -> Value | None:
        """The value, where the template is nothing but one: it then keeps its type."""
        only = self.parts[0] if len(self.parts) == 1 else None
        return only if isinstance(only, Value) else None


def parse_value(text: str) -> Value:
    """Read what stands between braces, or in a condition.

    Raises:
        Invalid: it is no value.
    """
    match = _VALUE.fullmatch(text.strip())
    if match is None:
        raise Invalid(
            f"{shown(text.strip())} is no value",
            "write one such as inputs.topic, steps.plan.ref or item.name; no calls, no operators;"
            " {{{{ for braces as they are",
        )
    parts = [name or int(index) for name, index in _PART.findall(match[2])]
    if match[1] not in ROOTS:
        raise Invalid(f"{shown(match[1])} is not known", f"begin with {', '.join(ROOTS)}")
    if len(parts) > TEMPLATE_PATH_MAX:
        raise Invalid(f"{shown(text.strip())} is too deep", f"at most {TEMPLATE_PATH_MAX} steps")
    return Value(match[1], tuple(parts))


def parse_template(text: str) -> Template:
    """Read a text with values in double braces.

    Raises:
        Invalid: braces are not closed, or hold no value.
    """
    return Template(tuple(_parts(text)))


def _parts(text: str) -> Iterator[str | Value]:
    place = number = 0
    while (start := text.find(_OPEN, place)) >= 0:
        if text.startswith(_OPEN * 2, start):
            yield text[place:start] + _OPEN
            place = start + 2 * len(_OPEN)
            continue
        stop = text.find(_CLOSE, start)
        if stop < 0:
            hint = "close it, or write {{{{ for braces as they are"
            raise Invalid("{{ without }}", hint, {"value": number})
        if start > place:
            yield text[place:start]
        try:
            yield parse_value(text[start + len(_OPEN) : stop])
        except Invalid as error:
            error.details["value"] = number
            raise
        number += 1
        place = stop + len(_CLOSE)
    if place < len(text) or not text:
        yield text[place:]


def look_up(value: Value, known: Mapping[str, Any]) -> Any:
    """The value in what is known.

    Raises:
        Invalid: it is not there.
    """
    found: Any = dict(known)
    for part in (value.root, *value.path):
        here: Any = found
        is_there = part < len(here) if is_list(here) and isinstance(part, int) else False
        if not is_there and not (is_object(here) and part in here):
            raise Invalid(
                f"{{{{{value}}}}} has no value: there is no {shown(str(part))}",
                "look at what the step before gave: relay pipeline show RUN",
            )
        found = found[part]
    return found
