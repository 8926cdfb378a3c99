"""Capabilities through the clients, on every leg: invoked, cached, counted, listed, purged."""

from __future__ import annotations

import json
from collections.abc import Callable
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


def test_a_cached_result_can_be_passed_over_and_is_then_replaced(relay: Relay) -> None:
    first = relay.invoke("test.shout", {"text": "a"})

    fresh = relay.invoke("test.shout", {"text": "a"}, is_cached=False)

    assert not fresh.cache_hit
    assert fresh.artifact_ref != first.artifact_ref
    assert relay.invoke("test.shout", {"text": "a"}).artifact_ref == fresh.artifact_ref


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


def test_an_artifact_that_is_gone_is_no_result(relay: Relay) -> None:
    """Promise C2."""
    first = relay.invoke("test.shout", {"text": "a"})
    relay.remove(first.artifact_ref)

    again = relay.invoke("test.shout", {"text": "a"})

    assert not again.cache_hit
    assert relay.pull(again.artifact_ref) == b"A"


def test_the_registry_shows_what_there_is_and_how_often_it_was_cached(relay: Relay) -> None:
    """Promises C1, C2."""
    for _ in range(3):
        relay.invoke("test.shout", {"text": "a"})

    listing = relay.capabilities()

    by_name = {each.name: each for each in listing.capabilities}
    shouting = by_name["test.shout"]
    assert shouting.description == "Say it loudly."
    assert shouting.args_schema["required"] == ["text"]
    assert (shouting.cacheable, shouting.cache_ttl_s, shouting.cache_hits) == (True, 86_400, 2)
    assert by_name["test.result"].description == "Return what is wanted. Not the second line."
    assert by_name["retrieval.search"].cache_ttl_s == 300
    assert by_name["http.fetch"].cache_ttl_s == 600
    assert list(by_name) == sorted(by_name)


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


def test_what_is_not_cacheable_runs_every_time(relay: Relay) -> None:
    for _ in range(2):
        assert not relay.invoke("test.result", {"kind": "text"}).cache_hit


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


def test_figures_of_the_cache_are_reported_live_and_by_each_version(relay: Relay) -> None:
    """Promises T2, U1."""
    thread, other = relay.new_thread(), relay.new_thread()
    for text in ("a", "a", "b", "a"):
        thread.invoke("test.shout", {"text": text})
    other.invoke("test.shout", {"text": "a"})
    other.invoke("test.shout", {"text": "a"})

    stats = thread.stats()
    at_the_patch = thread.state()["metrics"]
    thread.patch([{"op": "add", "path": "/session_summary", "value": "done"}])
    after = thread.state()["metrics"]

    assert (stats.cache_hits, stats.cache_misses, stats.hop_count) == (2, 2, 4)
    assert stats.session_cache_hits == 3
    figures = ("cache_hits", "cache_misses", "hop_count")
    assert [at_the_patch[name] for name in figures] == [1, 2, 3]
    assert [after[name] for name in figures] == [2, 2, 4]
    assert relay.verify().problems == []


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


def test_the_limit_is_a_setting(leg: Callable[..., Any]) -> None:
    """Promise C3."""
    relay = leg(settings=Settings(hops_max=2))
    thread = relay.new_thread()
    thread.invoke("test.shout", {"text": "a"})
    thread.invoke("test.shout", {"text": "a"})

    with pytest.raises(Limited, match="hop limit exceeded: 2/2"):
        thread.invoke("test.shout", {"text": "a"})


def test_a_closed_thread_takes_no_invocation(relay: Relay) -> None:
    thread = relay.new_thread()
    thread.invoke("test.shout", {"text": "a"})
    thread.close()

    for text in ("a", "b"):
        with pytest.raises(Refused, match="is closed"):
            thread.invoke("test.shout", {"text": text})

    assert len(runs) == 1


def test_nobody_else_may_write_what_counts(relay: Relay) -> None:
    thread = relay.new_thread()

    for name in ("called", "invoked", "failed"):
        with pytest.raises(Refused):
            thread.add_event(f"capability.{name}", {"cache_hit": True})

    assert thread.stats().hop_count == 0


# Searching


def found(relay: Relay, query: str, **named: Any) -> dict[str, Any]:
    invoked = relay.invoke("retrieval.search", {"query": query, **named}, is_cached=False)
    return json.loads(relay.pull(invoked.artifact_ref))


def test_a_search_finds_words_in_content_name_and_metadata_best_first(relay: Relay) -> None:
    """Promise C1."""
    relay.push("nothing of the kind")
    once = relay.push("The Fox runs.").ref
    often = relay.push("fox fox fox").ref
    named = relay.push(b"\x00\xff", name="fox.bin").ref
    described = relay.push("x", metadata={"animal": "a brown FOX and a fox"}).ref
    both = relay.push("a fox, quick as ever: quick quick").ref

    results = found(relay, "QUICK fox")["results"]

    assert [each["ref"] for each in results[:3]] == [both, often, described]
    assert {each["ref"] for each in results[3:]} == {named, once}
    assert [each["hits"] for each in results] == [4, 3, 2, 1, 1]
    assert any("The Fox runs." in each["snippet"] for each in results[3:])


def test_a_search_shows_so_many_and_how_many_there_were(relay: Relay) -> None:
    """Promise C1."""
    relay.push_many([f"needle {index}" for index in range(60)])

    assert len(found(relay, "needle")["results"]) == 10
    most = found(relay, "needle", limit=50)
    assert (len(most["results"]), most["found"], most["looked_at"]) == (50, 60, 60)
    assert most["is_partial"] is False
    with pytest.raises(Invalid, match="args/limit is more than 50"):
        found(relay, "needle", limit=51)


def test_a_search_in_a_thread_looks_at_that_thread_alone(relay: Relay) -> None:
    thread = relay.new_thread()
    inside = thread.put("a needle").ref
    relay.push("another needle")

    invoked = thread.invoke("retrieval.search", {"query": "needle"})

    results = json.loads(relay.pull(invoked.artifact_ref))["results"]
    assert [each["ref"] for each in results] == [inside]


def test_a_search_finds_no_results_of_searches_and_says_where_it_stopped(relay: Relay) -> None:
    relay.push("needle " + "x" * 5_000_000 + " thread")

    assert found(relay, "thread")["results"] == []
    answer = found(relay, "thread needle")

    assert (len(answer["results"]), answer["looked_at"], answer["is_partial"]) == (1, 1, True)


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
