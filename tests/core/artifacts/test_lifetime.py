"""How long artifacts live, and what stays of them, by a clock that is moved by hand."""

from __future__ import annotations

import os

import pytest

from contextrelay import Gone, NotFound, Settings
from contextrelay.core.artifacts.catalog import ADDED
from contextrelay.verbs import (
    Extend,
    List,
    NewThread,
    Peek,
    Pin,
    Pull,
    Push,
    Remove,
    Survey,
    Sweep,
    Verify,
)
from tests.core.clock import DAY_MS, HOUR_MS, Clock, local

LARGE = os.urandom(100_000)


def test_an_artifact_is_gone_the_moment_its_time_is_up_swept_or_not() -> None:
    """Promise R6."""
    clock = Clock()
    core = local(clock)
    ref = core.ask(Push(ttl_s=10, metadata={"a": 1}), b"x").ref

    clock.pass_ms(9_999)
    assert core.ask(Peek(ref)).ref == ref
    clock.pass_ms(1)

    for verb in (Peek(ref), Pull(ref), Pin(ref), Extend(ref, 60), Remove(ref)):
        with pytest.raises(Gone) as gone:
            core.ask(verb)
        assert gone.value.details["reason"] == "expired"
        assert gone.value.details["metadata"] == {"a": 1}
    assert core.ask(List()).artifacts == []


def test_a_sweep_frees_the_bytes_of_what_expired_and_reports_it() -> None:
    """Promise R6: expiry really frees the bytes."""
    clock = Clock()
    core = local(clock)
    core.ask(Push(ttl_s=10), LARGE)
    core.ask(Push(ttl_s=10), LARGE)
    core.ask(Push(ttl_s=10), b"small")
    kept = core.ask(Push(ttl_s=None), b"pinned").ref

    clock.pass_ms(HOUR_MS)
    report = core.ask(Sweep())

    assert (report.expired, report.freed_bodies) == (3, 2)
    assert report.freed_bytes == len(LARGE) + len(b"small")
    assert report.is_done
    assert list(core.stores.blobs.walk()) == []
    assert core.ask(Survey()).bodies == 1
    assert core.ask(Pull(kept)).whole() == b"pinned"
    assert core.ask(Verify()).problem_count == 0


def test_a_tombstone_stays_for_thirty_days_and_then_everything_is_forgotten() -> None:
    """Promise R6."""
    clock = Clock()
    core = local(clock)
    ref = core.ask(Push(ttl_s=10), LARGE).ref
    clock.pass_ms(HOUR_MS)
    core.ask(Sweep())

    clock.pass_ms(30 * DAY_MS - HOUR_MS)
    core.ask(Sweep())
    with pytest.raises(Gone):
        core.ask(Peek(ref))
    clock.pass_ms(2 * HOUR_MS)
    report = core.ask(Sweep())

    assert report.forgotten_tombstones == 1
    with pytest.raises(NotFound):
        core.ask(Peek(ref))
    assert core.stores.ledger.logs("a/", "", 10) == []
    assert core.stores.ledger.logs("b/", "", 10) == []
    assert core.stores.ledger.logs("i/", "", 10) == [ADDED]


def test_a_read_renews_a_lease_if_the_store_is_set_so() -> None:
    """Promise R6: a lease can be extended on read."""
    clock = Clock()
    core = local(clock, settings=Settings(extend_on_read=True))
    ref = core.ask(Push(ttl_s=100), b"x").ref

    for _ in range(20):
        clock.pass_ms(90_000)
        assert core.ask(Pull(ref)).whole() == b"x"
    clock.pass_ms(101_000)

    with pytest.raises(Gone):
        core.ask(Pull(ref))


def test_a_push_sweeps_a_little_by_itself() -> None:
    """Promise R6: without a daemon, expiry still frees the bytes."""
    clock = Clock()
    core = local(clock)
    core.ask(Push(ttl_s=10), LARGE)
    clock.pass_ms(HOUR_MS)

    core.ask(Push(), b"another")

    assert list(core.stores.blobs.walk()) == []


def test_a_listing_is_filtered_by_name_type_time_and_thread() -> None:
    clock = Clock()
    core = local(clock)
    thread = core.ask(NewThread("work")).thread_id
    old = core.ask(Push(name="Report.md"), b"# old")
    clock.pass_ms(1000)
    since_ms = clock.at_ms
    table = core.ask(Push(name="rows.csv", thread=thread), b"a,b\n1,2\n")
    clock.pass_ms(1)
    new = core.ask(Push(name="my report.md"), b"# new")

    def found(verb: List) -> list[str]:
        return [artifact.ref for artifact in core.ask(verb).artifacts]

    assert found(List(name="report")) == [new.ref, old.ref]
    assert found(List(type=table.type)) == [table.ref]
    assert found(List(since_ms=since_ms)) == [new.ref, table.ref]
    assert found(List(thread=thread)) == [table.ref]
    first = core.ask(List(1, name="report"))
    assert found(List(1, first.next, name="report")) == [old.ref]
