"""Shared sessions: kept as JSON, for so many seconds, on any engine.

On Redis and Valkey (single, Sentinel, Cluster) they stand under the article's own keys, so that
others can read them; elsewhere in the ledger (core/packing/sessions.py).

Rule: nothing is pickled. A session and its blocks expire together; a block that is stored again
keeps the session alive as well.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol, cast

from contextrelay.context.blocks import ContextBlock, ContextMetrics, ContextPackage
from contextrelay.core.packing.sessions import LedgerSessions
from contextrelay.errors import Broken
from contextrelay.store.engine import open_engine

if TYPE_CHECKING:
    from contextrelay.store.ledger.view import SettledLedger
    from contextrelay.store.redis.client import Client
    from contextrelay.store.redis.ledger import RedisLedger

TTL_S = 3_600
_BATCH = 1_000
_REDIS = ("redis", "valkey")


class Sessions(Protocol):
    """Where sessions are kept."""

    def put_blocks(
        self, session: str, blocks: Mapping[str, bytes], now_ms: int, ttl_s: int
    ) -> None: ...

    def put(
        self, session: str, fields: dict[str, str], gone: Iterable[str], now_ms: int, ttl_s: int
    ) -> None: ...

    def keep(self, session: str, now_ms: int, ttl_s: int) -> None: ...

    def find(self, session: str, now_ms: int) -> dict[str, str] | None: ...

    def blocks(self, session: str, keys: list[str]) -> list[bytes]: ...

    def delete(self, session: str, keys: list[str]) -> None: ...


class DistributedContextStore:
    """Sessions that several servers share: at any address that `Relay` takes but a server's."""

    def __init__(self, redis_url: str, ttl: int = TTL_S) -> None:
        self._engine = open_engine(redis_url)
        self._sessions: Sessions = LedgerSessions(self._engine.ledger)
        if redis_url.startswith(_REDIS):
            client = cast("RedisLedger", cast("SettledLedger", self._engine.ledger).inner).client
            self._sessions = _RedisSessions(client)
        self.ttl = ttl

    def store_session(self, session: ContextPackage) -> None:
        """Store a session, all of it; blocks that it had and has no more are deleted."""
        fields = {
            "agent_id": session.agent_id,
            "version": str(session.version),
            "trace_id": session.trace_id,
            "metrics": json.dumps(asdict(session.metrics)),
            "block_ids": json.dumps([block.id for block in session.blocks]),
        }
        gone = set(self._block_ids(session.session_id)) - {block.id for block in session.blocks}
        # Blocks first: a session that is there names no block that is not.
        now_ms = _now_ms()
        self._sessions.put_blocks(session.session_id, _bodies(session.blocks), now_ms, self.ttl)
        self._sessions.put(session.session_id, fields, sorted(gone), now_ms, self.ttl)

    def retrieve_session(self, session_id: str) -> ContextPackage | None:
        """A session with its blocks; None if there is none, or it has expired.

        Raises:
            Broken: what is kept of it cannot be read.
        """
        fields = self._sessions.find(session_id, _now_ms())
        if not fields:
            return None
        try:
            bodies = self._sessions.blocks(session_id, json.loads(fields["block_ids"]))
            return ContextPackage(
                session_id=session_id,
                agent_id=fields["agent_id"],
                blocks=[ContextBlock.from_dict(json.loads(raw)) for raw in bodies],
                metrics=ContextMetrics(**json.loads(fields["metrics"])),
                version=int(fields["version"]),
                trace_id=fields["trace_id"],
            )
        except (KeyError, ValueError, TypeError) as error:
            raise Broken(
                f"session {session_id} cannot be read: {error}", "delete it and store it again"
            ) from error

    def _block_ids(self, session_id: str) -> list[str]:
        fields = self._sessions.find(session_id, _now_ms())
        return json.loads(fields["block_ids"]) if fields and "block_ids" in fields else []

    def update_block(self, session_id: str, block: ContextBlock) -> None:
        """Store one block of a session again, without the others."""
        now_ms = _now_ms()
        self._sessions.put_blocks(session_id, _bodies([block]), now_ms, self.ttl)
        self._sessions.keep(session_id, now_ms, self.ttl)

    def delete_session(self, session_id: str) -> None:
        """Delete a session and its blocks."""
        self._sessions.delete(session_id, self._block_ids(session_id))

    def close(self) -> None:
        self._engine.close()


def _bodies(blocks: Iterable[ContextBlock]) -> dict[str, bytes]:
    return {block.id: json.dumps(block.to_dict()).encode() for block in blocks}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class _RedisSessions:
    """The article's keys; the server itself lets them expire."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def put_blocks(
        self, session: str, blocks: Mapping[str, bytes], now_ms: int, ttl_s: int
    ) -> None:
        commands = [
            ("SET", _block(session, key), body, "EX", ttl_s) for key, body in blocks.items()
        ]
        for start in range(0, len(commands), _BATCH):
            self._client.settle_all(commands[start : start + _BATCH])

    def put(
        self, session: str, fields: dict[str, str], gone: Iterable[str], now_ms: int, ttl_s: int
    ) -> None:
        words = [word for pair in fields.items() for word in pair]
        self._client.settle_all([("HSET", _session(session), *words)])
        self.keep(session, now_ms, ttl_s)
        self._client.settle_all([("DEL", _block(session, key)) for key in gone])

    def keep(self, session: str, now_ms: int, ttl_s: int) -> None:
        self._client.settle_all([("EXPIRE", _session(session), ttl_s)])

    def find(self, session: str, now_ms: int) -> dict[str, str] | None:
        fields: dict[bytes, bytes] = self._client.ask("HGETALL", _session(session))
        return {key.decode(): value.decode() for key, value in fields.items()} or None

    def blocks(self, session: str, keys: list[str]) -> list[bytes]:
        found: list[bytes | None] = []
        for start in range(0, len(keys), _BATCH):
            some = keys[start : start + _BATCH]
            found += self._client.ask_all([("GET", _block(session, key)) for key in some])
        return [body for body in found if body]

    def delete(self, session: str, keys: list[str]) -> None:
        self._client.settle_all([("DEL", _block(session, key)) for key in keys])
        self._client.settle_all([("DEL", _session(session))])


def _session(session: str) -> str:
    return f"pyctx:session:{session}"


def _block(session: str, key: str) -> str:
    return f"pyctx:block:{session}:{key}"
