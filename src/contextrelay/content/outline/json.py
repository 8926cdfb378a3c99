"""JSON documents, a single one or one per line: keys, types, counts, ranges and samples.

All values at the same path are described together, as a column, so that an array of a thousand
records is described once. Records with errors or warnings are also listed, as in a log.

Rule: a document that is invalid or nested too deeply is outlined as far as it can be read.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any, cast

import msgspec

from contextrelay.content.outline.layout import (
    JOINED,
    OutlineDraft,
    OutlinePiece,
    families,
    shorten,
)
from contextrelay.content.outline.log import ERRORS, level_of, whole_lines
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_PIECES_MAX

_NOT_READ = (msgspec.DecodeError, RecursionError, UnicodeError)
_BLANK = re.compile(r"\s*")
_DOCUMENTS_MAX = 200_000


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a JSON document, or of JSON lines; None for other text."""
    lines = _json_lines(source)
    if lines is not None:
        return lines
    try:
        value = read(source)
    except ValueError:
        return _documents(source) or _broken(source)
    draft, measure = JsonDraft(), source.measure()
    step = "--json-pointer /0" if value else ""
    if isinstance(value, dict):
        held = cast("dict[str, Any]", value)
        draft.add(0, f"JSON object, {measure}, {len(held)} keys")
        draft.add_members([held], 1)
        key = next(iter(held), "").replace("~", "~0").replace("/", "~1")
        step = f"--json-pointer /{key}" if key else ""
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        draft.add(0, f"JSON array, {measure}, {len(items)} elements")
        draft.add_elements(items, 1)
    else:
        draft.add(0, f"JSON, {measure}{_scalar_forms([value])[-1]}")
    return OutlineDraft("json", draft.pieces, step, draft.left_out, draft.names)


def read(source: Source) -> Any:
    """Return the value of a document.

    Raises:
        ValueError: it is invalid or nested too deeply.
    """
    with suppress(*_NOT_READ):
        return msgspec.json.decode(source.text)
    try:
        return json.loads(source.text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _json_lines(source: Source) -> OutlineDraft | None:
    """Outline one document per line, counting invalid lines; return None for other text."""
    lines = source.lines
    if source.media_type != "application/x-ndjson" and not (
        len(lines) > 1 and all(map(_is_document, lines[:2]))
    ):
        return None
    values: list[Any] = []
    numbers: list[int] = []
    bad: list[int] = []
    decode = msgspec.json.Decoder().decode
    for number, line in enumerate(lines, 1):
        try:
            values.append(decode(line))
            numbers.append(number)
        except _NOT_READ:
            if line.strip():
                bad.append(number)
    if len(bad) > len(lines) // 2:
        return None
    draft = JsonDraft()
    draft.add(0, f"JSON lines: {len(values)} documents, {source.measure()}")
    if bad:
        some = ", ".join(map(str, bad[:5]))
        draft.add(1, f"lines that are no JSON: {len(bad)} (at {some})")
    draft.add_records(lines, values, numbers)
    return OutlineDraft("json lines", draft.pieces, "--lines 1:5", draft.left_out, draft.names)


def _is_document(line: str) -> bool:
    with suppress(*_NOT_READ):
        msgspec.json.decode(line)
        return line.startswith(("{", "["))
    return False


def _documents(source: Source) -> OutlineDraft | None:
    """Outline several documents in a row, each on several lines, as far as they can be read."""
    text = source.text
    values: list[Any] = []
    numbers: list[int] = []
    decode = json.JSONDecoder().raw_decode
    at, line = 0, 1
    while len(values) < _DOCUMENTS_MAX:
        start = cast("re.Match[str]", _BLANK.match(text, at)).end()
        line += text.count("\n", at, start)
        if text[start : start + 1] not in ("{", "["):
            break
        try:
            value, at = decode(text, start)
        except (ValueError, RecursionError):
            break
        values.append(value)
        numbers.append(line)
        line += text.count("\n", start, at)
    if len(values) < 2:
        return None
    partly = f", read up to line {line}" if text[at:].strip() else ""
    draft = JsonDraft()
    draft.add(0, f"JSON: {len(values)} documents, {source.measure()}{partly}")
    draft.add_records(source.lines, values, numbers)
    return OutlineDraft("json", draft.pieces, "--lines 1:41", draft.left_out, draft.names)


# Broken documents


_BETWEEN = re.compile(r"[\s,:]*")
_MEMBERS_MAX = 200_000
_BROKEN_DEPTH_MAX = 6


def _broken(source: Source) -> OutlineDraft | None:
    """Outline a document that cannot be parsed: its members as far as they can be read."""
    text = source.text
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] not in ("{", "["):
        return None
    draft = JsonDraft()
    why = "read as far as was looked at" if source.is_partial else "broken, cut or too deep"
    draft.add(0, f"JSON, {why}; {source.measure()}")
    _add_broken(text, start, draft, 1)
    return OutlineDraft("json", draft.pieces, "--bytes 0:2000", draft.left_out)


