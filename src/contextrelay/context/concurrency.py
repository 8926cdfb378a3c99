"""Concurrency: so many sessions and operations at once, and one at a time in each session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

SESSIONS_MAX = 1_000
CONTEXTS_MAX = 5_000


class ContextConcurrencyManager:
    """Locks and limits for those who share a context manager."""

    def __init__(
        self,
        max_concurrent_sessions: int = SESSIONS_MAX,
        max_concurrent_contexts: int = CONTEXTS_MAX,
    ) -> None:
        self.session_semaphore = asyncio.Semaphore(max_concurrent_sessions)
        self.context_semaphore = asyncio.Semaphore(max_concurrent_contexts)
        self.session_locks: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def session_context(self, session_id: str) -> AsyncGenerator[None]:
        """Work on a session, alone."""
        lock = self.session_locks.setdefault(session_id, asyncio.Lock())
        # The lock first: who waits for a session does not keep others from theirs.
        async with lock, self.session_semaphore:
            yield

    @asynccontextmanager
    async def context_operation(self) -> AsyncGenerator[None]:
        """Do one operation, beside a limited number of others."""
        async with self.context_semaphore:
            yield

    def cleanup_session(self, session_id: str) -> None:
        """Forget a session that is over; one that is in use stays."""
        lock = self.session_locks.get(session_id)
        if lock is not None and not lock.locked():
            del self.session_locks[session_id]
