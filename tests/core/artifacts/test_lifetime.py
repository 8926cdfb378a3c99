"""How long artifacts live, and what stays of them, by a clock that is moved by hand."""

from __future__ import annotations

import os

import pytest

from contextrelay import Gone, NotFound, Settings
from contextrelay.core.artifacts.catalog import ADDED
from contextrelay.verbs import (
    Extend,
    LastPush,
    List,
    NewThread,
    Peek,
    Pin,
    Pull,
    Push,
    RememberPush,
    Remove,
    Survey,
    Sweep,
    Unpin,
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


def test_content_that_another_ref_still_holds_survives_a_sweep() -> None:
    """Promise R9."""
    clock = Clock()
    core = local(clock)
    core.ask(Push(ttl_s=10), LARGE)
    kept = core.ask(Push(ttl_s=None), LARGE).ref

    clock.pass_ms(HOUR_MS)
    report = core.ask(Sweep())

    assert (report.expired, report.freed_bytes) == (1, 0)
    assert core.ask(Pull(kept)).whole() == LARGE


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


def test_a_sweep_takes_on_no_more_than_its_limit() -> None:
    clock = Clock()
    core = local(clock)
    for index in range(5):
        core.ask(Push(ttl_s=10), b"%d" % index)
    clock.pass_ms(HOUR_MS)

    first = core.ask(Sweep(items_max=2))
    second = core.ask(Sweep())

    assert (first.expired, first.is_done) == (2, False)
    assert (second.expired, second.is_done) == (3, True)


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


def test_reads_soon_after_each_other_renew_nothing() -> None:
    clock = Clock()
    core = local(clock, settings=Settings(extend_on_read=True))
    ref = core.ask(Push(ttl_s=100), b"x").ref
    clock.pass_ms(5_000)
    before = core.stores.ledger.last(f"a/{ref}")

    core.ask(Pull(ref))

    assert core.stores.ledger.last(f"a/{ref}") == before


def test_a_push_sweeps_a_little_by_itself() -> None:
    """Promise R6: without a daemon, expiry still frees the bytes."""
    clock = Clock()
    core = local(clock)
    core.ask(Push(ttl_s=10), LARGE)
    clock.pass_ms(HOUR_MS)

    core.ask(Push(), b"another")

    assert list(core.stores.blobs.walk()) == []


def test_a_ttl_that_the_store_is_set_to_is_the_default() -> None:
    clock = Clock()
    core = local(clock, settings=Settings(ttl_s=7))

    assert core.ask(Push(), b"x").ttl_s == 7


def test_what_was_pinned_may_expire_again() -> None:
    """By the store's own time to live, or by one that is given."""
    clock = Clock()
    core = local(clock)
    pinned = core.ask(Push(ttl_s=None), b"kept")
    lent = core.ask(Push(ttl_s=60), b"lent")

    assert core.ask(Unpin(pinned.ref, 3600)).ttl_s == 3600
    assert core.ask(Unpin(lent.ref)).ttl_s == 60
    clock.pass_ms(HOUR_MS + 1)

    with pytest.raises(Gone, match="expired"):
        core.ask(Pull(pinned.ref))
    assert core.ask(Verify()).problem_count == 0


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


def test_a_filter_that_passes_over_many_goes_on_where_it_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("contextrelay.core.artifacts.records.LIST_LOOKED_AT_MAX", 3)
    core = local(Clock())
    wanted = core.ask(Push(name="wanted"), b"first").ref
    for number in range(7):
        core.ask(Push(name="other"), b"%d" % number)

    pages = [core.ask(List(name="wanted"))]
    while pages[-1].next:
        pages.append(core.ask(List(after=pages[-1].next, name="wanted")))

    assert [artifact.ref for page in pages for artifact in page.artifacts] == [wanted]
    assert len(pages) == 3


def test_what_was_pushed_last_from_a_place_is_never_another() -> None:
    """Each place and each key has its own; when it is gone, that is the answer."""
    clock = Clock()
    core = local(clock)
    here, there = core.ask(Push(name="a.txt"), b"here").ref, core.ask(Push(), b"there").ref
    core.ask(RememberPush(here, "/work\nada"))
    core.ask(RememberPush(there, "/work\nbob"))

    assert [each.ref for each in core.ask(LastPush("/work\nada"))] == [here]
    assert [each.ref for each in core.ask(LastPush("/work\nbob"))] == [there]
    core.ask(Remove(here))
    with pytest.raises(Gone, match=f"a.txt was pushed last from here; {here} was removed"):
        core.ask(LastPush("/work\nada"))
    assert core.ask(LastPush("/elsewhere")) == []