def _add_broken(text: str, at: int, draft: JsonDraft, depth: int) -> None:
    """Read the members of an array or object one by one, and descend into the unclosed one."""
    decoder = json.JSONDecoder()
    is_object = text[at] == "{"
    at += 1
    keys: list[str] = []
    values: list[Any] = []
    broken = -1
    for _ in range(_MEMBERS_MAX):
        at = cast("re.Match[str]", _BETWEEN.match(text, at)).end()
        if at >= len(text) or text[at] in "]}":
            break
        try:
            if is_object:
                key, at = decoder.raw_decode(text, at)
                keys.append(str(key))
                at = cast("re.Match[str]", _BETWEEN.match(text, at)).end()
            broken = at
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        values.append(value)
        broken = -1
    indent = " " * (depth - 1)
    if is_object:
        draft.add(depth - 1, f"{indent}object, {len(keys)} keys read")
        draft.add_members([dict(zip(keys, values, strict=False))], depth)
    else:
        draft.add(depth - 1, f"{indent}array, {len(values)} elements read")
        draft.add_elements(values, depth)
    if broken >= 0 and text[broken : broken + 1] in ("{", "[") and depth < _BROKEN_DEPTH_MAX:
        name = _shown_name(keys[-1]) if is_object and keys else f"element {len(values)}"
        draft.add(depth, f"{' ' * depth}{name}, not closed:")
        _add_broken(text, broken, draft, depth + 1)


# Columns: the values at one path


_SAMPLES = 3
_SAMPLE_CHARS = 60
# Maximum size of a small object or array.
_SHORT_CHARS, _SHORT_ENTRIES, _SHORT_DEPTH = 100, 8, 3
# An object with more keys than this, and with similar values, is a map.
_MAP_KEYS_MIN = 12
_MAP_KEYS_SHOWN = 20
_MAP_KEYS_TRIED = 2_000
_MAP_ENTRIES = (3, 20, 100)
_SPARSE_SHARE, _WORDS_SHARE = 0.2, 0.75
_DEPTH_MAX = 40
_WORDS = re.compile(r"[A-Za-z_ ]*+")
_FIELD = re.compile(r"[A-Za-z_]*+")
_PLAIN_KEY = re.compile(r"[^\s,:{}\[\]\"]{1,60}")
_TYPES: dict[type, str] = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    type(None): "null",
    dict: "object",
    list: "array",
}


