"""Shared sessions: kept in Redis or Valkey under the article's keys, as JSON, for so many seconds.

Rule: nothing is pickled. A session and its blocks expire together; a block that is stored again
keeps the session alive as well.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from contextrelay.context.blocks import ContextBlock, ContextMetrics, ContextPackage
from contextrelay.errors import Broken, Unavailable

TTL_S = 3_600
_BATCH = 1_000


class DistributedContextStore:
    """Sessions that several servers share."""

    def __init__(self, redis_url: str, ttl: int = TTL_S) -> None:
        try:
            import redis
        except ImportError as error:
            raise Unavailable(
                "the Redis client is not installed", "pip install 'contextrelay[redis]'"
            ) from error
        self.redis: Any = redis.from_url(redis_url)  # pyright: ignore[reportUnknownMemberType]
        self.ttl = ttl

    def _session_key(self, session_id: str) -> str:
        return f"pyctx:session:{session_id}"

    def _block_key(self, session_id: str, block_id: str) -> str:
        return f"pyctx:block:{session_id}:{block_id}"

    def store_session(self, session: ContextPackage) -> None:
        """Store a session, all of it; blocks that it had and has no more are deleted."""
        key = self._session_key(session.session_id)
        fields = {
            "agent_id": session.agent_id,
            "version": str(session.version),
            "trace_id": session.trace_id,
            "metrics": json.dumps(asdict(session.metrics)),
            "block_ids": json.dumps([block.id for block in session.blocks]),
        }
        gone = set(self._block_ids(session.session_id)) - {block.id for block in session.blocks}
        # Blocks first: a session that is there names no block that is not.
        for start in range(0, len(session.blocks), _BATCH):
            self._store_blocks(session.session_id, session.blocks[start : start + _BATCH])
        pipe = self.redis.pipeline(transaction=False)
        pipe.hset(key, mapping=fields)
        pipe.expire(key, self.ttl)
        for block_id in gone:
            pipe.delete(self._block_key(session.session_id, block_id))
        pipe.execute()

    def _store_blocks(self, session_id: str, blocks: list[ContextBlock]) -> None:
        pipe = self.redis.pipeline(transaction=False)
        for block in blocks:
            key = self._block_key(session_id, block.id)
            pipe.set(key, json.dumps(block.to_dict()), ex=self.ttl)
        pipe.execute()

    def retrieve_session(self, session_id: str) -> ContextPackage | None:
        """A session with its blocks; None if there is none, or it has expired.

        Raises:
            Broken: what is under its key cannot be read.
        """
        fields: dict[bytes, bytes] = self.redis.hgetall(self._session_key(session_id))
        if not fields:
            return None
        try:
            blocks = [
                ContextBlock.from_dict(json.loads(raw))
                for raw in self._bodies(session_id, json.loads(fields[b"block_ids"]))
            ]
            return ContextPackage(
                session_id=session_id,
                agent_id=fields[b"agent_id"].decode(),
                blocks=blocks,
                metrics=ContextMetrics(**json.loads(fields[b"metrics"])),
                version=int(fields[b"version"]),
                trace_id=fields[b"trace_id"].decode(),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise Broken(
                f"session {session_id} cannot be read: {error}", "delete it and store it again"
            ) from error

    def _bodies(self, session_id: str, block_ids: list[str]) -> list[bytes]:
        found: list[Any] = []
        for start in range(0, len(block_ids), _BATCH):
            pipe = self.redis.pipeline(transaction=False)
            for block_id in block_ids[start : start + _BATCH]:
                pipe.get(self._block_key(session_id, block_id))
            found += pipe.execute()
        return [raw for raw in found if raw]

    def _block_ids(self, session_id: str) -> list[str]:
        raw: Any = self.redis.hget(self._session_key(session_id), "block_ids")
        return json.loads(raw) if raw else []

    def update_block(self, session_id: str, block: ContextBlock) -> None:
        """Store one block of a session again, without the others."""
        self._store_blocks(session_id, [block])
        self.redis.expire(self._session_key(session_id), self.ttl)

    def delete_session(self, session_id: str) -> None:
        """Delete a session and its blocks."""
        block_ids = self._block_ids(session_id)
        pipe = self.redis.pipeline(transaction=False)
        for block_id in block_ids:
            pipe.delete(self._block_key(session_id, block_id))
        pipe.delete(self._session_key(session_id))
        pipe.execute()

    def close(self) -> None:
        self.redis.close()
