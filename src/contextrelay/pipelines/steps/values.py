"""The values of a step: looked up in the results of the run, and inserted where the step uses them.

Rule: a value is always data. In a prompt it is fenced, in a shell line it is an environment
variable, and in a list of words it is part of one word. Its content is never parsed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import DecodeError, Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from contextrelay.client.relay import Relay
from contextrelay.content.untrusted.fence import fenced
from contextrelay.documents.values import is_list, is_object
from contextrelay.errors import Gone, Invalid, NotFound, TooLarge
from contextrelay.limits import FOREACH_ITEMS_MAX, STEP_JSON_BYTES_MAX
from contextrelay.model.ref import is_ref
from contextrelay.pipelines.expressions import (
    Expression,
    Template,
    Value,
    holds,
    look_up,
    values_of,
)
from contextrelay.pipelines.language import Step


class StepSummary(Struct, frozen=True):
    """A summary of a finished step, small enough to be sent to workers."""

    status: str
    ref: str | None = None
    by: str | None = None
    is_fan_out: bool = False


class Scope(Struct, frozen=True):
    """The values that a step can look up. Content is only referred to, and is read when it is
    used.
    """

    inputs: dict[str, Any]
    steps: dict[str, StepSummary]
    run: dict[str, str]
    item: Any = None


class Values:
    """Looks up the values of a step. The content of each ref is read from the relay only once."""

    def __init__(self, relay: Relay, scope: Scope) -> None:
        self._relay = relay
        self._scope = scope
        self._read: dict[str, Any] = {}

    def get(self, value: Value) -> Any:
        """Return a value.

        Raises:
            Invalid: the value does not exist, or is not JSON although JSON is required.
        """
        known: dict[str, Any] = {"inputs": self._scope.inputs, "run": self._scope.run}
        if value.root == "item":
            known["item"] = self._scope.item
        elif value.root == "steps":
            name, field = str(value.path[0]), str(value.path[1])
            known["steps"] = {name: self.field(name, field)}
        return look_up(value, known)

    def _known(self, values: Iterable[Value]) -> dict[str, Any]:
        """Return the document in which a condition looks up the given values."""
        steps: dict[str, dict[str, Any]] = {}
        for value in values:
            if value.root == "steps":
                name, field = str(value.path[0]), str(value.path[1])
                steps.setdefault(name, {}).update(self.field(name, field))
        known = {"inputs": self._scope.inputs, "run": self._scope.run, "steps": steps}
        return {**known, "item": self._scope.item}

    def hold(self, when: Expression | None) -> bool:
        """Return True if a condition is true, or if there is no condition."""
        return when is None or holds(when, self._known(values_of(when)))

    def field(self, name: str, field: str) -> dict[str, Any]:
        """Return one field of a step's summary as a dict with that field, or an empty dict if the
        step has no such field.
        """
        step = self._scope.steps.get(name)
        if step is None:
            return {}
        if field in ("status", "by"):
            return {field: getattr(step, field)}
        if step.ref is None:
            return {"refs": []} if field == "refs" and step.is_fan_out else {}
        if field == "refs":
            return {field: self.json(step.ref) if step.is_fan_out else [step.ref]}
        if field == "preview":
            # As in the shell's $(...), the last line break is not part of the text.
            return {field: self._relay.peek(step.ref).preview.text.removesuffix("\n")}
        return {field: step.ref if field == "ref" else self.json(step.ref)}

    def json(self, ref: str) -> Any:
        """Return the content of a ref, parsed as JSON."""
        if ref not in self._read:
            try:
                self._read[ref] = decode(self._body(ref))
            except (DecodeError, UnicodeError, RecursionError) as error:
                raise Invalid(
                    f"{ref} is not valid JSON: {error}",
                    "let the earlier step return JSON: add out: with a schema: to it",
                ) from error
        return self._read[ref]

    def _body(self, ref: str) -> bytes:
        size_bytes = self._relay.peek(ref).size_bytes
        if size_bytes > STEP_JSON_BYTES_MAX:
            raise TooLarge(
                f"{ref} has {size_bytes:,} bytes",
                f"at most {STEP_JSON_BYTES_MAX:,} bytes are allowed in a value; pass the ref "
                "instead",
            )
        return self._relay.pull(ref)

    def sha256(self, ref: str) -> str | None:
        """Return the hash of the content of a ref, or None if the text is not the ref of an
        artifact.
        """
        try:
            return self._relay.peek(ref).sha256
        except (NotFound, Gone):
            return None

    def refs_in(self, used: Iterable[Value]) -> list[str]:
        """Return the refs that occur in the given values."""
        found: dict[str, None] = {}
        for value in used:
            if value.root == "steps":
                if value.path[1] in ("status", "by"):
                    continue
                value = replace(value, path=(value.path[0], "refs"))
            looked = self.get(value)
            every: list[Any] = looked if is_list(looked) else [looked]
            for each in every:
                if _is_ref(each) and (value.root == "steps" or self.sha256(each)):
                    found[each] = None
        return list(found)

    def items(self, foreach: Template | tuple[Any, ...]) -> list[Any]:
        """Return the items of a fan-out: those of a list, or the JSON array or the lines of a text
        or of a ref's content.

        Raises:
            TooLarge: there are too many items.
        """
        found: Any = list(foreach) if isinstance(foreach, tuple) else self.get(_lone(foreach))
        if isinstance(found, str):
            text = self._body(found).decode(errors="replace") if is_ref(found) else found
            found = _array(text)
        if not is_list(found):
            raise Invalid(
                f"foreach cannot iterate over a {type(found).__name__}",
                "pass a list, lines, or a JSON array",
            )
        if len(found) > FOREACH_ITEMS_MAX:
            raise TooLarge(
                f"foreach over {len(found):,} items: the limit is {FOREACH_ITEMS_MAX:,}",
                "split the list, or handle several items per step",
            )
        return found

    # Rendering

    def text(self, template: Template, shown: Callable[[Any], str] | None = None) -> str:
        """Return a template with its values inserted. `shown` formats each value."""
        write = shown or as_text
        return "".join(
            part if isinstance(part, str) else write(self.get(part)) for part in template.parts
        )

    def prompt(self, template: Template) -> str:
        """Return a template with its values inserted for a model. Foreign text is fenced; refs and
        numbers are not.
        """
        parts: list[str] = []
        for part in template.parts:
            if isinstance(part, str):
                parts.append(part)
                continue
            found = self.get(part)
            every: list[Any] = found if is_list(found) and found else [found]
            if all(_is_ref(each) or not isinstance(each, str | list | dict) for each in every):
                parts.append(as_text(found).replace("\n", " "))
            else:
                parts.append(f"\n{fenced(as_text(found), str(part))}\n")
        return "".join(parts)

    def document(self, args: Any) -> Any:
        """Return the arguments with their values inserted. A text that is a single value keeps the
        type of the value.
        """
        if isinstance(args, Template):
            return self.get(_lone(args)) if args.lone_value else self.text(args)
        if is_object(args):
            return {name: self.document(each) for name, each in args.items()}
        return [self.document(each) for each in args] if is_list(args) else args

    def refs(self, templates: Iterable[Template]) -> list[str]:
        """Return the refs that a step shows to a model. A value may be a list of refs."""
        found: list[str] = []
        for template in templates:
            value = self.document(template)
            for each in value if is_list(value) else [value]:
                if each is None:
                    continue  # This item of a fan-out failed, so it has no ref.
                if not _is_ref(each):
                    raise Invalid(f"{str(each)[:80]!r} is not a ref", "pass {{steps.NAME.ref}}")
                found.append(each)
        return list(dict.fromkeys(found))

    def word(self, template: Template) -> str:
        """Return a word of a command, or an environment variable, with its values inserted.

        Raises:
            Invalid: a value contains a NUL, which cannot be passed to a command.
        """
        text = self.text(template)
        if "\0" in text:
            name = next(part for part in template.values() if "\0" in as_text(self.get(part)))
            hint = "pass the ref, and let the command pull it"
            raise Invalid(
                f"{{{{{name}}}}} contains a NUL character, which cannot be passed to a command",
                hint,
            )
        return text


def _lone(template: Template) -> Value:
    assert template.lone_value is not None
    return template.lone_value


def _is_ref(value: Any) -> bool:
    return isinstance(value, str) and is_ref(value)


def as_text(value: Any) -> str:
    """Return a value as text: a text as it is, a list of refs with one ref per line, anything else
    as JSON.
    """
    if isinstance(value, str):
        return value
    if is_list(value) and value and all(isinstance(each, str) for each in value):
        return "\n".join(map(str, value))
    return encode(value).decode()


def _array(text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            found = decode(text)
        except (DecodeError, RecursionError):
            found = None
        if is_list(found):
            return found
    return [line for line in text.splitlines() if line.strip()]


_NOT_CONTENT = (
    *("name", "place", "needs", "when", "retries", "timeout_s", "cache_s", "on_failure"),
    *("max_parallel", "foreach"),
)


def fingerprint(step: Step, values: Values, used: Iterable[Value]) -> dict[str, Any]:
    """Return what a result depends on: the definition of the step, and the hashes of its values."""

    def by_content(value: Any) -> Any:
        if _is_ref(value):
            return values.sha256(value) or value
        if is_list(value):
            return [by_content(each) for each in value]
        if is_object(value):
            return {name: by_content(each) for name, each in value.items()}
        return value

    definition = {
        name: getattr(step, name) for name in step.__struct_fields__ if name not in _NOT_CONTENT
    }
    found: Mapping[str, Any] = {str(value): by_content(values.get(value)) for value in used}
    return {"step": definition, "values": found}
