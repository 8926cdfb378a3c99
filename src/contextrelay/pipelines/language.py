"""The pipeline language: read a file into a checked graph of steps, and draw graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from html import escape
from typing import Any, Literal, NamedTuple, cast, get_args

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from contextrelay.documents.args_schema import check_keywords
from contextrelay.documents.values import quote_value
from contextrelay.errors import Invalid, TooLarge
from contextrelay.model.artifact import ArtifactType
from contextrelay.pipelines import fields
from contextrelay.pipelines.expressions import (
    STEP_FIELDS,
    Expression,
    Template,
    Value,
    check_kinds,
    parse_template,
    values_of,
)
from contextrelay.pipelines.yaml_nodes import SourcePosition, YamlNode, read_yaml, refuse

PIPELINE_STEPS_MAX = 2_000


class Table:
    """A YAML mapping that is parsed by a table of its fields."""

    def __init__(
        self, file: str, node: YamlNode, what: str, table: Mapping[str, fields.Field]
    ) -> None:
        if not isinstance(node.value, dict):
            refuse(file, node.place, f"{what} must be a mapping", f"write {next(iter(table))}: ...")
        self.file = file
        self.node = node
        self.table = table
        for name in node.keys:
            if name not in table:
                meant = suggestion(name, table)
                refuse(file, node.keys[name], f"unknown field {quote_value(name)} in {what}", meant)
        for name, field in table.items():
            if field.is_required and name not in node.keys:
                refuse(file, node.place, f"missing field {name!r} in {what}", f"add {name}:")

    def values(self) -> dict[str, Any]:
        """Return the parsed value of each field by name."""
        return {
            name: _read(self.file, node, name, self.table[name])
            for name, node in self.node.items()
            if self.table[name].read is not fields.nested
        }

    def part(self, name: str, what: str, table: Mapping[str, fields.Field]) -> Table:
        node = self.node.value.get(name) or YamlNode({}, self.node.place)
        return Table(self.file, node, what, table)

    def entries(self, name: str) -> list[tuple[str, YamlNode]]:
        """Return the entries of a mapping whose keys are names that the author of the file
        chose.
        """
        node: YamlNode | None = self.node.value.get(name)
        if node is None or node.value is None:
            return []
        if not isinstance(node.value, dict):
            refuse(
                self.file,
                node.place,
                f"{name} must be a mapping",
                f"write {name}: and NAME: below it",
            )
        for each in node.keys:
            if not fields.NAME.fullmatch(each):
                hint = "use letters, digits, - and _; at most 64, starting with a letter"
                refuse(self.file, node.keys[each], f"invalid name {quote_value(each)}", hint)
        return node.items()

    def place_of(self, name: str) -> SourcePosition:
        return self.node.keys.get(name, self.node.place)


def _read(file: str, node: YamlNode, name: str, field: fields.Field) -> Any:
    try:
        return field.read(node.plain())
    except (Invalid, TooLarge) as error:
        refuse(file, node.place_in(error.details), f"{name}: {error.message}", error.hint)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: the most similar known name, or all known names."""
    names = list(known)
    near = get_close_matches(name, names, 1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"


Kind = Literal["prompt", "cli", "exec", "cap", "python", "pipeline", "approve"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The kinds of steps."""
InputType = Literal["text", "number", "integer", "boolean", "list", "object", "ref"]


class Input(Struct, frozen=True, kw_only=True):
    """An input of a run. The input is required if it has no default."""

    name: str
    type: InputType = "text"
    default: Any = UNSET
    description: str = ""


class RunBudget(Struct, frozen=True, kw_only=True):
    """The limits on what a run may spend."""

    tokens: int | None = None
    price: float | None = None
    """The maximum price in US dollars."""
    time_s: float | None = None


class Out(Struct, frozen=True, kw_only=True):
    """The name, the type and the JSON Schema of a step's result."""

    name: str | None = None
    type: ArtifactType | None = None
    schema: dict[str, Any] | None = None


class Step(Struct, frozen=True, kw_only=True):
    """A step: its kind, its parameters and its dependencies."""

    name: str
    kind: Kind
    place: SourcePosition
    target: str = ""
    """The program of `cli`, the capability of `cap`, the `module:function` of `python`, or the file
    of `pipeline`.
    """
    text: Template | None = None
    """The prompt of `prompt` and `cli`, the question of `approve`, or the shell line of `exec`."""
    words: tuple[Template, ...] = ()
    """The command of `exec`, or the arguments of `cli`."""
    args: Any = None
    """The arguments of `cap` and `python`, or the inputs of `pipeline`. Each text in them is a
    template.
    """
    refs: tuple[Template, ...] = ()
    system: Template | None = None
    model: str | None = None
    channel: str | None = None
    needs: tuple[str, ...] = ()
    """The steps that must end before this step: those in `needs`, and those whose results this step
    uses.
    """
    when: Expression | None = None
    foreach: Template | tuple[Any, ...] | None = None
    max_parallel: int | None = None
    retries: int = 0
    timeout_s: float | None = None
    cache_s: int | None = None
    """Seconds for which a result is cached. 0 disables the cache, and None is the default of the
    kind.
    """
    env: dict[str, Template] = {}
    out: Out = Out()
    on_failure: Literal["stop", "continue"] = "stop"

    @property
    def is_filtered(self) -> bool:
        """Return True if `when` is evaluated separately for each item of a fan-out."""
        return self.when is not None and any(each.root == "item" for each in values_of(self.when))


class PipelineGraph(Struct, frozen=True, kw_only=True):
    """A checked graph of steps; `steps` is in topological order."""

    name: str
    file: str
    description: str = ""
    inputs: dict[str, Input]
    budget: RunBudget = RunBudget()
    steps: dict[str, Step]
    nodes: dict[str, YamlNode]
    """The YAML node of each step, which gives the positions of errors."""


def read_pipeline(text: str, file: str) -> PipelineGraph:
    """Parse a pipeline file and check it.

    Raises:
        Invalid: the file is invalid; the message has the file, line and column.
        TooLarge: the file is too long, too deep, or has too many values.
    """
    root = read_yaml(text, file)
    top = Table(file, root, "the pipeline", fields.TOP)
    inputs = {name: _input(file, name, node) for name, node in top.entries("inputs")}
    defaults = _renamed(top.part("defaults", "defaults", fields.DEFAULTS).values())
    budget = _renamed(top.part("budget", "the budget", fields.BUDGET).values())
    nodes = dict(top.entries("steps"))
    steps = {name: _step(file, name, node, defaults) for name, node in nodes.items()}
    if not steps:
        refuse(file, top.place_of("steps"), "no steps", "add a step under steps:")
    if len(steps) > PIPELINE_STEPS_MAX:
        refuse(
            file,
            top.place_of("steps"),
            f"more than {PIPELINE_STEPS_MAX} steps",
            "run one step for many items with foreach:",
        )
    for step in steps.values():
        _check_names(file, step, nodes[step.name], inputs, steps)
    needs = {name: step.needs for name, step in steps.items()}
    in_order = order(file, needs, lambda name, need: _place_of_need(nodes[name], need))
    return PipelineGraph(
        name=top.values()["name"],
        file=file,
        description=top.values().get("description", ""),
        inputs=inputs,
        budget=RunBudget(**budget),
        steps={name: steps[name] for name in in_order},
        nodes=nodes,
    )


def read_budget(given: Mapping[str, Any], before: RunBudget) -> RunBudget | None:
    """Return the budget `before` with the given fields replaced, or None if no field is given.

    Raises:
        Invalid: a field is unknown, or its value is invalid.
    """
    read: dict[str, Any] = {}
    for name, value in given.items():
        if name not in fields.BUDGET:
            raise Invalid(
                f"unknown field {quote_value(name)} in a budget", suggestion(name, fields.BUDGET)
            )
        try:
            read[name] = fields.BUDGET[name].read(value)
        except Invalid as error:
            raise Invalid(f"budget {name}: {error.message}", error.hint) from error
    return replace(before, **_renamed(read)) if read else None


def _input(file: str, name: str, node: YamlNode) -> Input:
    if not isinstance(node.value, dict):
        # In the short form, `topic: orders` declares an input with the default "orders".
        kinds: dict[Any, InputType] = {
            bool: "boolean",
            int: "integer",
            float: "number",
            list: "list",
        }
        kind = kinds.get(type(node.value), "text")
        return Input(
            name=name, type=kind, default=node.plain() if node.value is not None else UNSET
        )
    read = Table(file, node, f'input "{name}"', fields.INPUT).values()
    made = Input(name=name, **read)
    if not isinstance(made.default, UnsetType):
        try:
            check_input(made, made.default)
        except Invalid as error:
            refuse(file, node.keys["default"], error.message, error.hint)
    return made


def check_input(taken: Input, value: Any) -> Any:
    """Check that a value has the type of an input, and return the value.

    Raises:
        Invalid: the value has the wrong type.
    """
    checks: dict[str, Callable[[Any], bool]] = {
        "text": lambda each: isinstance(each, str),
        "ref": lambda each: isinstance(each, str),
        "boolean": lambda each: isinstance(each, bool),
        "integer": lambda each: type(each) is int,
        "number": lambda each: type(each) in (int, float),
        "list": lambda each: isinstance(each, list),
        "object": lambda each: isinstance(each, dict),
    }
    if not checks[taken.type](value):
        got = quote_value(str(value)[:40])
        raise Invalid(
            f"invalid {taken.name}: expected {taken.type}, got {got}",
            f"pass a value of type {taken.type}",
        )
    return value


def _renamed(read: Mapping[str, Any], also: Mapping[str, str] = {}) -> dict[str, Any]:
    names = {"timeout": "timeout_s", "time": "time_s", "cache": "cache_s", **also}
    return {names.get(name, name): value for name, value in read.items()}


class _KindFields(NamedTuple):
    """For one kind of step, the fields of `Step` that hold its YAML fields."""

    main: str
    """The `Step` field for the value of the kind's own name. For `exec` it depends on the type of
    the value.
    """
    renamed: Mapping[str, str]


_KIND_FIELDS: dict[Kind, _KindFields] = {
    "prompt": _KindFields("text", {}),
    "cli": _KindFields("target", {"prompt": "text", "args": "words"}),
    "exec": _KindFields("text", {}),
    "cap": _KindFields("target", {}),
    "python": _KindFields("target", {}),
    "pipeline": _KindFields("target", {"inputs": "args"}),
    "approve": _KindFields("text", {}),
}


def _step(file: str, name: str, node: YamlNode, defaults: Mapping[str, Any]) -> Step:
    kind = _kind(file, name, node)
    table = {**fields.KINDS[kind], **fields.STEP}
    mapping = Table(file, node, f'step "{name}" ({kind})', table)
    main, renamed = _KIND_FIELDS[kind]
    made = _renamed(mapping.values(), renamed)
    first = made.pop(kind)
    made["words" if isinstance(first, tuple) else main] = first
    made["out"] = _out(file, mapping)
    for field, value in defaults.items():
        if field != "model" or kind == "prompt":
            made.setdefault(field, value)
    step = Step(name=name, kind=kind, place=node.place, **made)
    used = [value.path[0] for value in values_in(step) if value.root == "steps" and value.path]
    needs = dict.fromkeys((*step.needs, *cast("list[str]", used)))
    return replace(step, needs=tuple(needs))


def _kind(file: str, name: str, node: YamlNode) -> Kind:
    if not isinstance(node.value, dict):
        refuse(
            file,
            node.place,
            f'step "{name}" must be a mapping',
            "write for example prompt: ... below it",
        )
    # A step of kind `cli` also has a field named `prompt`.
    found = [kind for kind in KINDS if kind in node.keys]
    if "cli" in found:
        found = ["cli", *(kind for kind in found if kind not in ("cli", "prompt"))]
    if len(found) != 1:
        known = [*KINDS, *fields.STEP]
        strange = [each for each in node.keys if each not in known]
        hint = "add one of these fields" if not found else "keep only one of them"
        if not found and strange and (near := get_close_matches(strange[0], KINDS, 1)):
            hint = f"did you mean {near[0]}?"
        what = (
            f"needs one of: {', '.join(KINDS)}"
            if not found
            else f"has more than one kind: {' and '.join(found)}"
        )
        wrong = found[-1] if found else strange[0] if strange else ""
        place = node.keys.get(wrong, node.place)
        refuse(file, place, f'step "{name}" {what}', hint)
    return cast("Kind", found[0])


def _out(file: str, step: Table) -> Out:
    made = Out(**step.part("out", "out", fields.OUT).values())
    if made.schema is not None:
        try:
            check_keywords(made.schema, "out.schema")
        except Invalid as error:
            place = step.node.value["out"].value["schema"].place_in(error.details)
            refuse(file, place, error.message, error.hint)
    return made


def values_in(step: Step) -> list[Value]:
    """Return every reference to a value in a step."""
    found = [] if step.when is None else values_of(step.when)
    templates = [step.text, step.system, *step.words, *step.refs, *step.env.values()]
    if isinstance(step.foreach, Template):
        templates.append(step.foreach)
    for template in (*templates, *_templates_in(step.args)):
        found += template.values() if template else []
    return found


def _templates_in(args: Any) -> list[Template]:
    if isinstance(args, Template):
        return [args]
    parts: Iterable[Any] = ()
    if isinstance(args, dict):
        parts = cast("dict[str, Any]", args).values()
    elif isinstance(args, list):
        parts = cast("list[Any]", args)
    return [template for part in parts for template in _templates_in(part)]


def _place_of_need(node: YamlNode, need: str) -> SourcePosition:
    """Return the position in the file at which a step names another step that it needs."""
    for scalar in node.value["needs"].scalars() if "needs" in node.keys else ():
        if scalar.value == need:
            return scalar.place
    return _place_of_value(node, lambda value: value.root == "steps" and value.path[:1] == (need,))


def _place_of_value(node: YamlNode, is_meant: Callable[[Value], bool]) -> SourcePosition:
    """Return the position in the file at which a step refers to a value, in a template or a
    condition.
    """
    for name, part in node.items():
        for scalar in part.scalars():
            if scalar.braces and name != "when":
                for value, place in zip(
                    parse_template(scalar.value).values(), scalar.braces, strict=False
                ):
                    if is_meant(value):
                        return place
    return node.field("when")


def _check_names(
    file: str, step: Step, node: YamlNode, inputs: Mapping[str, Input], steps: Mapping[str, Step]
) -> None:
    """Check that a step refers only to steps, inputs and results that exist.

    Raises:
        Invalid: a reference is unknown.
    """
    for need in step.needs:
        if need not in steps:
            message = f'step "{step.name}": unknown step {quote_value(need)}'
            refuse(file, _place_of_need(node, need), message, suggestion(need, steps))
    for value in values_in(step):

        def wrong(message: str, hint: str, value: Value = value) -> None:
            place = _place_of_value(node, lambda each: each == value)
            refuse(file, place, f'step "{step.name}": {message}', hint)

        first = str(value.path[0]) if value.path else ""
        if value.root == "item" and step.foreach is None:
            wrong("{{item}} needs foreach:", "add foreach: to the step")
        elif value.root == "inputs" and first not in inputs:
            wrong(f"unknown input {quote_value(first)}", suggestion(first, inputs or ["none"]))
        elif value.root == "steps" and (len(value.path) < 2 or value.path[1] not in STEP_FIELDS):
            known = ", ".join(f"{{{{steps.{first}.{field}}}}}" for field in STEP_FIELDS)
            wrong(f"{{{{{value}}}}} is not a result of a step", f"use one of {known}")
        elif value.root == "run" and value.path not in (("id",), ("name",)):
            wrong(f"unknown value {{{{{value}}}}}", "use {{run.id}} or {{run.name}}")
    if step.when is not None:
        try:
            check_kinds(step.when, lambda value: _kind_of(value, inputs))
        except Invalid as error:
            refuse(
                file, node.field("when"), f'step "{step.name}": when: {error.message}', error.hint
            )
    if step.max_parallel is not None and step.foreach is None:
        message = f'step "{step.name}": max_parallel needs foreach:'
        refuse(file, node.keys["max_parallel"], message, "add foreach:, or remove max_parallel")


def _kind_of(value: Value, inputs: Mapping[str, Input]) -> str | None:
    """Return the type of a value, or None if the type is unknown before a run."""
    if value.root == "inputs" and len(value.path) == 1:
        kind = inputs[str(value.path[0])].type
        return {"ref": "text", "integer": "number"}.get(kind, kind)
    if value.root == "steps" and len(value.path) == 2:
        return {"ref": "text", "preview": "text", "status": "text", "refs": "list"}.get(
            str(value.path[1])
        )
    return "text" if value.root == "run" else None


_BOX_WIDTH, _BOX_HEIGHT, _GAP_ACROSS, _GAP_DOWN, _EDGE = 168, 40, 24, 36, 12
_LABEL_CHARS_MAX = 22


def order(
    file: str, needs: Mapping[str, Sequence[str]], place_of: Callable[[str, str], SourcePosition]
) -> list[str]:
    """Return the names in topological order. Names that do not depend on each other stay in the
    order of the file.

    `place_of` returns the position at which a step names a step that it needs.

    Raises:
        Invalid: the steps form a cycle, which the message shows.
    """
    sorter = TopologicalSorter(needs)
    try:
        sorter.prepare()
    except CycleError as error:
        # graphlib lists each step before the step that needs it.
        cycle: list[str] = list(reversed(error.args[1]))
        shown = " needs ".join(cycle)
        place = place_of(cycle[0], cycle[1])
        refuse(file, place, f"circular dependency: {shown}", "remove one of these from needs:")
    rank = {name: number for number, name in enumerate(needs)}
    done: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=rank.__getitem__)
        done += ready
        sorter.done(*ready)
    return done


def layers(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the names of the steps in rows. Each step is in the first row below all steps that it
    needs.

    `needs` is in topological order.
    """
    depth: dict[str, int] = {}
    for name, before in needs.items():
        depth[name] = 1 + max((depth[each] for each in before), default=-1)
    rows: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, row in depth.items():
        rows[row].append(name)
    return rows


def as_text(needs: Mapping[str, Sequence[str]], labels: Mapping[str, str]) -> str:
    """Return a text drawing of the graph: a line per step, indented by its row, with its
    dependencies.
    """
    lines: list[str] = []
    for row, names in enumerate(layers(needs)):
        for name in names:
            after = f"  ← {', '.join(needs[name])}" if needs[name] else ""
            lines.append(f"{'  ' * row}{name}  {labels[name]}{after}")
    return "\n".join(lines) + "\n"


def as_mermaid(needs: Mapping[str, Sequence[str]], labels: Mapping[str, str]) -> str:
    """Return the graph as a Mermaid diagram."""
    number = {name: f"s{index}" for index, name in enumerate(needs)}
    lines = ["flowchart TD"]
    for name in needs:
        # Mermaid can only escape a quotation mark by its character code.
        label = f"{name}: {labels[name]}".replace('"', "#quot;")
        lines.append(f'  {number[name]}["{label}"]')
    lines += (f"  {number[before]} --> {number[name]}" for before, name in _edges(needs))
    return "\n".join(lines) + "\n"


def as_svg(
    needs: Mapping[str, Sequence[str]],
    labels: Mapping[str, str],
    colours: Mapping[str, str] | None = None,
) -> str:
    """Return the graph as an SVG image. `colours` maps names to the colours of their boxes."""
    rows = layers(needs)
    most = max(map(len, rows))
    across, down = _BOX_WIDTH + _GAP_ACROSS, _BOX_HEIGHT + _GAP_DOWN
    width, height = most * across + 2 * _EDGE, len(rows) * down - _GAP_DOWN + 2 * _EDGE
    corner: dict[str, tuple[float, float]] = {}
    for row, names in enumerate(rows):
        left = (width - len(names) * across + _GAP_ACROSS) / 2
        for column, name in enumerate(names):
            corner[name] = (left + column * across, _EDGE + row * down)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = 'font-family="system-ui, sans-serif" font-size="12"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {font}>',
        f"<title>{escape(', '.join(needs))}</title>",
    ]
    for before, name in _edges(needs):
        (left, top), (right, bottom) = corner[before], corner[name]
        start = f"{left + _BOX_WIDTH / 2:g} {top + _BOX_HEIGHT}"
        stop = f"{right + _BOX_WIDTH / 2:g} {bottom}"
        middle = (top + _BOX_HEIGHT + bottom) / 2
        bend = f"{left + _BOX_WIDTH / 2:g} {middle:g} {right + _BOX_WIDTH / 2:g} {middle:g}"
        lines.append(f'<path d="M{start} C{bend} {stop}" fill="none" stroke="#888"/>')
    for name, (left, top) in corner.items():
        colour = (colours or {}).get(name, "#8882")
        lines.append(
            f'<g><rect x="{left:g}" y="{top:g}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6" '
            f'fill="{escape(colour)}" stroke="#888"/>'
            f'<text x="{left + 10:g}" y="{top + 17:g}" font-weight="600" fill="currentColor">'
            f"{_label(name)}</text>"
            f'<text x="{left + 10:g}" y="{top + 32:g}" fill="currentColor">'
            f"{_label(labels[name])}</text></g>"
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def _edges(needs: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, str]]:
    return ((before, name) for name, all_before in needs.items() for before in all_before)


def _label(text: str) -> str:
    return escape(text if len(text) <= _LABEL_CHARS_MAX else text[: _LABEL_CHARS_MAX - 1] + "…")
