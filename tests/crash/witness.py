"""The witness: what a store acknowledged to its writers, and whether it still holds.

Rule: what was acknowledged has to be there to the byte. A verb that was under way when its writer
died may have happened or not; which of the two is read from the store, and holds from then on.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct

from contextrelay import Gone, NotFound, Relay
from contextrelay.limits import LIST_ITEMS_MAX
from contextrelay.model.artifact import Artifact, to_ms
from tests.crash.report import Entry, Lost
from tests.crash.thread_witness import ThreadWitness


class Kept(Struct, frozen=True):
    """An artifact as it was last acknowledged."""

    sha256: str
    expires_ms: int | None


class Witness:
    """Everything acknowledged so far."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}
        self.removed: dict[str, None] = {}
        self.threads = ThreadWitness()
        self.bodies: Counter[str] = Counter()
        """How many bodies of each class were acknowledged."""
        self._dying: set[str] = set()
        """What goes with a thread whose removal was cut short; a sweep finishes it."""
        self._under_way: dict[int, Entry] = {}

    def copy(self) -> Witness:
        """One that can be asked without this one settling anything."""
        other = Witness()
        other.kept = dict(self.kept)
        other.removed = dict(self.removed)
        other.threads = self.threads.copy()
        other._dying = set(self._dying)
        other._under_way = dict(self._under_way)
        return other

    def hear(self, entry: Entry, writer: int = 0) -> None:
        """Take down a line; a writer has one verb under way at a time."""
        if entry.what == "failed":
            raise Lost(f"a writer met an error:\n{entry.error}")
        if not entry.is_done:
            self._under_way[writer] = entry
            return
        self._under_way.pop(writer, None)
        self.threads.hear(entry)
        match entry.what:
            case "push" | "pin" | "extend" | "put":
                sha256 = entry.sha256 or self.kept[entry.ref].sha256
                self.kept[entry.ref] = Kept(sha256, entry.expires_ms)
                if entry.body_class:
                    self.bodies[entry.body_class] += 1
            case "remove":
                del self.kept[entry.ref]
                self.removed[entry.ref] = None
            case _:
                pass

    def check(self, relay: Relay, now_ms: Callable[[], int], is_repaired: bool = False) -> None:
        """Compare with the store, and settle what was under way; `is_mended`: after a sweep.

        Raises:
            Lost: something acknowledged is not there, or not as it was.
        """
        doubtful = {entry.ref: entry for entry in self._under_way.values() if entry.ref}
        in_doubt = {entry.thread: entry for entry in self._under_way.values() if entry.thread}
        self._under_way.clear()
        self._check_threads(relay, in_doubt, is_repaired)
        listed = {artifact.ref: artifact for artifact in _listed(relay)}
        for ref, kept in tuple(self.kept.items()):
            self._check_kept(relay, ref, kept, now_ms, doubtful.get(ref), ref in listed)
        for ref in self.removed:
            _check_removed(relay, ref)
        for ref, artifact in listed.items():
            if ref in self.removed:
                raise Lost(f"{ref} was removed and is listed")
            if artifact.thread is not None and ref not in self.threads.named:
                # Half put, or half gone with its thread.
                if is_repaired:
                    raise Lost(f"{ref} is in no thread, and no sweep takes it")
            elif ref not in self.kept:
                self._adopt(relay, artifact)

    def _check_threads(self, relay: Relay, doubtful: dict[str, Entry], is_repaired: bool) -> None:
        """Check the threads, and let go of what went with them."""
        is_removing = self.threads.check(relay, doubtful)
        for ref, thread in tuple(self.threads.put_into.items()):
            if thread not in self.threads.kept and ref not in self.threads.named:
                del self.threads.put_into[ref], self.kept[ref]
                if is_removing:
                    self._dying.add(ref)
                else:
                    self.removed[ref] = None
        if is_repaired:
            self.removed |= dict.fromkeys(self._dying)
            self._dying.clear()

    def _check_kept(
        self,
        relay: Relay,
        ref: str,
        kept: Kept,
        now_ms: Callable[[], int],
        doubt: Entry | None,
        is_listed: bool,
    ) -> None:
        try:
            artifact = relay.peek(ref)
            body = relay.pull(ref)
        except Gone as gone:
            self._check_gone(ref, kept, now_ms(), doubt, str(gone.details["reason"]))
            return
        except NotFound as error:
            raise Lost(f"{ref} was acknowledged, and there is no trace of it") from error
        if not is_listed and kept.expires_ms is None:
            raise Lost(f"{ref} is there, but not listed")
        if hashlib.sha256(body).hexdigest() != kept.sha256:
            raise Lost(f"{ref} has {len(body)} other bytes than those that were acknowledged")
        expires_ms = None if artifact.expires_at is None else to_ms(artifact.expires_at)
        if expires_ms != kept.expires_ms and (doubt is None or doubt.what not in ("pin", "extend")):
            raise Lost(f"{ref} expires at {expires_ms}, not at {kept.expires_ms} as acknowledged")
        self.kept[ref] = Kept(kept.sha256, expires_ms)

    def _check_gone(
        self, ref: str, kept: Kept, now_ms: int, doubt: Entry | None, reason: str
    ) -> None:
        if reason == "expired" and kept.expires_ms is not None and kept.expires_ms <= now_ms:
            del self.kept[ref]
        elif reason == "removed" and doubt is not None and doubt.what == "remove":
            del self.kept[ref]
            self.removed[ref] = None
        else:
            raise Lost(f"{ref} is gone ({reason}), and no writer reported its removal")

    def _adopt(self, relay: Relay, artifact: Artifact) -> None:
        """An artifact of a push that was not acknowledged: it is whole, or it is a bug."""
        try:
            body = relay.pull(artifact.ref)
        except Gone as gone:
            if gone.details["reason"] != "expired":
                raise Lost(f"{artifact.ref} was listed, then {gone}") from gone
            return
        if hashlib.sha256(body).hexdigest() != artifact.sha256:
            raise Lost(f"{artifact.ref} was not acknowledged, is there, and has other bytes")
        expires_ms = None if artifact.expires_at is None else to_ms(artifact.expires_at)
        self.kept[artifact.ref] = Kept(artifact.sha256, expires_ms)
        if artifact.thread is not None:
            self.threads.put_into[artifact.ref] = artifact.thread


def check_verified(relay: Relay) -> None:
    """Ask the store itself whether all is well."""
    report = relay.verify()
    if report.problem_count:
        raise Lost(f"verify: {report.problem_count} problems, first {report.problems[:3]}")


def _check_removed(relay: Relay, ref: str) -> None:
    try:
        relay.peek(ref)
    except Gone as gone:
        if gone.details["reason"] == "removed":
            return
        raise Lost(f"{ref} was removed; its tombstone says {gone}") from gone
    except NotFound as error:
        raise Lost(f"{ref} was removed, and has no tombstone") from error
    raise Lost(f"{ref} was removed and is back")


def _listed(relay: Relay) -> Iterator[Artifact]:
    page = relay.list(limit=LIST_ITEMS_MAX)
    yield from page.artifacts
    while page.next:
        page = relay.list(limit=LIST_ITEMS_MAX, after=page.next)
        yield from page.artifacts
