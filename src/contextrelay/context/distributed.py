"""Shared sessions: stored as JSON with a time to live, on any engine.

On Redis and Valkey (single, Sentinel, Cluster) they are stored under the article's own keys, so
that other programs can read them; otherwise in the ledger, by verbs.

Rule: nothing is pickled. A session and its blocks expire together; storing a block again extends
the session too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol, cast

from contextrelay.client.transport.local import Local, open_stores
from contextrelay.context.blocks import ContextBlock, ContextMetrics, ContextPackage
from contextrelay.errors import Broken
from contextrelay.model.package import StoredSession
from contextrelay.store.engine import Engine, open_engine
from contextrelay.verbs import DeleteSession, PutSession, ReadSession

if TYPE_CHECKING:
    from contextrelay.store.ledger.view import SettledLedger
    from contextrelay.store.redis.ledger import RedisLedger

TTL_S = 3_600
_BATCH = 1_000
_REDIS = ("redis", "valkey")


class Sessions(Protocol):
    """A storage backend for sessions."""

    def put(self, verb: PutSession) -> None: ...

    def find(self, session: str) -> StoredSession | None: ...

    def delete(self, session: str) -> None: ...

    def close(self) -> None: ...


class DistributedContextStore:
    """Sessions shared by several servers: at any store address, except that of a server."""

    def __init__(self, redis_url: str, ttl: int = TTL_S) -> None:
        self._sessions: Sessions
        if redis_url.startswith(_REDIS):
            self._sessions = _RedisSessions(open_engine(redis_url))
        else:
            self._sessions = _LedgerSessions(Local(open_stores(redis_url, None)))
        self.ttl = ttl

    def store_session(self, session: ContextPackage) -> None:
        """Store a whole session; blocks that it no longer has are deleted."""
        fields = {
            "agent_id": session.agent_id,
            "version": str(session.version),
            "trace_id": session.trace_id,
            "metrics": json.dumps(asdict(session.metrics)),
            "block_ids": json.dumps([block.id for block in session.blocks]),
        }
        blocks = _bodies(session.blocks)
        known = self._sessions.find(session.session_id)
        gone = _block_ids(known.fields).difference(blocks) if known else ()
        removed = tuple(sorted(gone))
        self._sessions.put(PutSession(session.session_id, fields, blocks, self.ttl, removed))

    def retrieve_session(self, session_id: str) -> ContextPackage | None:
        """Return a session with its blocks; None if it is missing or expired.

        Raises:
            Broken: the stored data cannot be read.
        """
        found = self._sessions.find(session_id)
        if found is None or not found.fields:
            return None
        fields = found.fields
        try:
            bodies = [found.blocks.get(key) for key in json.loads(fields["block_ids"])]
            return ContextPackage(
                session_id=session_id,
                agent_id=fields["agent_id"],
                blocks=[ContextBlock.from_dict(json.loads(raw)) for raw in bodies if raw],
                metrics=ContextMetrics(**json.loads(fields["metrics"])),
                version=int(fields["version"]),
                trace_id=fields["trace_id"],
            )
        except (KeyError, ValueError, TypeError) as error:
            wrong = f"session {session_id} cannot be read: {error}"
            raise Broken(wrong, "delete it and store it again") from error

    def update_block(self, session_id: str, block: ContextBlock) -> None:
        """Store one block of a session again, without the others."""
        self._sessions.put(PutSession(session_id, None, _bodies([block]), self.ttl))

    def delete_session(self, session_id: str) -> None:
        """Delete a session and its blocks."""
        self._sessions.delete(session_id)

    def close(self) -> None:
        self._sessions.close()


def _bodies(blocks: Iterable[ContextBlock]) -> dict[str, bytes]:
    return {block.id: json.dumps(block.to_dict()).encode() for block in blocks}


def _block_ids(fields: Mapping[str, str]) -> set[str]:
    try:
        return set(json.loads(fields.get("block_ids", "[]")))
    except (ValueError, TypeError) as error:
        wrong = f"the blocks of a session cannot be read: {error}"
        raise Broken(wrong, "delete it and store it again") from error


class _LedgerSessions:
    """Sessions in the ledger of any engine, each stored in one commit."""

    def __init__(self, local: Local) -> None:
        self._local = local

    def put(self, verb: PutSession) -> None:
        self._local.ask(verb)

    def find(self, session: str) -> StoredSession | None:
        return self._local.ask(ReadSession(session))

    def delete(self, session: str) -> None:
        self._local.ask(DeleteSession(session))

    def close(self) -> None:
        self._local.close()


class _RedisSessions:
    """Sessions under the article's keys, which the server itself expires."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._client = cast("RedisLedger", cast("SettledLedger", engine.ledger).inner).client

    def put(self, verb: PutSession) -> None:
        session, fields, ttl_s = verb.session, verb.fields, verb.ttl_s
        # Blocks first: a stored session must not name a missing block.
        self._send(
            ("SET", _block(session, key), each, "EX", ttl_s) for key, each in verb.blocks.items()
        )
        if fields is not None:
            words = [word for pair in fields.items() for word in pair]
            self._send([("HSET", _session(session), *words)])
        self._send([("EXPIRE", _session(session), ttl_s)])
        self._send(("DEL", _block(session, key)) for key in verb.gone)

    def _send(self, commands: Iterable[tuple[Any, ...]]) -> None:
        every = list(commands)
        for start in range(0, len(every), _BATCH):
            self._client.settle_all(every[start : start + _BATCH])

    def find(self, session: str) -> StoredSession | None:
        kept: dict[bytes, bytes] = self._client.ask("HGETALL", _session(session))
        fields = {key.decode(): value.decode() for key, value in kept.items()}
        if not fields:
            return None
        blocks: dict[str, bytes] = {}
        keys = sorted(_block_ids(fields))
        for start in range(0, len(keys), _BATCH):
            some = keys[start : start + _BATCH]
            found = self._client.ask_all([("GET", _block(session, key)) for key in some])
            blocks |= {key: each for key, each in zip(some, found, strict=True) if each}
        return StoredSession(fields, blocks)

    def delete(self, session: str) -> None:
        with suppress(Broken):  # Its blocks expire.
            known = self.find(session)
            self._send(("DEL", _block(session, key)) for key in (known.blocks if known else ()))
        self._send([("DEL", _session(session))])

    def close(self) -> None:
        self._engine.close()


def _session(session: str) -> str:
    return f"pyctx:session:{session}"


def _block(session: str, key: str) -> str:
    return f"pyctx:block:{session}:{key}"
