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
from contextrelay.core.idempotency import outside_request
from contextrelay.core.schema import UNREADABLE, RowKind, artifact_log, body_log, savings_counters
from contextrelay.core.stores import Stores
from contextrelay.errors import RelayError
from contextrelay.limits import SPENDING_REFS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.package import Package
from contextrelay.model.tokens import Spent
from contextrelay.store.ledger import ONLY, Row, Stale, Write
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
# The maximum number of outlines that wait to be written.
OUTLINES_MAX = 32


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
        return stores.services.get("spending/", lambda: UsageRecorder(outside_request(stores)))
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


class _Buffer:
    """What readers of a space received since the last write."""

    __slots__ = ("looks", "marks", "outlines", "touched", "uncounted")

    def __init__(self) -> None:
        self.touched: dict[str, _Touched] = {}
        self.looks: list[_Inspection] = []
        self.uncounted = 0
        self.marks = PullMarks()
        self.outlines: dict[tuple[str, str], Write] = {}
        """Writes of outlines, by the log and the key of their row."""


class UsageRecorder:
    """A buffer of what the readers of one space received since the last write."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._buffer = _Buffer()
        self._sent: tuple[bytes, list[Write]] | None = None
        """A commit that was sent and may have been applied, with its id."""
        self._flushing: dict[tuple[str, str], Write] = {}
        """The outlines of the write that is under way."""
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._timer: threading.Timer | None = None
        self._pid = os.getpid()
        _all.add(self)

    # Recording

    def showed(self, package: Package) -> None:
        """Record which refs a window shows (core/artifacts/pull.py)."""
        with self._lock:
            self._buffer.marks.showed(package)
            if len(self._buffer.marks):
                self._write_soon()

    def read(self, ref: str, tokens: int) -> None:
        """Record that a piece of an artifact was requested by its ref."""
        with self._lock:
            self._buffer.marks.read((ref,), tokens)

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
                self._buffer.marks.read((artifact.ref,), estimate_tokens(size_bytes))
                touched.pulls += 1
                if size_bytes == artifact.size_bytes:
                    touched.pulls_whole += 1
                else:
                    touched.pulled_bytes += size_bytes

    def looked(self, refs: Iterable[str], thread: str | None, spent: Spent) -> None:
        with self._lock:
            if len(self._buffer.looks) >= SPENDING_REFS_MAX:
                self._buffer.uncounted += 1
                return
            known = tuple(ref for ref in refs if self._touch(ref) is not None)
            self._buffer.looks.append(_Inspection(known, thread, spent.tokens))

    def inspected(self, write: Write) -> None:
        """Buffer the write of a cached outline. It is written with the next counts."""
        with self._lock:
            if len(self._buffer.outlines) < OUTLINES_MAX:
                self._buffer.outlines[write.log, write.rows[0].key] = write
            else:
                self._write_soon()

    def outline(self, log: str, key: str) -> bytes | None:
        """Return an outline that is not written yet, or None."""
        place = log, key
        write = self._buffer.outlines.get(place) or self._flushing.get(place)
        return None if write is None else write.rows[0].body

    def _touch(self, ref: str) -> _Touched | None:
        found = self._buffer.touched.get(ref)
        if found is None:
            if len(self._buffer.touched) >= SPENDING_REFS_MAX:
                self._buffer.uncounted += 1
                return None
            found = self._buffer.touched[ref] = _Touched()
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
        """Write the buffered counts, and the rows that belong to them, in one commit."""
        with self._writing:
            # The parent process has the same counts and writes them.
            if self._pid != os.getpid() or self._stores.engine.is_read_only:
                self._pid = os.getpid()
                self._take()
                self._sent = None
                return
            if self._sent is not None:
                self._commit(*self._sent)
            buffered = self._take()
            self._flushing = buffered.outlines
            try:
                writes = self._writes(buffered)
                if not writes and not buffered.outlines:
                    return
                try:
                    self._commit(os.urandom(16), [*writes, *buffered.outlines.values()])
                except Stale:  # A body was freed or stored again since it was inspected.
                    self._commit(os.urandom(16), writes)
            except RelayError as error:
                if not error.may_be_done:  # Nothing was written.
                    self._put_back(buffered)
                with self._lock:
                    self._write_soon()
                raise
            finally:
                self._flushing = {}

    def _commit(self, id: bytes, writes: list[Write]) -> None:
        """Commit writes. If the outcome is unknown, the next call sends them again with their
        id.
        """
        self._sent = None
        try:
            self._stores.ledger.commit(*writes, id=id)
        except RelayError as error:
            if error.may_be_done:
                self._sent = id, writes
            raise

    def _take(self) -> _Buffer:
        with self._lock:
            buffered, self._buffer = self._buffer, _Buffer()
            return buffered

    def _put_back(self, earlier: _Buffer) -> None:
        """Put back counts that could not be written. Outlines are only a cache, and are dropped."""
        with self._lock:
            later, self._buffer = self._buffer, earlier
            for ref, each in later.touched.items():
                if (touched := self._touch(ref)) is not None:
                    touched.add(each)
            room = SPENDING_REFS_MAX - len(earlier.looks)
            earlier.uncounted += later.uncounted + max(0, len(later.looks) - room)
            earlier.looks += later.looks[:room]
            earlier.marks.add(later.marks)
            earlier.outlines = later.outlines

    def _writes(self, buffered: _Buffer) -> list[Write]:
        """Return the writes that add the buffered counts to the counters."""
        added: dict[str, Counter[str]] = {}
        rows: list[Write] = []
        if buffered.touched or buffered.looks or buffered.uncounted:
            sums, shares, rows = self._counts(buffered.touched, buffered.looks, buffered.uncounted)
            added = shares.sums(self._stores.ledger, self._stores.now_ms())
            for thread in list(sums)[: SPENDING_THREADS_MAX + 1]:
                added[savings_counters(thread)] = sums[thread]
        marked, pulls = buffered.marks.writes(self._stores.ledger, self._whole_tokens)
        adds = {
            name: tuple((field, amount) for field, amount in counted.items() if amount)
            for name, counted in (added | pulls).items()
        }
        return [*rows, *marked, *(Write(name, adds=each) for name, each in adds.items() if each)]

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
        log = body_log(artifact.sha256)
        row = self.outline(log, key) or self._stores.ledger.get(log, RowKind.LOOKED, key)
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
