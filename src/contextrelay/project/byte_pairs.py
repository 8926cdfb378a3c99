"""Pairs: the tokens of a short text, counted exactly with a table of ranks that is not loaded.

A tokenizer takes longer to load than Python takes to start. A table is bytes that are looked into
where they are, so that a brief's few hundred words touch a few hundred places of it.

Rule: the count is the tokenizer's own, or None: where a text has characters of which this file does
not know how they are cut, or a run so long that it would be slow, it does not guess.
"""

from __future__ import annotations

import re
from binascii import crc32
from collections.abc import Iterable
from struct import error, pack_into, unpack_from

from contextrelay.limits import PAIRS_PIECE_BYTES_MAX

_MAGIC = b"relay ranks 1 o200k_base"
_HEAD_BYTES = 32
_SLOTS = 1 << 19
_SLOT_BYTES = 4
_ENTRIES = _HEAD_BYTES + _SLOTS * _SLOT_BYTES
_ENTRY_HEAD = "<IB"
_ENTRY_HEAD_BYTES = 5
# In a table of two slots an entry no run of taken slots is near this; a damaged one ends here.
_PROBES_MAX = 256

_UPPER, _LOWER = "A-ZÀ-ÖØ-Þ", "a-zß-öø-ÿ"
_LETTERS = _UPPER + _LOWER
_ENDINGS = r"(?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?"
_KNOWN = re.compile(rf"[\t\n\r -~{_LETTERS}×–—‘’“”•…→✔✗⚠]*")
# How o200k_base cuts a text before it looks for pairs, as far as the characters above go.
_PIECE = re.compile(
    rf"[^\r\n{_LETTERS}0-9]?[{_UPPER}]*[{_LOWER}]+{_ENDINGS}"
    rf"|[^\r\n{_LETTERS}0-9]?[{_UPPER}]+[{_LOWER}]*{_ENDINGS}"
    rf"|[0-9]{{1,3}}"
    rf"| ?[^\s{_LETTERS}0-9]+[\r\n/]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def packed(tokens: Iterable[tuple[bytes, int]]) -> bytes:
    """A table out of tokens and their ranks; a token is of at most 255 bytes."""
    slots = bytearray(_SLOTS * _SLOT_BYTES)
    entries = bytearray()
    for token, rank in tokens:
        slot = crc32(token) % _SLOTS
        while unpack_from("<I", slots, slot * _SLOT_BYTES)[0]:
            slot = (slot + 1) % _SLOTS
        pack_into("<I", slots, slot * _SLOT_BYTES, _ENTRIES + len(entries))
        entries += rank.to_bytes(4, "little") + bytes((len(token),)) + token
    size_bytes = _ENTRIES + len(entries)
    head = _MAGIC + size_bytes.to_bytes(_HEAD_BYTES - len(_MAGIC), "little")
    return head + bytes(slots) + bytes(entries)


class Pairs:
    """Counts by a table, which is any buffer that holds what `packed` made."""

    def __init__(self, table: memoryview) -> None:
        self._table = table
        self._counted: dict[str, int] = {}

    def is_whole(self) -> bool:
        """Whether it is a table, and all of it is there."""
        head = bytes(self._table[:_HEAD_BYTES])
        said = int.from_bytes(head[len(_MAGIC) :], "little")
        return head.startswith(_MAGIC) and said == len(self._table)

    def count(self, text: str) -> int | None:
        """The tokens of a text; None where the tokenizer itself has to be asked."""
        if not _KNOWN.fullmatch(text):
            return None
        tokens = 0
        for piece in _PIECE.findall(text):
            counted = self._counted.get(piece)
            if counted is None:
                encoded = piece.encode()
                if len(encoded) > PAIRS_PIECE_BYTES_MAX:
                    return None
                try:
                    counted = self._merged(encoded)
                except (error, IndexError):
                    return None
                self._counted[piece] = counted
            tokens += counted
        return tokens

    def _merged(self, piece: bytes) -> int:
        """How many parts are left when no two neighbours are a token; the lowest rank goes first.

        Raises:
            IndexError: the table is damaged.
        """
        if self._rank(piece) is not None:
            return 1
        # Part i of the piece is from starts[i] to starts[i + 1]; ranks[i] that of it and the next.
        starts = list(range(len(piece) + 1))
        ranks = [self._rank(piece[start : start + 2]) for start in range(len(piece) - 1)]
        while True:
            best = min(
                (rank, place) for place, rank in enumerate([*ranks, _NO_RANK]) if rank is not None
            )
            if best[0] == _NO_RANK:
                return len(starts) - 1
            place = best[1]
            del starts[place + 1], ranks[place]
            for near in (place - 1, place):
                if 0 <= near < len(ranks):
                    ranks[near] = self._rank(piece[starts[near] : starts[near + 2]])

    def _rank(self, token: bytes) -> int | None:
        slot = crc32(token) % _SLOTS
        for _ in range(_PROBES_MAX):
            (place,) = unpack_from("<I", self._table, _HEAD_BYTES + slot * _SLOT_BYTES)
            if not place:
                return None
            rank, size_bytes = unpack_from(_ENTRY_HEAD, self._table, place)
            start = place + _ENTRY_HEAD_BYTES
            if size_bytes == len(token) and bytes(self._table[start : start + size_bytes]) == token:
                return rank
            slot = (slot + 1) % _SLOTS
        raise IndexError(slot)


_NO_RANK = 1 << 32
