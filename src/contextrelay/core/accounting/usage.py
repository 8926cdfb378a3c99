"""Usage: what readers received and pulled back, recorded in memory and written every second.

A read only records in memory; a background thread counts tokens and adds to the ledger's counters.
Closing the stores and ending the process write the rest; a process that is killed loses the last
second. If the engine is unreachable, the counts are written once it is back. The counters `savings`
belong to the space, `savings/<thread>` to the artifacts that were put into a thread. The row `read`
of an artifact says that its whole was counted, with the estimate that was used until its tokens are
counted exactly.

Rule: nothing here may fail or delay a read. Reads that come too fast to be counted are counted as
such.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from msgspec import Struct
from msgspec.json import Decoder
from msgspec.structs import replace

from contextrelay.content.tokens import count_tokens, estimate_tokens
from contextrelay.core.accounting.pull_rates import PullMarks
from contextrelay.core.accounting.savings_breakdown import Shares
from contextrelay.core.artifacts.bodies import outline_key
from contextrelay.core.artifacts.records import find_readable
from contextrelay.core.schema import UNREADABLE, RowKind, artifact_log, body_log, savings_counters
from contextrelay.core.stores import Stores
from contextrelay.errors import RelayError
from contextrelay.limits import SPENDING_REFS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.package import Package
from contextrelay.model.tokens import Spent
from contextrelay.store.ledger import ONLY, Row, Write
from contextrelay.verbs import (
    Grep,
    Pack,
    Peek,
    Pull,
    Search,
    Verb,
)

# The interval between writes, and the maximum number of artifacts and threads per write.
SPENDING_EVERY_S = 1.0
SPENDING_THREADS_MAX = 64
# The maximum number of counter names that are buffered while the engine is unreachable.
SPENDING_NAMES_MAX = 1_000


# The value of a row for tokens that were counted. For estimated tokens, the row contains the
# estimate.
_MEASURED = b""


def note(stores: Stores, verb: Verb[Any], reply: Any) -> None:
    """Record which artifacts a reply gave to its reader, and how many tokens of them."""
    spending = usage_of(stores)
    if isinstance(verb, Pack):
        spending.showed(reply)
    elif isinstance(verb, Peek):
        # A peek is not recorded: it often comes before a pull, or only asks for metadata, and shows
        # no text.
        if verb.shown_chars != 0:
            spending.peeked(reply, verb.shown_chars)
    elif isinstance(verb, Pull):
        artifact: Artifact = reply.value
        stop = artifact.size_bytes if verb.stop is None else min(verb.stop, artifact.size_bytes)
        spending.pulled(artifact, max(0, stop - verb.start))
    else:
        spending.looked(_refs(verb, reply), getattr(verb, "thread", None), reply.spent)
        if isinstance(ref := getattr(verb, "ref", None), str):
            spending.read(ref, reply.spent.tokens)


def _refs(verb: Verb[Any], reply: Any) -> Iterable[str]:
    """Yield the refs of the artifacts that a reply shows in whole or in part."""
    if isinstance(verb, Search):
        return {hit.ref for hit in reply.hits}
    if isinstance(verb, Grep):
        return {match.ref for match in reply.matches}
    named = (getattr(verb, field, None) for field in ("ref", "old", "new"))
    return [ref for ref in named if isinstance(ref, str)]


def usage_of(stores: Stores) -> UsageRecorder:
    caller = stores.caller
    if caller is None:
        return stores.services.get("spending/", lambda: UsageRecorder(stores))
    name = f"spending/{caller.key.tenant or ''}"
    if not caller.key.is_limited:
        return stores.services.get(name, lambda: UsageRecorder(caller.space))
    # The reads of a limited key use only the token counts in the outlines of that key.
    own = replace(caller.space, caller=caller)
    return stores.services.get(f"{name}|{caller.key.id}", lambda: UsageRecorder(own))


class _Touched:
    """Reads of one artifact since the last write."""

    __slots__ = ("artifact", "previews", "pulled_bytes", "pulls", "pulls_whole")

    def __init__(self) -> None:
        self.artifact: Artifact | None = None
        self.pulls = self.pulls_whole = self.pulled_bytes = 0
        # The number of times that each preview length was shown.
        self.previews: dict[int | None, int] = {}

    def add(self, later: _Touched) -> None:
        self.artifact = later.artifact or self.artifact
        self.pulls += later.pulls
        self.pulls_whole += later.pulls_whole
        self.pulled_bytes += later.pulled_bytes
        for shown_chars, times in later.previews.items():
            self.previews[shown_chars] = self.previews.get(shown_chars, 0) + times


class _Inspection(Struct, frozen=True):
    """The reply of one inspection."""

    refs: tuple[str, ...]
    thread: str | None
    tokens: int


class UsageRecorder:
    """A buffer of what the readers of one space received since the last write."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._touched: dict[str, _Touched] = {}
        self._looks: list[_Inspection] = []
        self._uncounted = 0
        self._unwritten: dict[str, Counter[str]] = {}
        self._sent: tuple[bytes, dict[str, dict[str, int]]] | None = None
        """Counters, and their id, that were sent and may have been added."""
        """Amounts to add to counters that could not be written before."""
        self._marks = PullMarks()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._timer: threading.Timer | None = None
        self._pid = os.getpid()
        _all.add(self)

    # Recording

    def showed(self, package: Package) -> None:
        """Record which refs a window shows (core/artifacts/pull.py)."""
        with self._lock:
            self._marks.showed(package)
            if len(self._marks):
                self._write_soon()

    def read(self, ref: str, tokens: int) -> None:
        """Record that a piece of an artifact was requested by its ref."""
        with self._lock:
            self._marks.read((ref,), tokens)

    def peeked(self, artifact: Artifact, shown_chars: int | None) -> None:
        with self._lock:
            touched = self._touch(artifact.ref)
            if touched is not None:
                touched.artifact = artifact
                touched.previews[shown_chars] = touched.previews.get(shown_chars, 0) + 1

    def pulled(self, artifact: Artifact, size_bytes: int) -> None:
        with self._lock:
            touched = self._touch(artifact.ref)
            if touched is not None:
                touched.artifact = artifact
                self._marks.read((artifact.ref,), estimate_tokens(size_bytes))
                touched.pulls += 1
                if size_bytes == artifact.size_bytes:
                    touched.pulls_whole += 1
                else:
                    touched.pulled_bytes += size_bytes

    def looked(self, refs: Iterable[str], thread: str | None, spent: Spent) -> None:
        with self._lock:
            if len(self._looks) >= SPENDING_REFS_MAX:
                self._uncounted += 1
                return
            known = tuple(ref for ref in refs if self._touch(ref) is not None)
            self._looks.append(_Inspection(known, thread, spent.tokens))

    def _touch(self, ref: str) -> _Touched | None:
        found = self._touched.get(ref)
        if found is None:
            if len(self._touched) >= SPENDING_REFS_MAX:
                self._uncounted += 1
                return None
            found = self._touched[ref] = _Touched()
            self._write_soon()
        return found

    def _write_soon(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(SPENDING_EVERY_S, self._write_later)
            self._timer.daemon = True
            self._timer.start()

    # Writing

    def _write_later(self) -> None:
        with self._lock:
            self._timer = None
        # If the write fails, only counts are lost.
        with suppress(RelayError, OSError, RuntimeError):
            self.write()

    def close(self) -> None:
        """Write the counts that are still buffered."""
        self._cancel_timer()
        with suppress(RelayError):
            self.write()
        self._cancel_timer()  # The failed write has scheduled another write.
        _all.discard(self)

    def _cancel_timer(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def write(self) -> None:
        """Add the buffered counts to the ledger's counters."""
        with self._writing:
            with self._lock:
                touched, looks, uncounted = self._touched, self._looks, self._uncounted
                self._touched, self._looks, self._uncounted = {}, [], 0
                marks = self._marks.taken()
            if self._pid != os.getpid():  # The parent process has the same counts and writes them.
                self._pid = os.getpid()
                self._unwritten, self._sent = {}, None
                return
            if touched or looks or uncounted:
                try:
                    self._add(*self._counts(touched, looks, uncounted))
                except RelayError:  # Nothing was written; the next call writes the same counts.
                    self._put_back(touched, looks, uncounted, marks)
                    raise
            if marks:
                try:
                    self._sum_up(marks.write(self._stores.ledger, self._whole_tokens))
                except RelayError:
                    with self._lock:
                        self._marks.put_back(marks)
                        self._write_soon()
                    raise
            while self._unwritten or self._sent:
                self._tally()

    def _put_back(
        self,
        touched: dict[str, _Touched],
        looks: list[_Inspection],
        uncounted: int,
        marks: PullMarks,
    ) -> None:
        with self._lock:
            later, self._touched = self._touched, touched
            for ref, each in later.items():
                if (earlier := self._touch(ref)) is not None:
                    earlier.add(each)
            room = SPENDING_REFS_MAX - len(looks)
            self._uncounted += uncounted + max(0, len(self._looks) - room)
            self._looks = looks + self._looks[:room]
            self._marks.put_back(marks)
            self._write_soon()

    def _counts(
        self, touched: dict[str, _Touched], looks: list[_Inspection], uncounted: int
    ) -> tuple[dict[str | None, Counter[str]], Shares, list[Write]]:
        """Sum up the buffered reads by counter; read the artifacts that are needed for this."""
        ledger = self._stores.ledger
        sums: dict[str | None, Counter[str]] = {None: Counter(uncounted=uncounted)}
        shares = Shares()
        known: dict[str, Artifact] = {}
        firsts: list[Write] = []
        for ref, each in touched.items():
            artifact = each.artifact or find_readable(ledger, ref)
            if artifact is None or not artifact.is_text or artifact.sealed is not None:
                continue
            known[ref] = artifact
            counted = self._counted(each, artifact)
            before = ledger.get(artifact_log(ref), RowKind.READ, ONLY)
            if before != _MEASURED and (row := self._count_whole(artifact, before, counted)):
                firsts.append(Write(artifact_log(ref), rows=(row,)))
            _add_to(sums, artifact.thread, counted)
            shares.add((artifact,), counted)
        for look in looks:
            shown = [known[ref] for ref in look.refs if ref in known]
            of = {each.thread for each in shown}
            thread = look.thread or (of.pop() if len(of) == 1 else None)
            counted = Counter(answers=1, sent_measured=look.tokens)
            _add_to(sums, thread, counted)
            shares.add(shown, counted)
        return sums, shares, firsts

    def _add(
        self, sums: dict[str | None, Counter[str]], shares: Shares, firsts: list[Write]
    ) -> None:
        ledger = self._stores.ledger
        added = shares.sums(ledger, self._stores.now_ms())
        if firsts:
            # Write the rows first, so that a crash before the counters loses a saving, not a cost.
            ledger.commit(*firsts)
        for thread in list(sums)[: SPENDING_THREADS_MAX + 1]:
            added[savings_counters(thread)] = sums[thread]
        self._sum_up(added)

    def _sum_up(self, added: dict[str, Counter[str]]) -> None:
        for name, counted in added.items():
            self._unwritten.setdefault(name, Counter()).update(counted)

    def _tally(self) -> None:
        """Write the counters, all or none; if that fails, they are sent again with their id."""
        if self._sent is None:
            unwritten, self._unwritten = self._unwritten, {}
            sums = {name: {k: v for k, v in each.items() if v} for name, each in unwritten.items()}
            self._sent = os.urandom(16), sums
        id, sums = self._sent
        try:
            self._stores.ledger.tally_all(sums, id)
        except RelayError:
            if len(self._unwritten) > SPENDING_NAMES_MAX:
                self._unwritten.clear()  # The engine has been unreachable for long.
            with self._lock:
                self._write_soon()
            raise
        self._sent = None

    def _count_whole(
        self, artifact: Artifact, before: bytes | None, counted: Counter[str]
    ) -> Row | None:
        """Count the tokens of a whole body once; replace an estimate as soon as the exact count is
        known.
        """
        tokens, basis = self._whole(artifact)
        if before is None:
            counted[f"whole_{basis}"] += tokens
        elif basis == "measured":
            counted["whole_estimated"] -= int(before) if before.isdigit() else 0
            counted["whole_measured"] += tokens
        else:
            return None
        return Row(RowKind.READ, ONLY, _MEASURED if basis == "measured" else str(tokens).encode())

    def _counted(self, each: _Touched, artifact: Artifact) -> Counter[str]:
        counted: Counter[str] = Counter(answers=sum(each.previews.values()), pulls=each.pulls)
        for shown_chars, times in each.previews.items():
            tokens, basis = _tokens(artifact.preview.text[:shown_chars])
            counted[f"sent_{basis}"] += times * tokens
        if each.pulls_whole:
            tokens, basis = self._whole(artifact)
            counted[f"pulled_{basis}"] += each.pulls_whole * tokens
        counted["pulled_estimated"] += estimate_tokens(each.pulled_bytes)
        return counted

    def _whole_tokens(self, artifact: Artifact) -> int:
        return self._whole(artifact)[0]

    def _whole(self, artifact: Artifact) -> tuple[int, str]:
        """Return the token count of a body, and whether it is exact (the body was inspected before)
        or estimated.
        """
        key = outline_key(self._stores, artifact)
        row = self._stores.ledger.get(body_log(artifact.sha256), RowKind.LOOKED, key)
        if row is not None:
            with suppress(*UNREADABLE):
                whole = _looked.decode(row).whole
                return whole.tokens, whole.basis
        if not artifact.preview.truncated:
            return _tokens(artifact.preview.text)
        return estimate_tokens(artifact.size_bytes), "estimated"


class _Whole(Struct):
    tokens: int
    basis: str


class _CachedTokens(Struct):
    """The token count in the cached outline of a body (core/inspect.py)."""

    whole: _Whole


_looked = Decoder(_CachedTokens)


def _add_to(
    sums: dict[str | None, Counter[str]], thread: str | None, counted: Counter[str]
) -> None:
    sums[None].update(counted)
    if thread is not None:
        sums.setdefault(thread, Counter()).update(counted)


def _tokens(text: str) -> tuple[int, str]:
    """Count tokens with the tokenizer if it is loaded, else estimate; a short command does not wait
    for loading.
    """
    if "splintr" in sys.modules:
        return count_tokens(text), "measured"
    return estimate_tokens(text), "estimated"


# At process exit

_all: WeakSet[UsageRecorder] = WeakSet()


def _write_all() -> None:
    for each in tuple(_all):
        each.close()


atexit.register(_write_all)
