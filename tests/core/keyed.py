"""Keys in tests: relays as the holders of keys have them, and every verb with something to ask."""

from __future__ import annotations

from typing import Any

from msgspec import NODEFAULT, Struct, convert
from msgspec.structs import fields as fields_of

from contextrelay import Relay, verbs
from contextrelay.client.transport.local import Local
from contextrelay.core.access import with_permissions_of
from contextrelay.core.stores import Stores
from contextrelay.model.key import IssuedKey, Key
from contextrelay.state.schema import fact
from contextrelay.verbs import Verb
from tests.core.clock import Clock, local

EVERY_VERB = list(verbs.VERBS)
SECRET = "attack at dawn"
CHANNEL = "war room"
THREAD = "campaign"


def owner(clock: Clock | None = None) -> Relay:
    """A relay of the owner, on a store in memory."""
    return over(local(clock or Clock()))


def over(transport: Local) -> Relay:
    relay = Relay.__new__(Relay)
    relay.transport = transport
    return relay


def stores_of(relay: Relay) -> Stores:
    assert isinstance(relay.transport, Local)
    return relay.transport.stores


def holder(relay: Relay, **asked: Any) -> Relay:
    """A relay as the holder of a new key has it."""
    return as_seen_by(relay, relay.new_key(**asked).key)


def as_seen_by(relay: Relay, key: Key) -> Relay:
    stores = stores_of(relay)
    return over(Local(stores).with_stores(with_permissions_of(stores, key)))


class Things(Struct):
    """What somebody has in a store: one of each kind, by the name of the field that takes it."""

    ref: str
    thread: str
    channel: str
    id: str
    """Of a key."""
    handoff: str

    def secrets(self) -> list[str]:
        """What nobody else may hear of."""
        return [self.ref, self.handoff, self.thread, self.channel, SECRET, THREAD]


def fill(relay: Relay, key: IssuedKey, channel: str = CHANNEL, thread: str = THREAD) -> Things:
    """Let somebody have one of each kind."""
    made = relay.new_thread(thread)
    artifact = relay.push(
        SECRET, name=SECRET, channel=channel, thread=made.id, metadata={"secret": SECRET}
    )
    made.patch([fact("plan", SECRET, id="f1")])
    handed = made.hand_off("scout", SECRET, refs=(artifact.ref,), channel=channel)
    relay.publish(channel, {"secret": SECRET})
    relay.use_thread(made.id, "/work", "/work")
    relay.transport.ask(verbs.RememberPush(artifact.ref, "/work"))
    return Things(artifact.ref, made.id, channel, key.key.id, handed.ref)


def key_of(key_id: str) -> dict[str, Any]:
    """Return a key as JSON has it, of which the store knows nothing."""
    asked: dict[str, Any] = {
        "scope": "read",
        "tenant": None,
        "threads": [],
        "channels": [],
        "quota_bytes": None,
    }
    times = {"created_at": "2026-01-01T00:00:00Z", "expires_at": None}
    return {"id": key_id, "name": None, "requests_per_minute": None, **asked, **times}


# What a field of a verb is asked with, by its name, where something has to be said.
VALUES: dict[str, Any] = {
    "prefix": "aaaaaa",
    "owner": "/work",
    "text": THREAD,
    "name": THREAD,
    "message": "hello",
    "operations": [{"op": "remove", "path": "/facts/0"}],
    "version": 1,
    "old_version": 1,
    "ttl_s": 3600,
    "type": "note.made",
    "label": "here",
    "capability": "retrieval.search",
    "args": {"query": "dawn"},
    "items": [],
    "sizes": [],
    "pattern": "dawn",
    "query": "dawn",
    "to": "scout",
    "ask": "go",
    "run": "r1",
    "place": "/work",
    "blocks": [{"id": "b1", "content": "one"}],
    "action": "asked a model",
    "cache_key": "0" * 32,
    "step": "plan",
    "hook": {"url": "https://example.org/"},
    "is_approved": True,
    "url": "https://example.org/",
    "sent": {"thread": "t1", "after": 1, "key": None},
    "kept": {"key": key_of("0" * 12), "sha256": "0" * 64},
    "counts": {"requests": 1},
    "used_ms": 1,
    "session": "s1",
    "fields": {},
    "source": "memory:",
}
# What else has to be said, so that it is asked rightly.
SAID: dict[str, dict[str, Any]] = {
    "Slice": {"lines": "1:2"},
    "Invoke": {"args": VALUES["args"]},
    "PutHook": {"id": "h1"},
    "NoteRun": {"status": "started"},
    "NoteTask": {"type": "task.status"},
    "PutSession": {"blocks": {}},
}
REFS = ("ref", "old", "new")
MANY_REFS = ("refs", "source_refs")
ON_KEYS = ("RevokeKey", "ReadUsage", "CountUse")
ON_HANDOFFS = ("AcceptHandoff", "ReturnHandoff", "ShowHandoff")


def examples(kind: type[Verb[Any]], things: Things) -> list[Verb[Any]]:
    """Verbs that ask for somebody's things: by each field that can name one, and for all."""
    values: dict[str, Any] = dict(SAID.get(kind.__name__, {}))
    optional: list[dict[str, Any]] = [{}]
    for field in fields_of(kind):
        has_default = field.default is not NODEFAULT or field.default_factory is not NODEFAULT
        named = _named(kind, field.name, things)
        if named is not None and has_default:
            optional.append({field.name: named})
        elif named is not None:
            values[field.name] = named
        elif not has_default and field.name not in values:
            assert field.name in VALUES, f"say what {kind.__name__} is asked with: {field.name}"
            values[field.name] = VALUES[field.name]
    return [convert(values | more, kind) for more in optional]


def _named(kind: type[Verb[Any]], field: str, things: Things) -> Any:
    """What of somebody's things a field can name, if it can."""
    if field in REFS:
        return things.handoff if kind.__name__ in ON_HANDOFFS else things.ref
    if field in MANY_REFS:
        return [things.ref]
    if field in ("thread", "channel") or (field == "id" and kind.__name__ in ON_KEYS):
        return getattr(things, field)
    return None


def body_of(kind: type[Verb[Any]]) -> bytes:
    return SECRET.encode() if kind.traits.takes_body and kind is not verbs.PushMany else b""


def names_things(verb: Verb[Any]) -> bool:
    """Whether a verb is about an artifact or a thread that has to be there."""
    if type(verb).__name__ == "ListHandoffs":
        return False
    return any(getattr(verb, field, None) for field in ("thread", *REFS, *MANY_REFS))
