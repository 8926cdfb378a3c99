"""Capabilities through the clients, on every leg: invoked, cached, counted, listed, purged."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from contextrelay import (
    Invalid,
    Limited,
    NotFound,
    Refused,
    Relay,
    RelayError,
    Settings,
    capability,
)

runs: list[dict[str, Any]] = []


@capability(
    "test.shout",
    description="Say it loudly.",
    args_schema={
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "times": {"type": "integer", "default": 1, "minimum": 1, "maximum": 1_000_000},
        },
        "required": ["text"],
        "additionalProperties": False,
    },
)
def shout(args: dict[str, Any]) -> str:
    runs.append(args)
    return args["text"].upper() * args["times"]


@capability("test.result", cacheable=False)
def result(args: dict[str, Any]) -> Any:
    """Return what is wanted. Not the second line."""
    return {
        "text": "größer",
        "bytes": b"\x00\xff",
        "json": {"b": [1, None]},
        "none": None,
        "set": {1},
        "half": "\ud800",
    }[args["kind"]]


@capability("test.fail")
def fail(args: dict[str, Any]) -> str:
    if "refused" in args:
        raise Refused("not that one", "take another")
    raise ValueError(f"no luck\x1b[31m {args}")


def plain(args: dict[str, Any]) -> str:
    return "x"


@pytest.fixture(autouse=True)
def no_runs() -> None:
    runs.clear()


def test_a_result_is_an_artifact_with_its_preview(relay: Relay) -> None:
    """Promises C1, C2."""
    invoked = relay.invoke("test.shout", {"text": "hey"})

    assert relay.pull(invoked.artifact_ref) == b"HEY"
    artifact = relay.peek(invoked.artifact_ref)
    assert invoked.preview == artifact.preview
    assert artifact.provenance.capability == "test.shout"
    assert (invoked.capability, invoked.cache_hit) == ("test.shout", False)
    assert len(invoked.cache_key) == 32
    assert invoked.duration_ms >= 0


def test_the_same_arguments_in_another_order_are_answered_from_the_cache(relay: Relay) -> None:
    """Promise C2."""
    first = relay.invoke("test.shout", {"text": "a", "times": 1})

    again = relay.invoke("test.shout", {"times": 1, "text": "a"})
    by_default = relay.invoke("test.shout", {"text": "a"})

    assert len(runs) == 1
    assert (again.cache_hit, again.artifact_ref) == (True, first.artifact_ref)
    assert again.cache_key == by_default.cache_key == first.cache_key
    assert again.preview == first.preview


def test_other_arguments_another_thread_or_another_version_are_another_result(
    relay: Relay,
) -> None:
    """Promise C2."""
    one, other = relay.new_thread(), relay.new_thread()
    keys = [
        relay.invoke("test.shout", {"text": "a"}).cache_key,
        relay.invoke("test.shout", {"text": "b"}).cache_key,
        one.invoke("test.shout", {"text": "a"}).cache_key,
        other.invoke("test.shout", {"text": "a"}).cache_key,
    ]
    for version in ("1", "2"):
        capability("test.dated", version=version)(plain)
        invoked = relay.invoke("test.dated")
        assert not invoked.cache_hit
        keys.append(invoked.cache_key)

    assert len(runs) == 4
    assert len(set(keys)) == 6


def test_purging_forgets_results_and_leaves_the_artifacts(relay: Relay) -> None:
    """Promise C2."""
    first = relay.invoke("test.shout", {"text": "a"})
    relay.invoke("test.shout", {"text": "b"})
    relay.invoke("retrieval.search", {"query": "a"})

    assert relay.purge_cache("test.shout").entries == 2
    assert relay.purge_cache("test.shout").entries == 0
    assert relay.invoke("retrieval.search", {"query": "a"}).cache_hit
    assert relay.purge_cache().entries == 1

    assert not relay.invoke("test.shout", {"text": "a"}).cache_hit
    assert relay.pull(first.artifact_ref) == b"A"


def test_text_bytes_and_json_can_be_returned(relay: Relay) -> None:
    """Promise C1."""
    invoked = {
        kind: relay.invoke("test.result", {"kind": kind}) for kind in ("text", "bytes", "json")
    }

    assert relay.pull(invoked["text"].artifact_ref) == "größer".encode()
    assert relay.pull(invoked["bytes"].artifact_ref) == b"\x00\xff"
    assert json.loads(relay.pull(invoked["json"].artifact_ref)) == {"b": [1, None]}
    assert relay.peek(invoked["json"].artifact_ref).type == "json"


@pytest.mark.parametrize("kind", ["none", "set", "half"])
def test_anything_else_is_refused(relay: Relay, kind: str) -> None:
    with pytest.raises(Invalid, match=r"test\.result returned"):
        relay.invoke("test.result", {"kind": kind})


def test_arguments_that_break_the_schema_are_refused_before_anything_is_done(
    relay: Relay,
) -> None:
    """Promise C1."""
    thread = relay.new_thread()
    for args in ({}, {"text": 1}, {"text": "a", "times": 0}, {"text": "a", "loud": True}):
        with pytest.raises(Invalid, match=r"^args"):
            thread.invoke("test.shout", args)

    assert runs == []
    assert thread.stats().hop_count == 0


def test_an_unknown_capability_is_reported_with_one_that_is_close(relay: Relay) -> None:
    with pytest.raises(NotFound) as missed:
        relay.invoke("test.shut", {"text": "a"})

    assert "test.shout" in missed.value.hint


def test_a_failure_is_reported_counted_and_not_cached(relay: Relay) -> None:
    thread = relay.new_thread()

    with pytest.raises(RelayError, match=r"test\.fail failed: ValueError: no luck") as failed:
        thread.invoke("test.fail")
    with pytest.raises(Refused, match="not that one"):
        thread.invoke("test.fail", {"refused": True})

    assert "\x1b" not in failed.value.message
    types = [each.event.type for each in thread.events()]
    assert types[2:] == ["capability.called", "capability.failed"] * 2
    assert thread.stats().hop_count == 2
    assert thread.artifacts() == []
    assert relay.purge_cache("test.fail").entries == 0


# In a thread


def test_a_result_goes_into_the_thread_and_every_invocation_into_its_log(relay: Relay) -> None:
    """Promises C2, T8."""
    thread = relay.new_thread()

    first = thread.invoke("test.shout", {"text": "a"}, by="ada")
    again = thread.invoke("test.shout", {"text": "a"}, by="bob")

    assert again.cache_hit
    assert [each["ref"] for each in thread.state()["artifacts"]] == [first.artifact_ref]
    events = [each.event for each in thread.events() if each.event.type == "capability.invoked"]
    assert [event.by for event in events] == ["ada", "bob"]
    for event, reply in zip(events, (first, again), strict=True):
        assert event.detail == {
            "capability": "test.shout",
            "cache_key": reply.cache_key,
            "cache_hit": reply.cache_hit,
            "artifact_ref": reply.artifact_ref,
            "duration_ms": reply.duration_ms,
        }
    assert relay.peek(first.artifact_ref).expires_at is None


def test_the_fifty_first_hop_is_refused_cached_or_not(relay: Relay) -> None:
    """Promise C3."""
    thread = relay.new_thread()
    for index in range(50):
        thread.invoke("test.shout", {"text": "ab"[index % 2]})
    events = thread.show().events

    for text in ("a", "new"):
        with pytest.raises(Limited) as limited:
            thread.invoke("test.shout", {"text": text})
        assert limited.value.message == "hop limit exceeded: 50/50"
        assert (limited.value.status, limited.value.code) == (429, "limited")
        assert "hops_max" in limited.value.hint

    assert len(runs) == 2
    assert thread.show().events == events
    assert thread.stats().hop_count == 50
    assert not thread.fork().invoke("test.shout", {"text": "a"}).cache_hit
    assert relay.invoke("test.shout", {"text": "a"}).cache_hit is False


# Searching


# Many at once


def test_many_at_once_make_exactly_as_many_hops_as_may_be(tmp_path: Any) -> None:
    """Promise C3: two handles of one store, eight threads of execution each."""
    settings = Settings(hops_max=20)
    with (
        Relay(tmp_path / "s", settings=settings) as one,
        Relay(tmp_path / "s", settings=settings) as two,
    ):
        thread = one.new_thread().id

        def invoke(index: int) -> bool:
            relay = (one, two)[index % 2]
            try:
                relay.invoke("test.shout", {"text": str(index % 5)}, thread)
            except Limited:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            done = list(pool.map(invoke, range(48)))

        assert sum(done) == 20
        assert one.thread(thread).stats().hop_count == 20
        assert two.thread(thread).stats().hop_count == 20
        assert one.verify().problems == []