class JsonDraft:
    """Collects the pieces of an outline, path by path."""

    def __init__(self) -> None:
        self.pieces: list[OutlinePiece] = []
        self.left_out = 0
        # Field names; including those at paths with too many to show.
        self.names: dict[str, None] = {}

    def add(self, rank: int, *forms: str, glue: str = "\n") -> None:
        self.pieces.append(OutlinePiece(rank, forms, glue))

    def add_records(
        self, lines: Sequence[str], values: Sequence[Any], numbers: Sequence[int]
    ) -> None:
        """Describe documents by their common structure, with the lines that report errors."""
        self.add_elements(values, 1)
        for noun, found in zip(("error", "warning"), find_errors(values), strict=True):
            there = [numbers[index] for index in found if numbers[index] <= len(lines)]
            self.pieces += whole_lines(noun, lines, there)

    def add_elements(self, values: Sequence[Any], depth: int) -> None:
        """Describe the elements of an array."""
        objects = _of_type(values, dict)
        if objects and len(objects) == len(values):
            self.add(depth, f"{' ' * depth}each: object")
            self.add_members(objects, depth + 1)
        elif values:
            self._add_path("each", values, depth)

    def add_members(self, objects: Sequence[dict[str, Any]], depth: int) -> None:
        """Describe the keys of all objects at one path: scalars on one line, the rest below."""
        columns = _columns(objects)
        if len(columns) >= _MAP_KEYS_MIN and self._add_map(objects, columns, depth):
            return
        keys = list(columns)
        self.names.update((key, None) for key in keys if _PLAIN_KEY.fullmatch(key))
        nested: list[tuple[str, Sequence[Any]]] = []
        glue = "\n"
        for label, indexes in families(keys):
            if len(self.pieces) >= OUTLINE_PIECES_MAX:
                self.left_out += 1
                continue
            values, name = columns[keys[indexes[0]]], _shown_name(label)
            if len(indexes) > 1:
                values = list(chain.from_iterable(columns[keys[index]] for index in indexes))
                name = label
            if len(values) < len(objects):
                name += "?"
            if not _has_nested(values):
                self._add_scalars(name, values, depth, glue)
            elif len(values) == 1 and (forms := self._short_forms(name, values[0])):
                self.add(depth, *_indented(forms, depth, glue), glue=glue)
            else:
                nested.append((name, values))
                continue
            glue = JOINED
        for name, values in nested:
            self._add_path(name, values, depth)

    def _add_map(
        self, objects: Sequence[dict[str, Any]], columns: dict[str, Sequence[Any]], depth: int
    ) -> bool:
        """Describe a map of similar objects, or of scalars by other keys than field names."""
        indent = " " * depth
        values = list(chain.from_iterable(each.values() for each in objects))
        scalars = objects[0] if len(objects) == 1 else {}
        if not _is_map_of_scalars(scalars) and _is_sparse(objects, columns):
            scalars = {} if _has_nested(values) else {key: each[0] for key, each in columns.items()}
        if _is_map_of_scalars(scalars):
            self.add(depth, *(f"{indent}{form}" for form in _map_forms(scalars)))
            return True
        held: Sequence[dict[str, Any]] = _of_type(values, dict)
        some = list(islice(held, 200))
        counts = Counter(chain.from_iterable(some))
        shared = sum(count for count in counts.values() if count >= len(some) / 2)
        # One description fits all only if they share most of their keys.
        if len(held) < len(values) or not counts or shared < 0.6 * counts.total():
            return False
        self.add(depth, f"{indent}map of {len(columns)} keys:")
        # The keys name records: the structure of a record comes before more names.
        for index, key in enumerate(islice(columns, _MAP_KEYS_SHOWN)):
            rank = depth if index < _SAMPLES else _DEPTH_MAX + 1
            self.add(rank, _shown_name(key), glue=JOINED)
        self.left_out += max(0, len(columns) - _MAP_KEYS_SHOWN)
        self.add(depth, f"{indent}each value: object")
        self.add_members(held, depth + 1)
        return True

    def _add_path(self, name: str, values: Sequence[Any], depth: int) -> None:
        if len(self.pieces) >= OUTLINE_PIECES_MAX:
            self.left_out += 1
            return
        objects, arrays = _of_type(values, dict), _of_type(values, list)
        if not objects and not arrays:
            self._add_scalars(name, values, depth, "\n")
            return
        if len(objects) + len(arrays) < len(values):
            rest = [value for value in values if type(value) not in (dict, list)]
            kinds = "|".join(_TYPES.get(each, "?") for each in Counter(map(type, rest)))
            name += f" ({kinds} or)"
        head = f"{' ' * depth}{name}: "
        if len(objects) == 1 and _is_map_of_scalars(objects[0]):
            self.add(depth, *(f"{head}{form}" for form in _map_forms(objects[0])))
        elif objects:
            is_large = len(objects) == 1 and len(objects[0]) > 3
            counted = f" ({len(objects[0])} keys)" if is_large else ""
            self.add(depth, f"{head}{{}}{counted}")
            self._add_below(objects, depth)
        if not arrays:
            return
        sizes = {len(each) for each in arrays}
        head += f"[{min(sizes)}]" if len(sizes) == 1 else f"[{min(sizes)}..{max(sizes)}]"
        values = list(chain.from_iterable(arrays))
        objects = _of_type(values, dict)
        if not _has_nested(values):
            self.add(depth, head, *(f"{head}{form}" for form in _scalar_forms(values) if values))
        elif len(objects) == len(values):
            self.add(depth, f"{head} of {{}}")
            self._add_below(objects, depth)
        else:
            self.add(depth, head)
            if depth < _DEPTH_MAX:
                self._add_path("each", values, depth + 1)
            else:
                self.left_out += 1

    def _add_below(self, objects: Sequence[dict[str, Any]], depth: int) -> None:
        if depth < _DEPTH_MAX:
            self.add_members(objects, depth + 1)
        else:
            self.left_out += 1

    def _add_scalars(self, name: str, values: Sequence[Any], depth: int, glue: str) -> None:
        # For a top-level number, the value is as short as its name.
        is_number = depth == 1 and len(values) == 1 and type(values[0]) is int
        forms = tuple(f"{name}{form}" for form in ("", *_scalar_forms(values))[is_number:])
        self.add(depth, *_indented(forms, depth, glue), glue=glue)

    def _short_forms(self, name: str, value: dict[str, Any] | list[Any]) -> tuple[str, ...]:
        """Return a small object or array as its names only, and with its values; () if large."""
        names: dict[str, None] = {}
        written = _written(value, _SHORT_DEPTH, names)
        if written is None or len(written) > _SHORT_CHARS:
            return ()
        self.names.update((key, None) for key in names if _PLAIN_KEY.fullmatch(key))
        listed = f"{{{', '.join(map(_shown_name, names))}}}"
        if isinstance(value, list):
            listed = f"[{len(value)}]" + (f" of {listed}" if names else "")
        return f"{name}: {listed}", f"{name} = {written}"


