"""The witness of threads: every version that was acknowledged can be read, and is the same.

Rule: as for artifacts, what was under way when its writer died is old or new, never in between;
which of the two is read from the store, and holds from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from contextrelay import Gone, NotFound, Relay
from contextrelay.client.thread import Thread
from contextrelay.limits import LIST_ITEMS_MAX
from tests.crash.report import Entry, Lost, digest_of


class KeptThread(Struct, frozen=True):
    """A thread as it was last acknowledged."""

    digests: tuple[str, ...]
    """Of the state at every version, the first one first."""
    labels: tuple[tuple[int, str], ...] = ()
    """Its checkpoints, by the seq of their events."""
    is_closed: bool = False


class ThreadWitness:
    """Everything acknowledged of threads so far."""

    def __init__(self) -> None:
        self.kept: dict[str, KeptThread] = {}
        self.removed: dict[str, None] = {}
        self.put_into: dict[str, str] = {}
        """The thread that an artifact was put into, by its ref."""
        self.named: set[str] = set()
        """The artifacts that the states of threads name, as of the last look."""

    def copy(self) -> ThreadWitness:
        other = ThreadWitness()
        other.kept = dict(self.kept)
        other.removed = dict(self.removed)
        other.put_into = dict(self.put_into)
        return other

    def hear(self, entry: Entry) -> None:
        """Take down an answer."""
        thread = entry.thread
        match entry.what:
            case "thread":
                self.kept[thread] = KeptThread((entry.digest,))
            case "patch" | "restore" | "put":
                kept = self.kept[thread]
                if entry.version == len(kept.digests) + 1:
                    self.kept[thread] = replace(kept, digests=(*kept.digests, entry.digest))
                elif entry.version != len(kept.digests):
                    raise Lost(f"{thread} went from v{len(kept.digests)} to v{entry.version}")
                if entry.what == "put":
                    self.put_into[entry.ref] = thread
            case "checkpoint":
                labels = (*self.kept[thread].labels, (entry.version, entry.digest))
                self.kept[thread] = replace(self.kept[thread], labels=labels)
            case "close":
                self.kept[thread] = replace(self.kept[thread], is_closed=True)
            case "remove_thread":
                del self.kept[thread]
                self.removed[thread] = None
            case _:
                pass

    def check(self, relay: Relay, doubtful: dict[str, Entry]) -> bool:
        """Compare with the store; whether a removal that was under way has been begun.

        Raises:
            Lost: something acknowledged is not there, or not as it was.
        """
        self.named = set()
        is_removing = False
        for thread in tuple(self.kept):
            try:
                self._check_kept(relay, thread, doubtful.get(thread))
            except Gone as gone:
                doubt = doubtful.get(thread)
                if doubt is None or doubt.what != "remove_thread":
                    raise Lost(f"thread {thread} is gone; no writer removed it") from gone
                del self.kept[thread]
                self.removed[thread] = None
                is_removing = True
            except NotFound as error:
                raise Lost(f"{thread} was acknowledged, and something is missing") from error
        for thread in self.removed:
            _check_removed(relay, thread)
        for thread in _listed(relay):
            if thread in self.removed:
                raise Lost(f"thread {thread} was removed and is listed")
            if thread not in self.kept:
                self._adopt(relay, thread)
        return is_removing

    def _check_kept(self, relay: Relay, thread: str, doubt: Entry | None) -> None:
        kept, handle = self.kept[thread], Thread(relay, thread)
        view = handle.show()
        digests = self._digests(handle)
        acknowledged = len(kept.digests)
        may_be_new = doubt is not None and doubt.what in ("patch", "restore", "put")
        if digests[:acknowledged] != kept.digests:
            raise Lost(f"thread {thread} has other versions than those that were acknowledged")
        if len(digests) > acknowledged + may_be_new:
            raise Lost(f"thread {thread} has v{len(digests)}; v{acknowledged} was acknowledged")
        if digest_of(handle.state()) != digests[-1] or view.version != len(digests):
            raise Lost(f"thread {thread} shows another state than its events lead to")
        # One by way of the snapshots too: another each time, as versions come in.
        version = 1 + len(digests) * 7 % acknowledged
        if digest_of(handle.state(version)) != digests[version - 1]:
            raise Lost(f"thread {thread} has another v{version} than its events lead to")
        for seq, label in kept.labels:
            event = handle.events(seq - 1, 1)[0].event
            if event.detail.get("label") != label:
                raise Lost(f"thread {thread} has lost its checkpoint {label}")
        is_closed = view.status == "closed"
        if is_closed != kept.is_closed and (doubt is None or doubt.what != "close"):
            raise Lost(f"thread {thread} is {view.status}, and the acknowledged status differs")
        self.kept[thread] = replace(kept, digests=digests, is_closed=is_closed)

    def _adopt(self, relay: Relay, thread: str) -> None:
        """A thread that was made but not acknowledged: it is whole, or it is a bug."""
        handle = Thread(relay, thread)
        digests = self._digests(handle)
        if len(digests) != 1 or digest_of(handle.state()) != digests[0]:
            raise Lost(f"thread {thread} was not acknowledged, and has v{len(digests)}")
        self.kept[thread] = KeptThread(digests)

    def _digests(self, handle: Thread) -> tuple[str, ...]:
        digests: list[str] = []
        for state in handle.history():
            digests.append(digest_of(state))
            self.named |= _named(state)
        return tuple(digests)


def _named(state: dict[str, Any]) -> set[str]:
    return {each["ref"] for each in state["artifacts"]}


def _check_removed(relay: Relay, thread: str) -> None:
    try:
        Thread(relay, thread).show()
    except Gone:
        return
    except NotFound as error:
        raise Lost(f"thread {thread} was removed, and nothing says so") from error
    raise Lost(f"thread {thread} was removed and is back")


def _listed(relay: Relay) -> Iterator[str]:
    page = relay.threads(limit=LIST_ITEMS_MAX)
    while True:
        yield from (view.thread_id for view in page.threads)
        if not page.next:
            return
        page = relay.threads(limit=LIST_ITEMS_MAX, after=page.next)
