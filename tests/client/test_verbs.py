"""Every verb through the clients, blocking and awaited, from one body each."""

from __future__ import annotations

import hashlib
import os
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Gone, Invalid, NotFound, Relay, Settings, TooLarge
from tests.legs import is_far

LARGE = os.urandom(300_000)


def test_what_was_pushed_comes_back_exactly(relay: Relay) -> None:
    """Promise R9."""
    for body in (b"", b"a", "größer, 更大".encode(), bytes(range(256)), LARGE, LARGE * 7):
        artifact = relay.push(body)

        assert relay.pull(artifact.ref) == body
        assert artifact.size_bytes == len(body)
        assert artifact.sha256 == hashlib.sha256(body).hexdigest()


def test_a_body_can_be_read_chunk_by_chunk(relay: Relay) -> None:
    ref = relay.push(LARGE).ref

    chunks = list(relay.stream(ref))

    assert len(chunks) > 1
    assert b"".join(chunks) == LARGE


def test_peek_describes_without_the_body(relay: Relay) -> None:
    """Promises A5, R7: a description has the preview, never the body."""
    pushed = relay.push("# Orders\n", name="orders.md", metadata={"summary": "schema"})

    peeked = relay.peek(pushed.ref)

    assert peeked == pushed
    assert peeked.type == "markdown"
    assert peeked.metadata == {"summary": "schema"}
    assert peeked.preview.text == "# Orders\n"


def test_many_are_pushed_in_one_call(relay: Relay) -> None:
    """Promise R15."""
    push_many(relay, 1_000)


@pytest.mark.parametrize("leg", ["blocking sqlite", "awaited http"], indirect=True)
def test_ten_thousand_are_pushed_in_one_call(relay: Relay) -> None:
    """Promise R15: 10,000 refs in one call."""
    push_many(relay, 10_000)


def push_many(relay: Relay, count: int) -> None:
    bodies = [f"number {index % (count // 2)}".encode() for index in range(count)]

    artifacts = relay.push_many(bodies)

    assert len({artifact.ref for artifact in artifacts}) == count
    assert all(
        artifact.sha256 == hashlib.sha256(body).hexdigest()
        for artifact, body in zip(artifacts, bodies, strict=True)
    )
    assert relay.survey().bodies == count // 2


def test_a_push_lives_for_a_day_unless_it_says_otherwise(relay: Relay) -> None:
    """Promise R6."""
    day = relay.push("x")
    hour = relay.push("x", ttl_s=3_600)
    pinned = relay.push("x", ttl_s=None)

    assert day.expires_at == day.created_at + timedelta(days=1)
    assert hour.expires_at == hour.created_at + timedelta(hours=1)
    assert pinned.expires_at is None


def test_pin_and_extend_lengthen_a_life_and_never_shorten_it(relay: Relay) -> None:
    """Promise R6."""
    ref = relay.push("x", ttl_s=60).ref

    extended = relay.extend(ref, 3_600)
    same = relay.extend(ref, 10)
    pinned = relay.pin(ref)

    assert extended.ttl_s == 3_600
    assert same == extended
    assert pinned.expires_at is None
    assert relay.extend(ref, 10).expires_at is None
    assert relay.peek(ref) == pinned


def test_what_was_removed_says_when_and_why_it_went(relay: Relay) -> None:
    """Promise R6: a ref never dies silently."""
    ref = relay.push("x", metadata={"summary": "an x"}).ref

    relay.remove(ref)

    for ask in (relay.peek, relay.pull, relay.pin, relay.remove):
        with pytest.raises(Gone) as gone:
            ask(ref)
        assert gone.value.details["reason"] == "removed"
        assert gone.value.details["metadata"] == {"summary": "an x"}
        assert gone.value.hint


def test_the_same_content_is_kept_once_and_freed_with_its_last_ref(relay: Relay) -> None:
    """Promise R9."""
    body = LARGE * 7
    refs = [relay.push(body).ref for _ in range(3)]
    assert relay.survey().body_bytes == len(body)

    relay.remove(refs[0])
    relay.remove(refs[1])
    assert relay.pull(refs[2]) == body

    relay.remove(refs[2])
    assert relay.survey().bodies == 0


def test_artifacts_are_listed_newest_first_page_by_page(relay: Relay) -> None:
    refs = [relay.push(f"{index}").ref for index in range(7)]
    relay.remove(refs[3])
    seen: list[str] = []
    after = ""
    while True:
        page = relay.list(limit=2, after=after)
        seen += [artifact.ref for artifact in page.artifacts]
        after = page.next
        if not after:
            break

    assert sorted(seen) == sorted(set(refs) - {refs[3]})
    made = [relay.peek(ref).created_at for ref in seen]
    assert made == sorted(made, reverse=True)