def _of_type(
    values: Sequence[Any], wanted: type, kinds: Collection[type] | None = None
) -> Sequence[Any]:
    """Return the values of a type; `kinds` are the types present, if known."""
    kinds = set(map(type, values)) if kinds is None else kinds
    if wanted not in kinds:
        return ()
    return values if len(kinds) == 1 else [value for value in values if type(value) is wanted]


def _has_nested(values: Sequence[Any]) -> bool:
    return not {dict, list}.isdisjoint(map(type, values))


def _indented(forms: tuple[str, ...], depth: int, glue: str) -> tuple[str, ...]:
    """Indent forms for a depth, if they start a line."""
    return tuple(f"{' ' * depth}{form}" for form in forms) if glue == "\n" else forms


def _columns(objects: Sequence[dict[str, Any]]) -> dict[str, Sequence[Any]]:
    """Return the values of each key, in one pass: keys times objects may be far more."""
    keys = tuple(objects[0]) if objects else ()
    # The common case of uniform records, which is faster.
    if all(map(keys.__eq__, map(tuple, objects))):
        return dict(zip(keys, zip(*(each.values() for each in objects), strict=True), strict=True))
    columns: defaultdict[str, list[Any]] = defaultdict(list)
    for each in objects:
        for key, value in each.items():
            columns[key].append(value)
    return dict(columns)


def _is_sparse(objects: Sequence[dict[str, Any]], columns: dict[str, Sequence[Any]]) -> bool:
    """Return True if the objects have few of many keys each, and many look like no field names."""
    if sum(map(len, objects)) >= _SPARSE_SHARE * len(objects) * len(columns):
        return False
    words = sum(_WORDS.fullmatch(key) is not None for key in columns)
    return words < _WORDS_SHARE * len(columns)


def _is_map_of_scalars(held: dict[str, Any]) -> bool:
    """Return True if an object maps arbitrary names, such as packages, to values of one type."""
    kinds = set(map(type, held.values()))
    if len(held) < _MAP_KEYS_MIN or len(kinds) > 1 or not kinds.isdisjoint((dict, list)):
        return False
    if all(map(_FIELD.fullmatch, held)):
        return False
    some = list(islice(held, _MAP_KEYS_TRIED))
    return len(families(some)) > len(some) // 2


# Forms of keys and values


