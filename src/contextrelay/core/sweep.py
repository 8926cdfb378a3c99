"""Sweeps: expire due rows, free bodies without holds, repair what a crash left.

An engine deletes nothing by itself: rows appear on the due list, and their fate is decided here.
A sweep can stop anywhere; the next one continues.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from contextrelay.core import capabilities
from contextrelay.core.artifacts import bodies
from contextrelay.core.artifacts.catalog import trim_added, unindex_write
from contextrelay.core.artifacts.lifetime import replace_with_tombstones, settle
from contextrelay.core.artifacts.records import find_readable, find_tombstone, has_expired
from contextrelay.core.channels import apply_retention
from contextrelay.core.registry import answers
from contextrelay.core.schema import (
    ARTIFACTS,
    BODIES,
    UNREADABLE,
    RowKind,
    artifact_log,
    log_pages,
    split_log,
    tenants,
    walk_logs,
    walk_rows,
)
from contextrelay.core.spaces import space_of
from contextrelay.core.stores import Stores, with_reserve
from contextrelay.core.upgrade import finish_pushes, send_pending
from contextrelay.errors import Broken
from contextrelay.limits import PAGE_ROWS_MAX, TOMBSTONE_S, UNFINISHED_PUSH_S
from contextrelay.model.artifact import Tombstone, to_ms
from contextrelay.model.names import CHANNELS, THREADS, thread_log
from contextrelay.model.reports import SweepReport
from contextrelay.store.ledger import Row, Stale, Write
from contextrelay.verbs import Body, Sweep


@answers(Sweep)
def sweep(stores: Stores, verb: Sweep, body: Body) -> SweepReport:
    report = with_reserve(stores, lambda: _due(stores, verb.items_max))
    for tenant in (None, *tenants(stores.ledger)):
        space = space_of(stores, tenant)
        trim_added(space.ledger)
    if verb.is_deep:
        report = _leftovers(stores, report)
        from contextrelay.core.search_index import (
            maintain_all,
        )  # These modules are rarely needed, and slow to import.

        maintain_all(stores)
    if stores.engine.reserve is not None:
        stores.engine.reserve.refill()
    return report


def _due(stores: Stores, items_max: int) -> SweepReport:
    """Process the rows that are due, a page at a time; return what was done."""
    report = SweepReport()
    left = items_max
    page: list[tuple[str, Row]] = []
    while left > 0:
        before, page = page, stores.ledger.due(stores.now_ms(), min(PAGE_ROWS_MAX, left))
        if not page:
            return report
        if page == before:
            break  # The remaining rows are damaged; `verify` reports them.
        left -= len(page)
        by_tenant: dict[str | None, list[tuple[str, Row]]] = {}
        for log, row in page:
            tenant, own_log = split_log(log)
            by_tenant.setdefault(tenant, []).append((own_log, row))
        for tenant, found in by_tenant.items():
            report = _page(space_of(stores, tenant), found, report)
    return _plus(report, is_done=not stores.ledger.due(stores.now_ms(), 1))


def _page(stores: Stores, page: list[tuple[str, Row]], report: SweepReport) -> SweepReport:
    now_ms = stores.now_ms()
    refs = {
        kind: [log.removeprefix(ARTIFACTS) for log, row in page if row.kind == kind]
        for kind in (RowKind.ARTIFACT, RowKind.TOMBSTONE)
    }
    artifacts = [
        each for ref in refs[RowKind.ARTIFACT] if (each := find_readable(stores.ledger, ref))
    ]
    freed = replace_with_tombstones(
        stores, [each for each in artifacts if has_expired(each, now_ms)], "expired"
    )
    tombstones: list[Tombstone] = []
    for ref in refs[RowKind.TOMBSTONE]:
        with suppress(Broken):
            tombstones += [each] if (each := find_tombstone(stores.ledger, ref)) else []
    unsettled = [tombstone for tombstone in tombstones if not tombstone.is_released]
    sizes = settle(stores, unsettled)
    # Check the time as well as `is_released`, because another removal may have released its own
    # tombstone after this row was due.
    old = [
        tombstone
        for tombstone in tombstones
        if (tombstone.is_released and to_ms(tombstone.gone_at) + TOMBSTONE_S * 1000 <= now_ms)
    ]
    for tombstone in old:
        _forget(stores, tombstone)
    for log, row in page:
        with suppress(Broken, *UNREADABLE, ValueError):  # A damaged row must not end the sweep.
            _end(stores, log, row, now_ms)
    for log, row in page:
        if log.startswith(CHANNELS):
            apply_retention(stores, log, row)
    return _plus(
        report,
        expired=freed.artifacts,
        freed_bodies=freed.bodies + len(sizes),
        freed_bytes=freed.size_bytes + sum(sizes),
        forgotten_tombstones=len(old),
        mended=len(unsettled),
    )


def _end(stores: Stores, log: str, row: Row, now_ms: int) -> None:
    """Process a due row that concerns only its own log."""
    if row.kind == RowKind.FREED:
        bodies.forget(stores, log)
    elif row.kind == RowKind.PENDING:
        # A server of an earlier version was stopped during a push.
        send_pending(stores, log, row)
    elif row.kind == RowKind.CURSOR:
        finish_pushes(stores)
    elif row.kind == RowKind.RESULT:
        capabilities.forget_cached(stores, log)
    elif row.kind in (RowKind.CLOSED, RowKind.ASKED, RowKind.KEY, RowKind.BUCKET):
        _drop(stores, log)
    elif row.kind == RowKind.ONCE:
        stores.ledger.commit(Write(log, rows=(Row(RowKind.ONCE, row.key, None),)))
    elif row.kind == RowKind.SESSION:
        # Import these modules late: they load packing and search, which a push does not need.
        from contextrelay.core.packing import forget_ended

        forget_ended(stores.ledger, log, now_ms)
    elif row.kind == RowKind.GONE:
        from contextrelay.core.threads.threads import (
            release_removed,
        )

        release_removed(stores, log.removeprefix(THREADS))
    elif row.kind == RowKind.ENDED:
        from contextrelay.core.threads.threads import remove_ended

        remove_ended(stores, log.removeprefix(THREADS))


def _forget(stores: Stores, tombstone: Tombstone) -> None:
    log = artifact_log(tombstone.ref)
    stores.ledger.commit(
        unindex_write(tombstone.ref, to_ms(tombstone.created_at)),
        *(
            Write(thread_log(row.key), rows=(Row(RowKind.ARTIFACT, tombstone.ref, None),))
            for row in walk_rows(stores.ledger, log, RowKind.HOLDER)
        ),
    )
    _drop(stores, log)


def _drop(stores: Stores, log: str) -> None:
    with suppress(Stale):  # Another sweep was faster, or the log is in use again.
        stores.ledger.drop(log, expect=stores.ledger.last(log))


# Bodies without holds, blobs without pointers


def _leftovers(stores: Stores, report: SweepReport) -> SweepReport:
    """Delete drafts and blobs of interrupted pushes, and free bodies without holds.

    A body is stored in one write with its first hold. So a body without holds does not belong to a
    push in progress: it was left when its last hold was removed.
    """
    before_ms = stores.now_ms() - UNFINISHED_PUSH_S * 1000
    drafts = stores.blobs.tidy(before_ms)
    for log in walk_logs(stores.ledger, BODIES):
        with suppress(Broken):
            bodies.release_leftovers(stores, log.removeprefix(BODIES))
    freed: list[int] = []
    for logs in log_pages(stores.ledger, BODIES):
        unheld = bodies.free_each(stores, {log.removeprefix(BODIES): () for log in logs})
        freed += unheld.values()
    for blob in stores.blobs.walk():
        with suppress(Broken):
            is_free = blob.written_ms < before_ms and bodies.free_leftover(stores, blob.name)
            freed += [blob.size_bytes] if is_free else []
    return _plus(
        report, mended=drafts + len(freed), freed_bodies=len(freed), freed_bytes=sum(freed)
    )


def _plus(report: SweepReport, is_done: bool | None = None, **amounts: int) -> SweepReport:
    added = {name: getattr(report, name) + amount for name, amount in amounts.items()}
    return replace(report, is_done=report.is_done if is_done is None else is_done, **added)