def test_what_expires_soon_is_listed_soonest_first(relay: Relay) -> None:
    """Promise U3."""
    late, soon, kept, far = (relay.push(f"{ttl}", ttl_s=ttl).ref for ttl in (900, 60, None, 7200))
    relay.remove(relay.push("gone", ttl_s=60).ref)

    def listed(**wanted: Any) -> list[str]:
        return [each.ref for each in relay.list(**wanted).artifacts]

    assert listed(expires_in_s=3600) == [soon, late]
    assert listed(expires_in_s=3600, limit=1) == [soon]
    assert listed(expires_in_s=86_400, name="x") == []
    assert listed(expires_in_s=86_400) == [soon, late, far]
    assert kept in listed()


def test_a_ref_is_found_by_its_beginning(relay: Relay) -> None:
    artifact = relay.push("x")
    relay.push("y")

    assert relay.find(artifact.ref[:10]) == [artifact]
    assert relay.find("ffffffff-ffff") == []


def test_lineage_is_followed_both_ways(relay: Relay) -> None:
    """Promise A1."""
    log = relay.push("raw log").ref
    summary = relay.push("summary", source_refs=(log,), created_by="coder", capability="sum")
    report = relay.push("report", source_refs=(summary.ref, log)).ref

    assert relay.lineage(log).derived == sorted([summary.ref, report])
    assert relay.lineage(summary.ref).sources == [log]
    assert relay.lineage(log).holders == []
    assert summary.provenance.created_by == "coder"
    assert summary.provenance.capability == "sum"


def test_an_artifact_knows_which_threads_hold_it(relay: Relay) -> None:
    """Promise U3."""
    first, second = relay.new_thread("first"), relay.new_thread("second")
    ref = first.put("held").ref
    second.add_decision("keep it", evidence=(ref,))

    assert relay.lineage(ref).holders == sorted([first.id, second.id])


def test_a_body_over_the_limit_is_refused_without_reading_it_all(
    leg: Callable[..., Relay],
) -> None:
    """Promise R8: refused at once."""
    relay = leg(settings=Settings(body_bytes_max=100_000))
    taken: list[int] = []

    def endless() -> object:
        while True:
            taken.append(1)
            yield bytes(50_000)

    with pytest.raises(TooLarge) as refused:
        relay.push(endless())  # pyright: ignore[reportArgumentType]

    if is_far(relay):
        # On their way are what the server reads besides the body, and what sockets hold.
        assert len(taken) * 50_000 < 64 << 20
    else:
        assert len(taken) == 3
        assert "100000" in refused.value.message
    assert relay.push(bytes(100_000)).size_bytes == 100_000


def test_a_backup_brings_everything_back(leg: Callable[..., Relay], tmp_path: Path) -> None:
    """Promise G3: backup and restore."""
    relay = leg()
    small = relay.push("small", metadata={"k": [1, {"deep": None}]}, ttl_s=None)
    large = relay.push(LARGE)
    gone = relay.push("gone").ref
    relay.remove(gone)

    relay.backup(tmp_path / "b.tar")
    other = leg("two")
    report = other.restore(tmp_path / "b.tar")

    assert report.bodies == 1
    assert other.peek(small.ref) == small
    assert other.pull(large.ref) == LARGE
    assert other.verify().problem_count == 0
    with pytest.raises(Gone):
        other.peek(gone)


def test_an_unknown_ref_and_a_malformed_one_are_different_errors(relay: Relay) -> None:
    with pytest.raises(NotFound):
        relay.peek("00000000-0000-4000-8000-000000000000")
    with pytest.raises(Invalid):
        relay.peek("spec.md")


def test_a_stream_of_the_largest_body_is_never_held_whole(leg: Callable[..., Relay]) -> None:
    """Promise R15: 50 MiB in and out hold memory flat; on an engine that keeps it elsewhere."""
    relay = leg()
    if relay.survey().engine != "sqlite":
        pytest.skip("other engines keep bodies in memory, this one's or a server's")
    block = os.urandom(1 << 20)
    tracemalloc.start()
    try:
        ref = relay.push(block for _ in range(50)).ref
        size = sum(map(len, relay.stream(ref))) if type(relay) is Relay else 50 << 20
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert size == 50 << 20
    assert peak < 8 << 20
