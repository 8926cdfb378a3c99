"""Patches: apply RFC 6902 operations to a document in place, all of them or none.

Rule: the cost of a step depends on what it changes, never on the size of the document. So the size
is updated incrementally, and rollback uses a list of steps instead of a copy.

The document shares nothing with other values: values are inserted as copies. So neither the
operations nor the caller can change the document later, and the operations stay as they were
applied.
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
    is_equal,
    is_list,
    is_object,
    quote_value,
)
from contextrelay.errors import Broken, Conflict, Invalid, Refused, RelayError, TooLarge
from contextrelay.limits import JSON_DEPTH_MAX, PATCH_OPERATIONS_MAX, STATE_BYTES_MAX
from contextrelay.model.artifact import format_time
from contextrelay.model.thread import CREATED, PATCHED, Event

NEEDS_VALUE = ("add", "replace", "test")
NEEDS_FROM = ("move", "copy")
KNOWN = ("add", "remove", "replace", "move", "copy", "test")

# A tree of positions: for each position its children, or None if all of its value is new.
Tree: TypeAlias = "dict[str | int, Tree | None]"


class Operation(Struct, frozen=True):
    """An operation of RFC 6902, with the same field names."""

    op: str
    path: str
    value: Any = UNSET
    from_: str | UnsetType = field(default=UNSET, name="from")


class UndoStep(NamedTuple):
    """A change that was made to a document, with the data to undo it."""

    kind: Literal["insert", "remove", "replace"]
    place: Place  # The position of the change; a `-` is replaced by the resulting index.
    container: Any
    key: Any
    old: Any = None
    is_shift: bool = False  # Whether the change shifted the indexes of later items of a list.
    names: tuple[str, ...] = ()  # The order of an object's members before the first removal from it


class Applied(NamedTuple):
    """The result of a patch: the steps in order, and the new size of the document."""

    steps: list[UndoStep]
    size_bytes: int


def read_operations(value: object) -> list[Operation]:
    """Parse operations from decoded JSON. Members that RFC 6902 does not define are ignored.

    Raises:
        Invalid: the value is not a list of valid operations.
        TooLarge: the list is too long.
    """
    if not isinstance(value, list | tuple):
        hint = 'pass [{"op": "add", "path": "/facts/-", "value": {...}}]'
        raise Invalid("the patch is not a list of operations", hint)
    given = cast("Sequence[object]", value)
    if len(given) > PATCH_OPERATIONS_MAX:
        hint = f"the limit is {PATCH_OPERATIONS_MAX} operations; split the patch"
        raise TooLarge(f"the patch has {len(given)} operations", hint)
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
        raise Invalid("not an object", 'pass {"op": ..., "path": ...}')
    op = item.get("op")
    if op not in KNOWN:
        wrong = "op is not a string" if "op" in item else "missing op"
        wrong = f"unknown op {quote_value(op)}" if isinstance(op, str) else wrong
        raise Invalid(wrong, f"expected one of {', '.join(KNOWN)}")
    for name in ("path", "from") if op in NEEDS_FROM else ("path",):
        if not isinstance(item.get(name), str):
            wrong = "is not a string" if name in item else "is missing"
            raise Invalid(f"{op}: `{name}` {wrong}", 'pass a path, such as "/facts/0"')
        parse(item[name])
    if op in NEEDS_VALUE and "value" not in item:
        raise Invalid(f"{op} {quote_value(item['path'])}: `value` is missing", "pass it, or null")
    value = item["value"] if op in NEEDS_VALUE else UNSET
    return Operation(op, item["path"], value, item["from"] if op in NEEDS_FROM else UNSET)


def apply(
    holder: list[Any],
    operations: Sequence[Operation],
    size_bytes: int,
    size_bytes_max: int = STATE_BYTES_MAX,
) -> Applied:
    """Apply operations to the document `holder[0]`, whose current size as JSON is `size_bytes`.

    Raises:
        Invalid: an operation is malformed, or its value is not JSON.
        TooLarge: the document would exceed `size_bytes_max` after an operation.
        Refused: an operation names a position that does not exist.
        Conflict: a `test` failed.
    After any error the document is unchanged.
    """
    run = _Run(holder, size_bytes, size_bytes_max)
    index = 0
    try:
        for index in range(len(operations)):
            run.do(operations[index])
    except RelayError as error:
        undo(run.steps)
        failed = operations[index]
        where = f"operation {index}, {failed.op} {quote_value(failed.path)}"
        raise _located(error, where, index) from error
    except BaseException:
        undo(run.steps)
        raise
    return Applied(run.steps, run.size_bytes)


def undo(steps: Sequence[UndoStep]) -> None:
    """Undo steps; this restores the document, including the order of members. Call it only once."""
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
    """Return an error of the same class whose message and details name the operation."""
    details = {**error.details, "operation": index}
    return type(error)(f"{where}: {error.message}", error.hint, details)


class _Run:
    """A patch that is being applied."""

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
                source = _source(operation)
                value = find(self._holder[0], source)
                encoded = self._encode_again(value)
                if len(tokens) > len(source):
                    check_depth(value, "the copied value", JSON_DEPTH_MAX - len(tokens))
                self._put(tokens, value, encoded)
            case "test":
                self._checked(operation.value, tokens)
                self._test(tokens, operation.value)
            case _:
                raise Invalid("unknown operation", f"expected one of {', '.join(KNOWN)}")

    def _checked(self, value: Any, tokens: Tokens) -> bytes:
        """Check a value from outside; return it encoded as JSON."""
        if value is UNSET:
            raise Invalid("`value` is missing", "pass it, or null")
        return check_json(value, "its value", self._size_bytes_max, JSON_DEPTH_MAX - len(tokens))

    def _test(self, tokens: Tokens, expected: Any) -> None:
        try:
            found = find(self._holder[0], tokens)
        except Refused as error:
            raise Conflict(error.message, "read the state again, then repeat the patch") from error
        if not is_equal(found, expected):
            wrong = f"expected {_described(expected)}, found {_described(found)}"
            raise Conflict(wrong, "read the state again, then repeat the patch")

    def _encode_again(self, value: Any) -> bytes:
        """Encode a value that is copied or moved; count its bytes in the limit for these."""
        # Copying and removing in turn, or moving back and forth, never makes the document larger,
        # but each copy or move takes time.
        encoded = msgspec.json.encode(value)
        self._spent_bytes += len(encoded)
        if self._spent_bytes > self._size_bytes_max:
            raise self._too_large("the patch copies and moves too much")
        return encoded

    def _move(self, source: Tokens, tokens: Tokens) -> None:
        if source == tokens:
            find(self._holder[0], source)
            return
        if tokens[: len(source)] == source:
            hint = "copy it, or move it to another position"
            raise Refused("a value cannot be moved into itself", hint)
        value = self._take(source, value_bytes=0)
        if len(tokens) > len(source):
            self._encode_again(value)
            check_depth(value, "the moved value", JSON_DEPTH_MAX - len(tokens))
        # The bytes of the value were never subtracted, so they are not added. If the value becomes
        # the whole document, there are no other bytes.
        self._put(tokens, value, b"" if tokens else msgspec.json.encode(value))

    def _put(self, tokens: Tokens, value: Any, encoded: bytes, is_there: bool = False) -> None:
        """Insert a copy of a value at a position; `is_there`: it replaces an existing value.

        If `encoded` is empty, the value itself is inserted, and its bytes are already in the size.
        """
        if not tokens:
            self._add_bytes(len(encoded) - self.size_bytes)
            self.steps.append(UndoStep("replace", (), self._holder, 0, self._holder[0]))
            self._holder[0] = _copy_of(value, encoded)
            return
        parent, place = walk(self._holder[0], tokens[:-1])
        key: Any = tokens[-1]
        if is_list(parent):
            key = index_of(parent, tokens, is_insert=not is_there)
            if not is_there:
                self._add_bytes(len(encoded) + bool(parent))
                is_shift = key < len(parent)
                parent.insert(key, _copy_of(value, encoded))
                self.steps.append(UndoStep("insert", (*place, key), parent, key, is_shift=is_shift))
                return
        elif not is_object(parent) or (is_there and key not in parent):
            raise missing(parent, tokens)
        elif key not in parent:
            self._add_bytes(len(encoded) + encoded_bytes(key) + 1 + bool(parent))
            parent[key] = _copy_of(value, encoded)
            self.steps.append(UndoStep("insert", (*place, key), parent, key))
            return
        old = parent[key]
        self._add_bytes(len(encoded) - encoded_bytes(old))
        parent[key] = _copy_of(value, encoded)
        self.steps.append(UndoStep("replace", (*place, key), parent, key, old))

    def _take(self, tokens: Tokens, value_bytes: int | None = None) -> Any:
        """Remove a value and return it.

        Subtract its bytes from the size, or `value_bytes` if that is given.
        """
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
            # Do this once for each object: undoing past this point restores the order of all its
            # members.
            self._ordered.add(id(parent))
            names = tuple(parent)
        del parent[name]
        self.steps.append(UndoStep("remove", place, parent, name, value, names=names))
        self.size_bytes -= value_bytes + encoded_bytes(name) + 1 + bool(parent)
        return value

    def _add_bytes(self, more_bytes: int) -> None:
        size_bytes = self.size_bytes + more_bytes
        if more_bytes > 0 and size_bytes > self._size_bytes_max:
            raise self._too_large("the document would be too large")
        self.size_bytes = size_bytes

    def _too_large(self, what: str) -> TooLarge:
        limit = f"the limit is {self._size_bytes_max} bytes as JSON"
        return TooLarge(what, f"{limit}; push large values as bodies and use their refs here")


def _source(operation: Operation) -> Tokens:
    if isinstance(operation.from_, str):
        return parse(operation.from_)
    raise Invalid("`from` is missing", "pass the source path")


def _copy_of(value: Any, encoded: bytes) -> Any:
    """Return a copy of a value that nothing else refers to; strings and numbers may be shared."""
    is_shared = bool(encoded) and type(value) in (dict, list, tuple)
    return msgspec.json.decode(encoded) if is_shared else value


def _described(value: Any) -> str:
    """Return a description of a value for an error: its type, and the value if it is short."""
    if is_object(value):
        return f"an object with {len(value)} members"
    if is_list(value):
        return f"a list of {len(value)} items"
    return quote_value(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


# Changed positions


def changed_positions(steps: Iterable[UndoStep], depth_max: int) -> Tree | None:
    """Return the tree of positions that steps changed, to a depth; None if everything is new.

    Positions are tracked: an item that later steps shifted is listed at its final index, and an
    item that they removed is not listed.
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
        by = 1 if step.kind == "insert" else -1
        indexed = cast("dict[int, Tree | None]", node)
        moved = {at + by if at >= step.key else at: below for at, below in indexed.items()}
        indexed.clear()
        indexed.update(moved)
    if step.kind != "remove":
        node[last] = None