def _shown_name(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else json.dumps(shorten(key, 60), ensure_ascii=False)


def _sample(value: Any, chars_max: int = _SAMPLE_CHARS) -> str:
    if isinstance(value, str):
        return json.dumps(shorten(value, chars_max), ensure_ascii=False)
    return "null" if value is None else str(value).lower()[:chars_max]


def _scalar_forms(values: Sequence[Any]) -> tuple[str, ...]:
    """Describe scalars: by type, and by type with ranges and samples."""
    if len(values) == 1:
        return (f" = {_sample(values[0])}",)
    counts = Counter(map(type, values))
    types = "|".join(_TYPES.get(kind, "?") for kind in counts)
    details = ", ".join(_details(values, counts))
    return (f": {types}", f": {types} {details}") if details else (f": {types}",)


def _details(values: Sequence[Any], counts: Counter[type]) -> Iterator[str]:
    numbers = [*_of_type(values, int, counts), *_of_type(values, float, counts)]
    if numbers:
        low, high = min(numbers), max(numbers)
        yield f"{low}" if low == high else f"{low}..{high}"
    texts = _of_type(values, str, counts)
    if texts:
        distinct = Counter(texts)
        # The most common values; the first ones if there are too many to count.
        is_many = len(distinct) > 1_000
        common = list(distinct.items()) if is_many else distinct.most_common(_SAMPLES)
        samples = " ".join(_sample(text, _SAMPLE_CHARS // 2) for text, _ in common[:_SAMPLES])
        yield samples + (f" ({len(distinct)} distinct)" if len(distinct) > _SAMPLES else "")
    if counts.get(bool):
        yield f"true {sum(value is True for value in values)} of {counts[bool]}"


def _written(value: Any, depth: int, names: dict[str, None]) -> str | None:
    """Return a short value as JSON, or None; add its field names to `names`."""
    if not isinstance(value, dict | list):
        return _sample(value) if len(str(value)) <= _SAMPLE_CHARS else None
    held = cast("dict[str, Any] | list[Any]", value)
    if len(held) > _SHORT_ENTRIES or not depth:
        return None
    parts: list[str] = []
    for key, each in held.items() if isinstance(held, dict) else ((None, each) for each in held):
        text = _written(each, depth - 1, names)
        if text is None:
            return None
        if key is not None:
            names[key] = None
        parts.append(text if key is None else f"{_shown_name(key)}: {text}")
    joined = ", ".join(parts)
    return f"{{{joined}}}" if isinstance(held, dict) else f"[{joined}]"


def _map_forms(held: dict[str, Any]) -> list[str]:
    """Describe a map of scalars: with some names, with more, and with values."""
    some = list(islice(held.items(), _MAP_ENTRIES[-1]))
    pairs = [f"{_shown_name(key)}{_scalar_forms([value])[0]}" for key, value in some]
    # The first value shows what they are.
    listed = [pairs[0], *(_shown_name(key) for key, _ in some[1:])]
    forms: list[str] = []
    for texts in (*(listed[:count] for count in _MAP_ENTRIES), pairs):
        left = f" +{len(held) - len(texts)}" if len(held) > len(texts) else ""
        forms.append(f"map of {len(held)} keys: {', '.join(texts)}{left}")
    return forms


# Levels of records


_LEVELS = ("level", "severity", "log.level", "loglevel", "lvl", "levelname", "severity_text")
_RECORDS_TRIED = 50
# Numeric levels of some loggers: 50 is an error, 40 a warning.
_NUMBERED = {40: "WARN", 50: "ERROR", 60: "FATAL"}


def find_errors(values: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Return the indexes of records that report errors, and of those that report warnings."""
    tried: Counter[tuple[str, ...]] = Counter()
    for record in values[:_RECORDS_TRIED]:
        if isinstance(record, dict):
            held = cast("dict[str, Any]", record)
            paths = [(key,) for key in held if key.lower() in _LEVELS]
            tried.update(path for path in (*paths, ("log", "level")) if _level(held, path))
    if not tried:
        return [], []
    path = tried.most_common(1)[0][0]
    levels = [_level(value, path) for value in values]
    errors = [index for index, level in enumerate(levels) if level in ERRORS]
    return errors, [index for index, level in enumerate(levels) if level == "WARN"]


def _level(value: Any, path: tuple[str, ...]) -> str | None:
    for key in path:
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    if isinstance(value, str):
        return level_of(value.strip()) if len(value) <= 20 else None
    return _NUMBERED.get(value, "INFO") if type(value) is int else None
