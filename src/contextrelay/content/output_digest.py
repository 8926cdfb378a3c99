"""Output digests: head, tail and error lines of a command's output, computed while it streams.

Rule: memory does not grow with the output; a digest is within its number of tokens, after defusing,
and counts the omitted lines.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from contextrelay.content.shown_lines import (
    chars_for,
    choose_lines,
    ends_first,
    error_lines,
    with_marks,
)
from contextrelay.content.untrusted.defuse import defuse
from contextrelay.limits import DIGEST_LINES_MAX, KIB, OUTPUT_SEARCHED_BYTES_MAX

# Limits for command output: bytes kept of each end, bytes searched for errors, bytes held in
# memory, and the size up to which it is printed unchanged.
OUTPUT_END_BYTES = 64 * KIB

# Terminal colours and cursor movements.
_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)")
_BUDGET_TOKENS_MIN = 8


class OutputDigest:
    """Head, tail, error lines and counts of an output, valid for the chunks fed so far."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.error_count = 0
        self.is_text = True
        self._head = bytearray()
        self._tail = b""
        self._newlines = 0
        self._searched = 0
        self._unfinished = b""
        self._first_errors: dict[int, str] = {}
        self._last_errors: deque[tuple[int, str]] = deque(maxlen=DIGEST_LINES_MAX // 2)

    def feed(self, chunk: bytes) -> None:
        """Add the next chunk of the output."""
        self.is_text = self.is_text and b"\0" not in chunk
        if self.size_bytes < OUTPUT_SEARCHED_BYTES_MAX:
            # The lines that are complete now.
            whole, newline, rest = (self._unfinished + chunk).rpartition(b"\n")
            self._unfinished = rest[-OUTPUT_END_BYTES:]
            if newline:
                self._add_errors(whole)
        self.size_bytes += len(chunk)
        self._newlines += chunk.count(b"\n")
        if len(self._head) < OUTPUT_END_BYTES:
            self._head += chunk[: OUTPUT_END_BYTES - len(self._head)]
        tail = b"" if len(chunk) >= OUTPUT_END_BYTES else self._tail
        self._tail = (tail + chunk)[-OUTPUT_END_BYTES:]

    def _add_errors(self, whole: bytes) -> None:
        text = whole.decode(errors="replace")
        found = error_lines(text, DIGEST_LINES_MAX)
        self.error_count += len(found)
        lines = text.split("\n") if found else []
        for index in found:
            if len(self._first_errors) < DIGEST_LINES_MAX // 2:
                self._first_errors[self._searched + index] = lines[index]
            else:
                self._last_errors.append((self._searched + index, lines[index]))
        self._searched += whole.count(b"\n") + 1

    @property
    def is_searched(self) -> bool:
        """Whether all of it was searched for errors."""
        return self.size_bytes <= OUTPUT_SEARCHED_BYTES_MAX

    @property
    def line_count(self) -> int:
        return self._newlines + (self.size_bytes > 0 and not self._tail.endswith(b"\n"))

    def text(self, tokens_max: int, last: str, count: Callable[[str], int]) -> str:
        """Return the digest within a number of tokens, with `last` as its last line."""
        if self._unfinished:
            self._add_errors(self._unfinished)
            self._unfinished = b""
        known = self._known(lines_max=tokens_max)  # A line takes at least one token.
        errors = sorted({*self._first_errors, *(index for index, _ in self._last_errors)})
        lines = _Known(known, self.line_count)
        candidates = ends_first(sorted(known.keys() - set(errors))) if self.is_text else []
        budget_tokens = tokens_max - count(last)
        costs: dict[int, int] = {}
        chars_max = chars_for(budget_tokens)
        while True:
            shown = choose_lines(lines, errors, candidates, budget_tokens, costs, count, chars_max)
            text = defuse("\n".join(with_marks(lines, shown, chars_max))).text
            over = count(f"{text}\n{last}") - tokens_max
            if over <= 0 or budget_tokens <= _BUDGET_TOKENS_MIN:
                return f"{text}\n{last}"
            budget_tokens -= max(over, budget_tokens // 8)

    def _known(self, lines_max: int) -> dict[int, str]:
        """Return the kept lines by index, this many of each end."""
        head = bytes(self._head).decode(errors="replace").split("\n")
        if len(self._head) < self.size_bytes:
            head.pop()  # It may be incomplete.
        known = dict(enumerate(head[:lines_max]))
        tail = self._tail.decode(errors="replace").split("\n")
        if not tail[-1]:
            tail.pop()
        first = self.line_count - len(tail)
        if len(self._tail) < self.size_bytes:
            tail, first = tail[1:], first + 1  # Its beginning may be missing.
        skipped = max(0, len(tail) - lines_max)
        for index, line in enumerate(tail[skipped:], first + skipped):
            known.setdefault(index, line)
        known.pop(self.line_count, None)
        return known | self._first_errors | dict(self._last_errors)


class _Known:
    """Lines of which some are known; cleaned when accessed."""

    def __init__(self, known: dict[int, str], count: int) -> None:
        self._known = known
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int, /) -> str:
        # Without terminal codes; for a progress bar, only its last state.
        return _CODES.sub("", self._known[index]).rstrip("\r").rpartition("\r")[2]