def is_independent(
    mine: Sequence[Operation], theirs: Sequence[Operation], document: object
) -> bool:
    """Return True if my patch changes only other positions than theirs and still applies then.

    My patch was made for the document before theirs. `document` is the current document, with
    theirs applied: it distinguishes a list from an object that has members named `0` or `-`.
    """
    my, their = _Footprint(mine, document), _Footprint(theirs, document)
    return not (
        _covers(my.written, their.read | their.written)
        or _covers(their.read | their.written, my.written)
        or _covers(my.read, their.written)
        or _covers(their.written, my.read)
        or _covers(my.read | my.written, their.appended)
        or _covers(their.read | their.written, my.appended)
        # After an insertion or removal before it, an index means another item.
        or my.shifted & their.indexed
        or their.shifted & my.indexed
        # My index may mean an item that my patch appends, whose index is different if their patch
        # appended too.
        or my.appended & my.indexed & their.appended
    )


class _Footprint:
    """The positions that a patch reads and writes, and the lists that it changes."""

    def __init__(self, operations: Iterable[Operation], document: object) -> None:
        self._document = document
        self.read: set[Tokens] = set()
        self.written: set[Tokens] = set()
        self.appended: set[Tokens] = set()  # Lists to which the patch appends items.
        self.shifted: set[Tokens] = set()
        """Lists in which the patch inserts or removes an item at an index."""
        self.indexed: set[Tokens] = set()  # Lists of which the patch addresses an item by its index
        for operation in operations:
            self._add(operation)

    def _add(self, operation: Operation) -> None:
        tokens = parse(operation.path)
        if isinstance(operation.from_, str):
            source = parse(operation.from_)
            self._note_lists(source)
            if operation.op == "move":
                self._write(source, is_shift=True)
            else:
                self.read.add(source)
        self._note_lists(tokens)
        if operation.op == "test":
            self.read.add(tokens)
        else:
            self._write(tokens, is_shift=operation.op != "replace")

    def _note_lists(self, tokens: Tokens) -> None:
        here: Any = self._document
        for depth, token in enumerate(tokens):
            if token.isdigit() and not is_object(here):
                # Record it even if nothing is found, because it may have been a list when the patch
                # was made.
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


def _covers(some: set[Tokens], others: set[Tokens]) -> bool:
    """Return True if a position of `some` is, or contains, a position of `others`."""
    return any(other[:length] in some for other in others for length in range(len(other) + 1))


_UNBOUNDED = 1 << 62


def versions(first: Any, patches: Iterable[list[Operation]]) -> Iterator[Any]:
    """Yield a document, then the result of each patch."""
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
    """Yield the state of a thread at every version, computed from the events of the thread.

    Raises:
        Broken: the events do not lead to a state.
    """
    try:
        yield from _states(events)
    except (MsgspecError, RelayError, LookupError, TypeError, ValueError, RuntimeError) as error:
        wrong = f"cannot compute a state from the events: {error!r}"
        raise Broken(wrong, "check the store with: relay verify") from error


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
        yield {**document, **stamp, "updated_at": format_time(event.at)}


def _detach(holder: list[Any], tokens: Tokens, fresh: set[int]) -> None:
    """Copy the containers on a path, unless they were already copied for this version."""
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
