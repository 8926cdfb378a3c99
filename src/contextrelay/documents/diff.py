"""Differences: the operations that change one document into another.

Rule: the result is correct for any two documents, and short for similar ones. A list of 100,000
items with one change is encoded twice, and gives one operation.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise, takewhile
from typing import Any

import msgspec

from contextrelay.documents.patch import Operation
from contextrelay.documents.pointer import APPEND, escape
from contextrelay.documents.values import is_equal, is_list, is_object
from contextrelay.limits import JSON_DEPTH_MAX, PATCH_OPERATIONS_MAX, POINTER_CHARS_MAX

# Lists are compared by the encoding of runs of items; a run has this many items.
_RUN_ITEMS = 256

_encode = msgspec.json.encode


def diff_values(old: Any, new: Any, path: str = "", depth: int = 0) -> list[Operation]:
    """Return the operations that change `old`, which is at `path`, into `new`.

    The operations contain parts of `new`. An old number that equals the new one, such as 1 and 1.0,
    may be kept. Values that are deeper, or have longer paths, than a patch can address are replaced
    as a whole.
    """
    is_named = depth < JSON_DEPTH_MAX and len(path) <= POINTER_CHARS_MAX
    if is_named and is_object(old) and is_object(new):
        found = _of_objects(old, new, path, depth)
    elif is_named and is_list(old) and is_list(new):
        found = _of_lists(old, new, path, depth)
    else:
        return [] if is_equal(old, new) else [Operation("replace", path, new)]
    # The members of the root are changed one by one, however many there are, because they include
    # the identity of a state.
    is_long = len(found) > PATCH_OPERATIONS_MAX and path
    if is_long or any(len(operation.path) > POINTER_CHARS_MAX for operation in found):
        return [Operation("replace", path, new)]
    return found


def _of_objects(old: dict[str, Any], new: dict[str, Any], path: str, depth: int) -> list[Operation]:
    found = [Operation("remove", f"{path}/{escape(name)}") for name in old if name not in new]
    for name, value in new.items():
        place = f"{path}/{escape(name)}"
        if name in old:
            found += diff_values(old[name], value, place, depth + 1)
        else:
            found.append(Operation("add", place, value))
    return found


def _of_lists(old: list[Any], new: list[Any], path: str, depth: int) -> list[Operation]:
    shorter = min(len(old), len(new))
    start = _alike(old[:shorter], new[:shorter])
    left = shorter - start
    end = _alike(old[len(old) - left :][::-1], new[len(new) - left :][::-1])
    old_middle = old[start : len(old) - end]
    new_middle = new[start : len(new) - end]
    kept = _kept_pairs(old_middle, new_middle)
    if kept is None:
        count = min(len(old_middle), len(new_middle))
        kept = [(index, index) for index in range(count)]

    # Remove from the end, so that the indexes of the remaining removals stay valid.
    stays = {old_index for old_index, _ in kept}
    found = [
        Operation("remove", f"{path}/{start + index}")
        for index in range(len(old_middle) - 1, -1, -1)
        if index not in stays
    ]
    # Then add from the front, because everything before the index is already in place.
    old_index_of = {new_index: old_index for old_index, new_index in kept}
    size = len(old) - len(found)
    for index, value in enumerate(new_middle):
        if index in old_index_of:
            before = old_middle[old_index_of[index]]
            # Most items are unchanged, which their encoding shows fastest.
            if _encode(before) != _encode(value):
                found += diff_values(before, value, f"{path}/{start + index}", depth + 1)
            continue
        place = APPEND if start + index == size else str(start + index)
        found.append(Operation("add", f"{path}/{place}", value))
        size += 1
    return found


def _alike(old: list[Any], new: list[Any]) -> int:
    """Return the number of equal items at the start of two lists of the same length."""
    for start in range(0, len(old), _RUN_ITEMS):
        stop = start + _RUN_ITEMS
        if _encode(old[start:stop]) != _encode(new[start:stop]):
            pairs = zip(old[start:stop], new[start:stop], strict=True)
            alike = takewhile(lambda pair: _encode(pair[0]) == _encode(pair[1]), pairs)
            return start + sum(1 for _ in alike)
    return len(old)


def _kept_pairs(old: list[Any], new: list[Any]) -> list[tuple[int, int]] | None:
    """Return the items to keep, by id, as ascending pairs of old and new indexes, or None.

    The other items are removed, and added again if they moved.
    """
    old_ids, new_ids = _ids(old), _ids(new)
    if old_ids is None or new_ids is None:
        return None
    pairs = [(old_ids[id], index) for id, index in new_ids.items() if id in old_ids]
    if all(one < other for (one, _), (other, _) in pairwise(pairs)):
        return pairs
    return longest_increasing(pairs)


def longest_increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs whose first numbers ascend, by patience sorting."""
    # For each length, the smallest number that ends a subsequence of that length.
    lowest: list[int] = []
    enders: list[int] = []  # For each length, the index of the pair that contains this number.
    before: list[int] = []  # For each pair, the index of its predecessor in the subsequence.
    for number, (old_index, _) in enumerate(pairs):
        length = bisect_left(lowest, old_index)
        before.append(enders[length - 1] if length else -1)
        lowest[length : length + 1] = [old_index]
        enders[length : length + 1] = [number]
    rising: list[tuple[int, int]] = []
    number = enders[-1] if enders else -1
    while number >= 0:
        rising.append(pairs[number])
        number = before[number]
    return rising[::-1]


def _ids(items: list[Any]) -> dict[str, int] | None:
    """Return the index of each id, in order; None if an item has no id, or an id is duplicate."""
    ids: dict[str, int] = {}
    for index, item in enumerate(items):
        id = item.get("id") if is_object(item) else None
        if type(id) is not str or id in ids:
            return None
        ids[id] = index
    return ids
