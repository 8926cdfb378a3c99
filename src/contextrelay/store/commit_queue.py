"""Group commit: one of the waiting callers does all queued changes in one transaction.

So there is no writer thread, and no overhead for a single caller. Under load, each sync to disk
serves all callers that arrived during the previous sync.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

from contextrelay.errors import Unavailable

GROUP_COMMITS_MAX = 512


Change = TypeVar("Change")


def interrupted() -> Unavailable:
    """Return the error of changes whose commit ended by Ctrl-C in the thread that led it."""
    return Unavailable("the write was interrupted", "try again")


class Ticket(Generic[Change]):
    """A change by one caller, waiting to be committed with a group."""

    __slots__ = ("answer", "change", "error", "gate", "is_done", "token")

    def __init__(self, change: Change, token: bytes | None) -> None:
        self.change = change
        self.token = token
        """The lock token of the caller; None if the change is allowed while the ledger is locked.
        """
        self.answer: Any = None
        self.error: BaseException | None = interrupted()
        """Why it failed; a commit that has an outcome replaces it."""
        self.is_done = False
        self.gate = threading.Lock()
        self.gate.acquire()

    def wake(self) -> None:
        """Wake the caller, because its change is done, or because it may lead the next group."""
        with suppress(RuntimeError):  # The caller was woken before and has not run yet.
            self.gate.release()


class CommitQueue(Generic[Change]):
    """A queue of the changes of one process that wait for the database."""

    def __init__(self, commit: Callable[[list[Ticket[Change]]], bool]) -> None:
        """`commit` does the changes of a group in one transaction.

        It returns False if it failed for all of them.
        """
        self._commit = commit
        self._waiting: deque[Ticket[Change]] = deque()
        self._turn = threading.Lock()

    def run(self, change: Change, token: bytes | None) -> Any:
        """Queue a change and return its result; if no commit is running, commit the queue."""
        ticket = Ticket(change, token)
        self._waiting.append(ticket)
        while not ticket.is_done:
            if self._turn.acquire(blocking=False):
                try:
                    self._commit_waiting()
                finally:
                    self._turn.release()
                    self._wake_next()
            else:
                self._wait(ticket)
        if ticket.error is not None:
            raise ticket.error
        return ticket.answer

    @contextmanager
    def between_commits(self, wait: bool = True) -> Generator[bool]:
        """Prevent commits during the block; yield True.

        If a commit is running, wait for it, or with `wait=False` yield False at once.
        """
        if not self._turn.acquire(blocking=wait):
            yield False
            return
        try:
            yield True
        finally:
            self._turn.release()
            self._wake_next()

    def _wait(self, ticket: Ticket[Change]) -> None:
        try:
            ticket.gate.acquire()
        except BaseException:
            # Ctrl-C: withdraw the change and wake the next caller, because this one may have been
            # chosen to lead.
            with suppress(ValueError):
                self._waiting.remove(ticket)
            self._wake_next()
            raise

    def _wake_next(self) -> None:
        # Wake after the release: earlier callers are in the queue, and later callers find the lock
        # free.
        if self._waiting:
            with suppress(IndexError):
                self._waiting[0].wake()

    def _commit_waiting(self) -> None:
        group: list[Ticket[Change]] = []
        try:
            while self._waiting and len(group) < GROUP_COMMITS_MAX:
                group.append(self._waiting.popleft())
            if not self._commit(group) and len(group) > 1:
                # One change may have made the whole group fail, so try each change alone.
                for ticket in group:
                    self._commit([ticket])
        finally:
            for ticket in group:
                ticket.is_done = True
                ticket.wake()
