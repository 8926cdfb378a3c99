"""Sessions of the article's layer, shared through a real Valkey, and on every other engine."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from contextrelay import Broken
from contextrelay.context import (
    AgentCoordinator,
    ContextAwareIntentAgent,
    ContextBlock,
    ContextManager,
    ContextPackage,
    ContextType,
    DistributedContextStore,
)
from tests.store.engines import Servers, new_prefix, url_of


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    servers = Servers()
    yield servers.single()
    servers.stop()


def redis_at(url: str) -> Any:
    return Redis.from_url(url)  # pyright: ignore[reportUnknownMemberType]


def a_session(blocks: int = 3) -> tuple[ContextManager, ContextPackage]:
    manager = ContextManager(10**9)
    session = manager.sessions[manager.create_session("agent")]
    for number in range(blocks):
        manager.add_context(
            session.session_id, f"grüße {number}", ContextType.USER, 0.5, {"number": str(number)}
        )
    return manager, session


def address_of(engine: str, servers: Servers, folder: Path) -> str:
    match engine:
        case "memory":
            return f"memory:{new_prefix()}"
        case "sqlite":
            return str(folder / "store")
        case _:
            return f"{url_of(engine, servers)}?prefix={new_prefix()}"


@pytest.mark.parametrize("engine", ["memory", "sqlite", "redis", "redis-cluster", "postgres"])
def test_every_engine_keeps_sessions(engine: str, servers: Servers, tmp_path: Path) -> None:
    """Promises K2 and G2: several servers share them; partial update, delete."""
    address = address_of(engine, servers, tmp_path)
    store, other = DistributedContextStore(address), DistributedContextStore(address)
    manager, session = a_session(1_200)
    store.store_session(session)
    assert other.retrieve_session(session.session_id) == session

    gone = session.blocks[0].id
    manager.drop(session, {0: "for a test"})
    other.store_session(session)
    changed = ContextBlock(session.blocks[0].id, "changed", 0.9, ContextType.USER)
    store.update_block(session.session_id, changed)
    found = other.retrieve_session(session.session_id)
    store.delete_session(session.session_id)
    store.delete_session(session.session_id)

    assert found is not None
    assert gone not in {block.id for block in found.blocks}
    assert found.blocks[0].content == "changed"
    assert found.blocks[1:] == session.blocks[1:]
    assert other.retrieve_session(session.session_id) is None
    store.close()
    other.close()


def test_a_session_is_shared_whole_and_expires(url: str) -> None:
    """Promise K2: the article's keys and time to live, no pickle."""
    store, server = DistributedContextStore(url), redis_at(url)
    _, session = a_session(2_500)

    store.store_session(session)

    assert store.retrieve_session(session.session_id) == session
    keys = {key.decode() for key in server.scan_iter(f"pyctx:*{session.session_id}*")}
    assert f"pyctx:session:{session.session_id}" in keys
    assert f"pyctx:block:{session.session_id}:{session.blocks[0].id}" in keys
    assert all(3_500 < server.ttl(key) <= 3_600 for key in list(keys)[:20])
    body = server.get(f"pyctx:block:{session.session_id}:{session.blocks[0].id}")
    assert isinstance(body, bytes)
    assert body.startswith(b'{"id": ')
    store.close()
    server.close()


def test_one_block_is_stored_again_without_the_others(url: str) -> None:
    """Promise K2: partial update."""
    store = DistributedContextStore(url, ttl=60)
    _, session = a_session()
    store.store_session(session)
    old = session.blocks[1]

    store.update_block(
        session.session_id,
        ContextBlock(old.id, "changed", 0.9, old.type, timestamp=old.timestamp),
    )

    found = store.retrieve_session(session.session_id)
    assert found is not None
    assert [block.content for block in found.blocks] == ["grüße 0", "changed", "grüße 2"]
    store.close()


def test_a_deleted_session_leaves_nothing(url: str) -> None:
    """Promise K2: delete."""
    store, server = DistributedContextStore(url), redis_at(url)
    _, session = a_session()
    store.store_session(session)

    store.delete_session(session.session_id)
    store.delete_session(session.session_id)

    assert store.retrieve_session(session.session_id) is None
    assert not list(server.scan_iter(f"pyctx:*{session.session_id}*"))
    store.close()
    server.close()


def test_what_cannot_be_read_is_said_to_be_broken(url: str) -> None:
    store, server = DistributedContextStore(url), redis_at(url)
    server.hset("pyctx:session:bad", mapping={"metrics": "{", "block_ids": "[]"})

    with pytest.raises(Broken, match="session bad"):
        store.retrieve_session("bad")
    store.close()
    server.close()


def test_an_agent_on_another_server_goes_on_with_the_session(url: str) -> None:
    """Promise K8: context transfer through the store."""
    store = DistributedContextStore(url)
    manager, session = a_session()
    here = AgentCoordinator({}, manager, store)
    here.save(session.session_id)
    agent = ContextAwareIntentAgent(_Silent())
    there = AgentCoordinator({"intent": agent}, agent.context_manager, store)

    assert there.resume(session.session_id, "intent")
    assert not there.resume("nowhere", "intent")

    assert agent.context_manager.sessions[session.session_id].blocks == session.blocks
    store.close()


class _Silent:
    async def generate(self, prompt: str) -> str:
        return ""
