"""Threads through the clients, blocking and awaited, on every engine, from one body each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from contextrelay import Conflict, Gone, Invalid, NotFound, Refused, Relay

Document = dict[str, Any]


def fact(key: str, value: object) -> Document:
    return {
        "op": "add",
        "path": "/facts/-",
        "value": {"id": key, "key": key, "value": value},
    }


def values(state: Document) -> list[object]:
    return [each["value"] for each in state["facts"]]


def test_a_new_thread_is_at_version_1_with_an_empty_state(relay: Relay) -> None:
    """Promise T2."""
    thread = relay.new_thread("release notes")

    state = thread.state()

    assert state["$schema"] == "com.relay.state.v1"
    assert (state["thread_id"], state["version"]) == (thread.id, 1)
    assert thread.show().name == "release notes"
    for name in ("facts", "constraints", "open_questions", "decisions", "plan", "artifacts"):
        assert state[name] == []
    assert set(state["metrics"]) == {
        "cache_hits",
        "cache_misses",
        "tokens_estimate",
        "tokens_avoided",
        "hop_count",
    }


def test_a_patch_makes_the_next_version_and_one_event(relay: Relay) -> None:
    """Promise T3."""
    thread = relay.new_thread()
    before = thread.show().events

    patched = thread.patch([fact("a", 1), fact("b", {"deep": [1, None]})], by="coder")

    assert patched.version == 2
    assert values(thread.state()) == [1, {"deep": [1, None]}]
    (event,) = thread.events(after=before)
    assert (event.event.type, event.event.by) == ("state.patch.applied", "coder")


def test_a_patch_is_done_whole_or_not_at_all(relay: Relay) -> None:
    """Promise T3."""
    thread = relay.new_thread()
    thread.patch([fact("a", 1)])
    before = thread.state()

    for bad in (
        [fact("b", 2), {"op": "remove", "path": "/facts/9"}],
        [fact("b", 2), {"op": "add", "path": "/facts/-", "value": {"id": "c"}}],
        [fact("b", 2), {"op": "replace", "path": "/version", "value": 9}],
        [{"op": "replace", "path": "/facts", "value": "none"}],
        [{"op": "add", "path": "/artifacts/-", "value": {"ref": "nothing", "type": "text"}}],
    ):
        with pytest.raises(Refused):
            thread.patch(bad)
    with pytest.raises(Conflict):
        thread.patch([fact("b", 2), {"op": "test", "path": "/facts/0/value", "value": 2}])
    with pytest.raises(Invalid):
        thread.patch([{"op": "increment", "path": "/facts/0/value"}])

    assert thread.state() == before


def test_a_patch_against_an_old_version_is_refused_and_shows_what_changed(relay: Relay) -> None:
    """Promise T4."""
    thread = relay.new_thread()
    thread.patch([fact("a", 1)])
    thread.patch([fact("b", 2)])

    with pytest.raises(Conflict) as conflict:
        thread.patch([{"op": "remove", "path": "/facts/0"}], expected=2)

    assert conflict.value.details["version"] == 3
    assert conflict.value.details["changed"] == [fact("b", 2)]
    assert values(thread.state()) == [1, 2]


def test_a_merge_takes_what_touches_other_paths_and_refuses_the_rest(relay: Relay) -> None:
    """Promise T4."""
    thread = relay.new_thread()
    thread.patch([fact("a", 1)])
    thread.patch([fact("b", 2), {"op": "replace", "path": "/facts/0/value", "value": 9}])

    merged = thread.patch([fact("c", 3)], expected=2, merge=True)

    assert merged.version == 4
    assert values(thread.state()) == [9, 2, 3]
    with pytest.raises(Conflict):
        thread.patch([{"op": "remove", "path": "/facts/0"}], expected=2, merge=True)


def test_every_version_can_be_read_again(relay: Relay) -> None:
    """Promise T5."""
    thread = relay.new_thread()
    seen = [thread.state()]
    for number in range(30):
        thread.patch([fact(f"f{number}", number)])
        if number % 7 == 3:
            thread.patch([{"op": "remove", "path": "/facts/0"}])
        seen.append(thread.state())

    for state in seen:
        assert thread.state(state["version"]) == state
    with pytest.raises(NotFound):
        thread.state(seen[-1]["version"] + 1)


def test_the_history_shows_every_version_as_it_was(relay: Relay) -> None:
    """Promise T5."""
    thread = relay.new_thread()
    thread.put("evidence")
    thread.patch([fact("a", {"deep": [1, 2]})])
    thread.patch([{"op": "add", "path": "/facts/0/value/deep/0", "value": 0}])
    thread.patch([{"op": "move", "from": "/facts/0/value/deep", "path": "/moved"}])
    thread.patch([fact("b", 2), {"op": "copy", "from": "/facts/1", "path": "/facts/0"}])
    thread.patch([{"op": "remove", "path": "/facts/0"}, {"op": "remove", "path": "/moved/1"}])

    history = list(thread.history())

    assert len(history) == 7
    assert history == [thread.state(version) for version in range(1, 8)]


def test_an_old_version_is_restored_as_a_new_one(relay: Relay) -> None:
    """Promise T5."""
    thread = relay.new_thread()
    thread.patch([fact("a", 1)])
    thread.patch([fact("b", 2), {"op": "add", "path": "/note", "value": "kept"}])

    restored = thread.restore(2)

    assert restored.version == 4
    assert values(thread.state()) == [1]
    assert "note" not in thread.state()
    assert values(thread.state(3)) == [1, 2]


def test_a_thread_is_forked_from_any_version(relay: Relay) -> None:
    """Promise T5."""
    thread = relay.new_thread()
    thread.put("evidence", name="e.txt")
    thread.patch([fact("a", 1)])
    thread.patch([fact("b", 2)])

    fork = thread.fork(version=3, name="other")
    fork.patch([fact("c", 3)])

    assert values(fork.state()) == [1, 3]
    assert values(thread.state()) == [1, 2]
    assert fork.show().forked_from == f"{thread.id}@v3"
    assert fork.state(1)["version"] == 1


def test_what_a_fork_refers_to_outlives_the_thread_it_came_from(relay: Relay) -> None:
    """Promise R6: refs held by a state do not expire."""
    thread = relay.new_thread()
    artifact = thread.put("evidence")
    fork = thread.fork()

    thread.remove()

    assert relay.pull(artifact.ref) == b"evidence"
    fork.remove()
    with pytest.raises(Gone):
        relay.pull(artifact.ref)


def test_an_artifact_put_into_a_thread_is_one_patch_and_does_not_expire(relay: Relay) -> None:
    """Promises R6, T3."""
    thread = relay.new_thread()

    artifact = thread.put("# Notes", name="notes.md", created_by="coder")

    assert artifact.expires_at is None
    assert thread.show().version == 2
    assert thread.state()["artifacts"] == [
        {"ref": artifact.ref, "type": "markdown", "name": "notes.md"}
    ]
    types = [each.event.type for each in thread.events()]
    assert types == [
        "thread.created",
        "state.created",
        "artifact.created",
        "state.patch.applied",
    ]
    assert thread.artifacts() == [relay.peek(artifact.ref)]


def test_a_state_that_refers_to_an_artifact_keeps_it_from_expiring(relay: Relay) -> None:
    """Promise R6."""
    thread = relay.new_thread()
    artifact = relay.push("found elsewhere")
    leased = relay.push("short", ttl_s=60)

    for each in (artifact, leased):
        entry = {"ref": each.ref, "type": each.type}
        thread.patch([{"op": "add", "path": "/artifacts/-", "value": entry}])

    assert relay.peek(artifact.ref).expires_at is None
    assert relay.peek(leased.ref).ttl_s == 60


def test_the_header_is_bounded_and_the_same_for_the_same_state(relay: Relay) -> None:
    """Promise T6."""
    thread = relay.new_thread()
    thread.patch([fact(f"f{number}", "x" * 200) for number in range(40)])

    header = thread.header()

    assert len(json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()) <= 2_048
    assert header["truncated"] is True
    assert header == thread.header()
    assert thread.header(1)["top_facts"] == []


def test_events_are_chained_by_hash(relay: Relay) -> None:
    """Promise T8."""
    thread = relay.new_thread()
    thread.patch([fact("a", 1)])
    thread.add_event("message.received", {"text": "hello"}, by="user")
    thread.checkpoint("before the release")

    events = thread.events()

    assert [each.seq for each in events] == [1, 2, 3, 4, 5]
    assert [each.event.type for each in events[3:]] == ["message.received", "checkpoint.created"]
    assert events[4].event.detail == {"label": "before the release", "version": 2}
    assert len({each.event.hash for each in events}) == 5
    assert relay.verify().problem_count == 0


def test_nobody_can_say_what_only_relay_says(relay: Relay) -> None:
    """Promise T8: a log is replayed, so its own events cannot be made up."""
    thread = relay.new_thread()

    for name in ("state.patch.applied", "state.created", "thread.closed", "artifact.created"):
        with pytest.raises(Refused):
            thread.add_event(name, {"version": 9, "operations": [], "metrics": {}})
    with pytest.raises(Invalid):
        thread.add_event("message.received", {"text": "x" * 100_000})
    with pytest.raises(Invalid):
        relay.new_thread("a\nb")

    assert thread.show().events == 2


def test_a_closed_thread_can_be_read_and_forked_but_not_changed(relay: Relay) -> None:
    """Promise T1."""
    thread = relay.new_thread()
    thread.patch([fact("a", 1)])
    thread.close()

    with pytest.raises(Refused, match="closed"):
        thread.patch([fact("b", 2)])
    with pytest.raises(Refused, match="closed"):
        thread.put("x")

    assert thread.show().status == "closed"
    assert values(thread.fork().state()) == [1]
    assert relay.survey().artifacts == 0


def test_a_removed_thread_is_gone_with_its_artifacts_and_says_so(relay: Relay) -> None:
    """Promise T1."""
    thread = relay.new_thread("short lived")
    artifact = thread.put("x" * 100_000)
    other = relay.new_thread("other")

    thread.remove()

    with pytest.raises(Gone):
        thread.state()
    with pytest.raises(Gone):
        relay.peek(artifact.ref)
    assert relay.survey().bodies == 0
    assert [each.thread_id for each in relay.threads().threads] == [other.id]
    assert relay.verify().problem_count == 0


def test_threads_are_found_by_name_by_prefix_and_listed_newest_first(relay: Relay) -> None:
    """Promise T1."""
    made = [relay.new_thread(name).id for name in ("one", "two", "two")]

    assert relay.find_threads("one")[0].thread_id == made[0]
    assert {each.thread_id for each in relay.find_threads("two")} == set(made[1:])
    assert relay.find_threads(made[1][:8])[0].thread_id == made[1]
    assert relay.find_threads("three") == []
    first = relay.threads(limit=2)
    rest = relay.threads(limit=2, after=first.next)
    listed = [each.thread_id for each in (*first.threads, *rest.threads)]
    assert sorted(listed) == sorted(made)
    assert rest.next == ""


def test_a_patch_is_judged_by_the_newest_state_not_by_one_read_before(
    leg: Callable[..., Relay],
) -> None:
    """Promise T4: without `expected` a patch applies to the head."""
    mine = leg()
    if mine.survey().engine == "memory":
        pytest.skip("only one relay has this store")
    theirs = leg()
    thread = mine.new_thread()
    other = theirs.thread(thread.id)
    other.state()
    thread.patch([fact("a", 1)])

    other.patch([{"op": "replace", "path": "/facts/0/value", "value": 2}])
    thread.patch([{"op": "test", "path": "/facts/0/value", "value": 2}])
    with pytest.raises(Refused):
        other.patch([{"op": "remove", "path": "/facts/7"}])

    assert values(thread.state()) == [2]


def test_a_thread_is_opened_by_name_and_made_if_there_is_none(relay: Relay) -> None:
    first = relay.thread("notes")

    assert relay.thread("notes").id == first.id
    assert relay.thread(first.id).id == first.id
    with pytest.raises(NotFound):
        relay.thread("00000000-0000-4000-8000-000000000000")


def test_the_current_thread_of_each_place_is_remembered_and_the_one_before(relay: Relay) -> None:
    """Promise T1."""
    one, two, three = relay.new_thread(), relay.new_thread(), relay.new_thread()

    relay.use_thread(one.id, "terminal 1 /work", "me /work")
    relay.use_thread(two.id, "terminal 2 /work", "me /work")
    relay.use_thread(three.id, "terminal 2 /work", "me /work")
    relay.use_thread(three.id, "terminal 2 /work", "me /work")
    two.close()

    first = relay.current_thread("terminal 1 /work", "me /work")
    second = relay.current_thread("terminal 2 /work", "me /work")
    assert first.thread == one.show()
    assert first.previous is None
    assert (second.thread, second.previous) == (three.show(), two.show())
    assert {each.thread_id for each in second.candidates} == {one.id, three.id}
    three.remove()
    assert relay.current_thread("terminal 2 /work", "me /work").thread is None
    nobody = relay.current_thread("terminal 1 /elsewhere", "me /elsewhere")
    assert (nobody.thread, nobody.previous, nobody.candidates) == (None, None, [])


def test_stats_follow_the_formula_of_the_seed(relay: Relay) -> None:
    """Promise U1: the seed's formula."""
    thread = relay.new_thread()
    bodies = ["x" * 1_001, "line\n" * 2_000, "short"]
    artifacts = [thread.put(body) for body in bodies]

    stats = thread.stats()

    assert stats.artifacts == 3
    assert stats.naive_tokens == sum(len(body) // 4 for body in bodies)
    assert stats.actual_tokens == sum(len(each.preview.text) // 4 for each in artifacts)
    assert stats.tokens_avoided == stats.naive_tokens - stats.actual_tokens
    assert stats.basis.startswith("estimated")
    assert thread.state()["metrics"]["tokens_avoided"] == stats.tokens_avoided


def test_threads_are_listed_by_name_state_and_agent(relay: Relay) -> None:
    """Promise U3."""
    made = [relay.new_thread(f"Plan {each}", by=f"agent {each % 2}") for each in range(4)]
    relay.new_thread(by="agent 1")
    made[2].close()

    def listed(limit: int = 20, **wanted: Any) -> set[str]:
        return {each.thread_id for each in relay.threads(limit, **wanted).threads}

    assert listed(text="pLAN") == {each.id for each in made}
    assert listed(text=made[1].id[:13]) == {made[1].id}
    assert listed(status="closed") == {made[2].id}
    assert listed(text="plan", agent="AGENT 1") == {made[3].id, made[1].id}
    assert listed(text="nowhere") == set()
    first = relay.threads(3, text="plan")
    assert len(first.threads) == 3
    rest = listed(text="plan", after=first.next)
    assert rest == {each.id for each in made} - {each.thread_id for each in first.threads}
