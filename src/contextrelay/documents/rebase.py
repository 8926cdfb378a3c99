"""Rebase: whether a patch that was made for an older version still means the same.

Rule: when in doubt, no. A refused writer reads what changed since and tries again; a wrong merge
loses somebody's work without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from contextrelay.documents.patch import Operation
from contextrelay.documents.pointer import APPEND, Tokens, parse
from contextrelay.documents.values import is_list, is_object


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
