"""Acts on threads: a seeded mix of what can be done to one, reported like all others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from random import Random

from contextrelay import Relay
from contextrelay.client.thread import Thread
from tests.crash.report import Entry, ThreadWhat, digest_of

MINE_MAX = 6


class ThreadActs:
    """One writer's doings with threads. `mine` are the open ones that no other writer changes."""

    def __init__(
        self, relay: Relay, chance: Random, report: Callable[[Entry], None], mine: list[str]
    ) -> None:
        self._relay = relay
        self._chance = chance
        self._report = report
        self._mine = mine
        self.weights: dict[Callable[[], None], int] = {
            self.new: 5,
            self.patch: 16,
            self.put: 8,
            self.fork: 4,
            self.restore: 4,
            self.checkpoint: 3,
            self.close: 2,
            self.remove: 5,
        }

    def new(self) -> None:
        if len(self._mine) >= MINE_MAX:
            self.remove()
        self._report(Entry("thread"))
        self._made(self._relay.new_thread(self._chance.choice((None, "notes", "plan"))))

    def fork(self) -> None:
        if len(self._mine) >= MINE_MAX:
            self.remove()
        if thread := self._any_of_mine("thread"):
            self._made(thread.fork(self._some_version(thread)))

    def patch(self) -> None:
        """Append facts, and now and then one that is large; or replace one that is there."""
        if thread := self._any_of_mine("patch"):
            facts = len(thread.state()["facts"])
            number = self._chance.getrandbits(32)
            if facts and self._chance.random() < 0.4:
                path = f"/facts/{self._chance.randrange(facts)}/value"
                operations = [{"op": "replace", "path": path, "value": number}]
            else:
                value = "x" * self._chance.choice((10, 100, 8_000))
                fact = {"id": f"f{number}", "key": "k", "value": value}
                operations = [{"op": "add", "path": "/facts/-", "value": fact}] * 2
            self._changed("patch", thread, thread.patch(operations).version)

    def restore(self) -> None:
        if thread := self._any_of_mine("restore"):
            version = thread.restore(self._some_version(thread)).version
            self._changed("restore", thread, version)

    def put(self) -> None:
        if thread := self._any_of_mine("put"):
            size_bytes = self._chance.choice((10, 1_000, 30_000, 100_000))
            body = self._chance.randbytes(size_bytes)
            artifact = thread.put(body)
            version = thread.show().version
            sha256 = hashlib.sha256(body).hexdigest()
            self._changed("put", thread, version, artifact.ref, sha256)

    def checkpoint(self) -> None:
        if thread := self._any_of_mine("checkpoint"):
            label = f"c{self._chance.getrandbits(32)}"
            seq = thread.checkpoint(label).seq
            entry = Entry("checkpoint", is_done=True, thread=thread.id, version=seq, digest=label)
            self._report(entry)

    def close(self) -> None:
        if thread := self._any_of_mine("close"):
            thread.close()
            self._ended("close", thread)

    def remove(self) -> None:
        if thread := self._any_of_mine("remove_thread"):
            thread.remove()
            self._ended("remove_thread", thread)

    def _ended(self, what: ThreadWhat, thread: Thread) -> None:
        self._mine.remove(thread.id)
        self._report(Entry(what, is_done=True, thread=thread.id))

    def _made(self, thread: Thread) -> None:
        self._mine.append(thread.id)
        self._changed("thread", thread, 1)

    def _changed(
        self, what: ThreadWhat, thread: Thread, version: int, ref: str = "", sha256: str = ""
    ) -> None:
        digest = digest_of(thread.state(version))
        self._report(
            Entry(
                what,
                is_done=True,
                ref=ref,
                sha256=sha256,
                thread=thread.id,
                version=version,
                digest=digest,
            )
        )

    def _any_of_mine(self, what: ThreadWhat) -> Thread | None:
        if not self._mine:
            return None
        thread = self._chance.choice(self._mine)
        # A fork changes nothing of the thread that it comes from.
        self._report(Entry(what, thread="" if what == "thread" else thread))
        return Thread(self._relay, thread)

    def _some_version(self, thread: Thread) -> int:
        return self._chance.randrange(thread.show().version) + 1
