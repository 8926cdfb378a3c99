"""Patches: RFC 6902 operations on a document, in place, all of them or none.

Rule: what a step costs goes by what it changes, never by the size of the document. So the size is
kept by adding and taking away, and going back is a list of steps, not a copy.

Nothing is shared: a value goes in as a copy, so neither the operations nor their giver can change
the document later, and the operations still say what they said when they were applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import UNSET, MsgspecError, Struct, UnsetType, convert, field

from contextrelay.documents.bounds import check_json
from contextrelay.documents.pointer import (
    APPEND,
    Place,
    Tokens,
    find,
    index_of,
    missing,
    parse,
    walk,
)
from contextrelay.documents.values import (
    check_depth,
    encoded_bytes,
    is_list,
    is_object,
    same,
    shown,
)
from contextrelay.errors import Broken, Conflict, Invalid, Refused, RelayError, TooLarge
from contextrelay.limits import JSON_DEPTH_MAX, PATCH_OPERATIONS_MAX, STATE_BYTES_MAX
from contextrelay.model.artifact import spell
from contextrelay.model.thread import CREATED, PATCHED, Event

NEEDS_VALUE = ("add", "replace", "test")
NEEDS_FROM = ("move", "copy")
KNOWN = ("add", "remove", "replace", "move", "copy", "test")

# What is below each place; None where all of it is new.
Tree: TypeAlias = "dict[str | int, Tree | None]"


class Operation(Struct, frozen=True):
    """One operation of RFC 6902, spelled as there."""

    op: str
    path: str
    value: Any = UNSET
    from_: str | UnsetType = field(default=UNSET, name="from")


class UndoStep(NamedTuple):
    """One change that was made, with what it takes to go back."""

    kind: Literal["insert", "remove", "replace"]
    place: Place
    """Where; a `-` is replaced by the index that it became."""
    container: Any
    key: Any
    old: Any = None
    is_shift: bool = False
    """Whether later items of the list have another index now."""
    names: tuple[str, ...] = ()
    """The names of an object in their order, where it was first lost."""


class Applied(NamedTuple):
    """What a patch did: the steps, first one first, and how large the document is now."""

    steps: list[UndoStep]
    size_bytes: int


def read_operations(value: object) -> list[Operation]:
    """Read operations out of decoded JSON; members that RFC 6902 does not know are ignored.

    Raises:
        Invalid: it is no list of operations; TooLarge where it is too long.
    """
    if not isinstance(value, list | tuple):
        raise Invalid(
            "the patch is not a list of operations",
            'write [{"op": "add", "path": "/facts/-", "value": {...}}]',
        )
    given = cast("Sequence[object]", value)
    if len(given) > PATCH_OPERATIONS_MAX:
        raise TooLarge(
            f"the patch has {len(given)} operations",
            f"the limit is {PATCH_OPERATIONS_MAX} operations; send it in parts",
        )
    operations: list[Operation] = []
    for index, item in enumerate(given):
        try:
            operations.append(_read_operation(item))
        except RelayError as error:
            raise _located(error, f"operation {index}", index) from error
    return operations


def _read_operation(item: object) -> Operation:
    if isinstance(item, Operation):
        given = {"op": item.op, "path": item.path, "value": item.value, "from": item.from_}
        item = {name: member for name, member in given.items() if member is not UNSET}
    if not is_object(item):
        raise Invalid("it is no object", 'write {"op": ..., "path": ...}')
    op = item.get("op")
    if op not in KNOWN:
        given = shown(op) if isinstance(op, str) else "no string" if "op" in item else "missing"
        raise Invalid(f"unknown op {given}", f"use one of {', '.join(KNOWN)}")
    for name in ("path", "from") if op in NEEDS_FROM else ("path",):
        if not isinstance(item.get(name), str):
            wrong = "is no string" if name in item else "is missing"
            raise Invalid(f"{op}: `{name}` {wrong}", 'give it as a path, such as "/facts/0"')
        parse(item[name])
    if op in NEEDS_VALUE and "value" not in item:
        raise Invalid(
            f"{op} {shown(item['path'])}: `value` is missing", "give it, as null if nothing else"
        )
    return Operation(
        op,
        item["path"],
        item["value"] if op in NEEDS_VALUE else UNSET,
        item["from"] if op in NEEDS_FROM else UNSET,
    )


def apply(
    holder: list[Any],
    operations: Sequence[Operation],
    size_bytes: int,
    size_bytes_max: int = STATE_BYTES_MAX,
) -> Applied:
    """Change the document `holder[0]`, which takes `size_bytes` as JSON now.

    Raises:
        Invalid: an operation is malformed, or its value is no JSON.
        TooLarge: the document would be over `size_bytes_max` after an operation.
        Refused: what an operation names is not there.
        Conflict: a `test` found something else.
    In each case, and in any other, the document is as it was.
    """
    run = _Run(holder, size_bytes, size_bytes_max)
    index = 0
    try:
        for index in range(len(operations)):
            run.do(operations[index])
    except RelayError as error:
        undo(run.steps)
        failed = operations[index]
        raise _located(
            error, f"operation {index}, {failed.op} {shown(failed.path)}", index
        ) from error
    except BaseException:
        undo(run.steps)
        raise
    return Applied(run.steps, run.size_bytes)


def undo(steps: Sequence[UndoStep]) -> None:
    """Go back, once, to how the document was before the steps: the order of members as well."""
    for step in reversed(steps):
        container, key = step.container, step.key
        if step.kind == "insert":
            del container[key]
        elif step.kind == "replace":
            container[key] = step.old
        elif is_list(container):
            container.insert(key, step.old)
        else:
            container[key] = step.old
            if step.names:
                members = [(name, container[name]) for name in step.names]
                container.clear()
                container.update(members)


def _located(error: RelayError, where: str, index: int) -> RelayError:
    """The same error, saying which operation it is about."""
    details = {**error.details, "operation": index}
    return type(error)(f"{where}: {error.message}", error.hint, details)


class _Run:
    """A patch on its way through a document."""

    def __init__(self, holder: list[Any], size_bytes: int, size_bytes_max: int) -> None:
        self.steps: list[UndoStep] = []
        self.size_bytes = size_bytes
        self._holder = holder
        self._size_bytes_max = size_bytes_max
        self._spent_bytes = 0
        self._ordered: set[int] = set()

    def do(self, operation: Operation) -> None:
        tokens = parse(operation.path)
        match operation.op:
            case "add":
                self._put(tokens, operation.value, self._checked(operation.value, tokens))
            case "remove":
                self._take(tokens)
            case "replace":
                encoded = self._checked(operation.value, tokens)
                self._put(tokens, operation.value, encoded, is_there=True)
            case "move":
                self._move(_source(operation), tokens)
            case "copy":
                self._copy(_source(operation), tokens)
            case "test":
                self._checked(operation.value, tokens)
                self._test(tokens, operation.value)
            case _:
                raise Invalid("there is no such operation", f"use one of {', '.join(KNOWN)}")

    def _checked(self, value: Any, tokens: Tokens) -> bytes:
        """A value from outside as JSON."""
        if value is UNSET:
            raise Invalid("`value` is missing", "give it, as null if nothing else")
        return check_json(value, "its value", self._size_bytes_max, JSON_DEPTH_MAX - len(tokens))

    def _test(self, tokens: Tokens, expected: Any) -> None:
        try:
            found = find(self._holder[0], tokens)
        except Refused as error:
            raise Conflict(error.message, "read the state again, then patch it") from error
        if not same(found, expected):
            raise Conflict(
                f"{_described(found)} is there, not {_described(expected)}",
                "read the state again, then patch it",
            )

    def _copy(self, source: Tokens, tokens: Tokens) -> None:
        value = find(self._holder[0], source)
        encoded = self._encoded_once_more(value)
        if len(tokens) > len(source):
            check_depth(value, "what is copied", JSON_DEPTH_MAX - len(tokens))
        self._put(tokens, value, encoded)

    def _encoded_once_more(self, value: Any) -> bytes:
        """A value of the document as JSON, within what a patch may spend on such."""
        # Copying and removing in turn, or moving to and fro, never grows the document; but it
        # costs what is copied or moved each time.
        encoded = msgspec.json.encode(value)
        self._spent_bytes += len(encoded)
        if self._spent_bytes > self._size_bytes_max:
            raise self._too_large("one patch may copy and move")
        return encoded

    def _move(self, source: Tokens, tokens: Tokens) -> None:
        if source == tokens:
            find(self._holder[0], source)
            return
        if tokens[: len(source)] == source:
            raise Refused("a value cannot be moved into itself", "copy it, or move it elsewhere")
        value = self._take(source, value_bytes=0)
        if len(tokens) > len(source):
            self._encoded_once_more(value)
            check_depth(value, "what is moved", JSON_DEPTH_MAX - len(tokens))
        # Its bytes were never taken off, so they are not added; a whole document has no others.
        self._put(tokens, value, b"" if tokens else msgspec.json.encode(value))

    def _put(self, tokens: Tokens, value: Any, encoded: bytes, is_there: bool = False) -> None:
        """Put a copy of a value in place, where a value `is_there` already or may be.

        Without `encoded` it is the value itself, and its bytes are in the size.
        """
        if not tokens:
            self._grow(len(encoded) - self.size_bytes)
            self.steps.append(UndoStep("replace", (), self._holder, 0, self._holder[0]))
            self._holder[0] = _unshared(value, encoded)
            return
        parent, place = walk(self._holder[0], tokens[:-1])
        key: Any = tokens[-1]
        if is_list(parent):
            key = index_of(parent, tokens, is_insert=not is_there)
            if not is_there:
                self._grow(len(encoded) + bool(parent))
                is_shift = key < len(parent)
                parent.insert(key, _unshared(value, encoded))
                self.steps.append(UndoStep("insert", (*place, key), parent, key, is_shift=is_shift))
                return
        elif not is_object(parent) or (is_there and key not in parent):
            raise missing(parent, tokens)
        elif key not in parent:
            self._grow(len(encoded) + encoded_bytes(key) + 1 + bool(parent))
            parent[key] = _unshared(value, encoded)
            self.steps.append(UndoStep("insert", (*place, key), parent, key))
            return
        old = parent[key]
        self._grow(len(encoded) - encoded_bytes(old))
        parent[key] = _unshared(value, encoded)
        self.steps.append(UndoStep("replace", (*place, key), parent, key, old))

    def _take(self, tokens: Tokens, value_bytes: int | None = None) -> Any:
        """Take a value away, and its bytes, or as many of them as the caller says."""
        if not tokens:
            raise Refused("the whole document cannot be removed", "replace it instead")
        value, place = walk(self._holder[0], tokens)
        parent = find(self._holder[0], tokens[:-1])
        if value_bytes is None:
            value_bytes = encoded_bytes(value)
        if is_list(parent):
            index = int(tokens[-1])
            is_shift = index < len(parent) - 1
            del parent[index]
            self.steps.append(UndoStep("remove", place, parent, index, value, is_shift))
            self.size_bytes -= value_bytes + bool(parent)
            return value
        name = tokens[-1]
        names: tuple[str, ...] = ()
        if id(parent) not in self._ordered and next(reversed(parent)) != name:
            # Once for each object: to go back past here puts all of its members in order.
            self._ordered.add(id(parent))
            names = tuple(parent)
        del parent[name]
        self.steps.append(UndoStep("remove", place, parent, name, value, names=names))
        self.size_bytes -= value_bytes + encoded_bytes(name) + 1 + bool(parent)
        return value

    def _grow(self, more_bytes: int) -> None:
        size_bytes = self.size_bytes + more_bytes
        if more_bytes > 0 and size_bytes > self._size_bytes_max:
            raise self._too_large("the document may have")
        self.size_bytes = size_bytes

    def _too_large(self, what: str) -> TooLarge:
        return TooLarge(
            f"that is more than {what}",
            f"the limit is {self._size_bytes_max} bytes as JSON; push large values as bodies and "
            "name their refs here",
        )


def _source(operation: Operation) -> Tokens:
    if isinstance(operation.from_, str):
        return parse(operation.from_)
    raise Invalid("`from` is missing", "say where the value comes from")


def _unshared(value: Any, encoded: bytes) -> Any:
    """A value that nobody else holds; a text or a number may be held by all."""
    is_shared = bool(encoded) and type(value) in (dict, list, tuple)
    return msgspec.json.decode(encoded) if is_shared else value


def _described(value: Any) -> str:
    """A value for an error: its kind, and the value itself if it is short."""
    if is_object(value):
        return f"an object of {len(value)}"
    if is_list(value):
        return f"a list of {len(value)}"
    return shown(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


# Which places were changed


def touched(steps: Iterable[UndoStep], depth_max: int) -> Tree | None:
    """The places that steps changed, to a depth; None if the whole document is new.

    A place is followed: an item that later steps pushed on is found at its final index, and one
    that they removed again is not there.
    """
    tree: Tree = {}
    for step in steps:
        if not step.place:
            return None
        _add(tree, step, depth_max)
    return tree


def _add(tree: Tree, step: UndoStep, depth_max: int) -> None:
    *above, last = step.place[:depth_max]
    node = tree
    for key in above:
        below = node.setdefault(key, {})
        if below is None:
            return
        node = below
    if len(step.place) > depth_max or not is_list(step.container):
        node[last] = None
        return
    if step.kind == "remove":
        node.pop(last, None)
    if step.is_shift:
        _shift(node, step.key, 1 if step.kind == "insert" else -1)
    if step.kind != "remove":
        node[last] = None


def _shift(node: Tree, start: int, by: int) -> None:
    """Give the items of a list from an index on the index that they have now."""
    indexed = cast("dict[int, Tree | None]", node)
    moved = {index + by if index >= start else index: below for index, below in indexed.items()}
    indexed.clear()
    indexed.update(moved)


def touches_others(
    mine: Sequence[Operation], theirs: Sequence[Operation], document: object
) -> bool:
    """Whether my patch, made before theirs, touches only other places and can follow it as it is.

    `document` is what there is now, with theirs applied: only there a list differs from an object
    that has members named `0` or `-`.
    """
    my, their = _Reach(mine, document), _Reach(theirs, document)
    return not (
        _overlap(my.written, their.read | their.written)
        or _overlap(my.read, their.written)
        or _covers(my.read | my.written, their.appended)
        or _covers(their.read | their.written, my.appended)
        # An index means another item once something was put before it, or taken away.
        or my.shifted & their.indexed
        or their.shifted & my.indexed
        # My index may mean what I append myself: at another index, if they appended too.
        or my.appended & my.indexed & their.appended
    )


class _Reach:
    """What a patch reads and writes; of lists, how."""

    def __init__(self, operations: Iterable[Operation], document: object) -> None:
        self._document = document
        self.read: set[Tokens] = set()
        self.written: set[Tokens] = set()
        self.appended: set[Tokens] = set()
        """Lists that get something at their end."""
        self.shifted: set[Tokens] = set()
        """Lists that get or lose something at an index."""
        self.indexed: set[Tokens] = set()
        """Lists of which an item is named by its index."""
        for operation in operations:
            self._add(operation)

    def _add(self, operation: Operation) -> None:
        tokens = parse(operation.path)
        if isinstance(operation.from_, str):
            source = parse(operation.from_)
            self._look(source)
            if operation.op == "move":
                self._write(source, is_shift=True)
            else:
                self.read.add(source)
        self._look(tokens)
        if operation.op == "test":
            self.read.add(tokens)
        else:
            self._write(tokens, is_shift=operation.op != "replace")

    def _look(self, tokens: Tokens) -> None:
        """Note each list that the tokens go through by an index."""
        here: Any = self._document
        for depth, token in enumerate(tokens):
            if token.isdigit() and not is_object(here):
                # Also where nothing is found: it may have been a list when the patch was made.
                self.indexed.add(tokens[:depth])
            here = _child(here, token)

    def _write(self, tokens: Tokens, is_shift: bool) -> None:
        parent = self._document
        for token in tokens[:-1]:
            parent = _child(parent, token)
        if tokens and tokens[-1] == APPEND and is_list(parent):
            self.appended.add(tokens[:-1])
            return
        self.written.add(tokens)
        if tokens and is_shift and not is_object(parent):
            self.shifted.add(tokens[:-1])


def _child(here: Any, token: str) -> Any:
    if is_object(here):
        return here.get(token)
    if is_list(here) and token.isascii() and token.isdigit() and len(token) < 10:
        index = int(token)
        return here[index] if index < len(here) else None
    return None


def _overlap(some: set[Tokens], others: set[Tokens]) -> bool:
    """Whether a place of one side is, holds, or is within a place of the other."""
    return _covers(some, others) or _covers(others, some)


def _covers(some: set[Tokens], others: set[Tokens]) -> bool:
    """Whether a place of one side is, or holds, a place of the other."""
    return any(other[:length] in some for other in others for length in range(len(other) + 1))


_UNBOUNDED = 1 << 62


def versions(first: Any, patches: Iterable[list[Operation]]) -> Iterator[Any]:
    """Yield a document, then what each patch makes of the one before."""
    document = first
    yield document
    for operations in patches:
        holder = [document]
        fresh: set[int] = {id(holder)}
        for operation in operations:
            for path in (operation.path, operation.from_):
                if isinstance(path, str):
                    _detach(holder, parse(path), fresh)
            apply(holder, [operation], 0, _UNBOUNDED)
        document = holder[0]
        yield document


def states(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """Yield a thread's state at every version, out of its events.

    Raises:
        Broken: the events do not lead to a state.
    """
    try:
        yield from _states(events)
    except (MsgspecError, RelayError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise Broken(
            f"the events do not lead to a state: {error!r}", "see what with: relay verify"
        ) from error


def _states(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    changes = (event for event in events if event.type in (CREATED, PATCHED))
    first = next(changes)
    patches: list[Event] = []

    def operations() -> Iterator[list[Operation]]:
        for event in changes:
            patches.append(event)
            yield convert(event.detail["operations"], list[Operation])

    for document in versions(first.detail["state"], operations()):
        if not patches:
            yield document
            continue
        event = patches.pop()
        stamp = {name: event.detail[name] for name in ("version", "metrics")}
        yield {**document, **stamp, "updated_at": spell(event.at)}


def _detach(holder: list[Any], tokens: Tokens, fresh: set[int]) -> None:
    """Copy the containers on the way to a place, unless this version has made them itself."""
    container: Any = holder
    key: Any = 0
    for token in tokens:
        below = container[key]
        if id(below) not in fresh:
            below = below.copy() if is_object(below) or is_list(below) else below
            container[key] = below
            fresh.add(id(below))
        if is_list(below) and token.isdecimal() and int(token) < len(below):
            container, key = below, int(token)
        elif is_object(below) and token in below:
            container, key = below, token
        else:
            return
