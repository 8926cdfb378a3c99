"""Verification: compute every hash again, follow every reference from both ends; a survey."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from msgspec import convert

from contextrelay.core.access import check_key
from contextrelay.core.artifacts import bodies
from contextrelay.core.artifacts.catalog import entries, is_indexed
from contextrelay.core.artifacts.holds import held
from contextrelay.core.artifacts.records import (
    description_hash,
    find,
    find_tombstone,
    lease,
)
from contextrelay.core.channels import decoded
from contextrelay.core.registry import answers
from contextrelay.core.schema import (
    ARTIFACTS,
    BODIES,
    RESTORE,
    UNREADABLE,
    RowKind,
    artifact_log,
    fact_pages,
    walk_facts,
    walk_logs,
    walk_rows,
)
from contextrelay.core.spaces import views
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import find_record, wrong_snapshots
from contextrelay.errors import Broken, Gone, NotFound
from contextrelay.limits import PAGE_ROWS_MAX, PROBLEMS_MAX
from contextrelay.model.artifact import Artifact, Tombstone, to_ms
from contextrelay.model.names import CHANNELS, KEYS, THREADS, thread_log
from contextrelay.model.reports import LedgerReport, Problem, StoreReport, VerifyReport
from contextrelay.model.thread import Event, ThreadRecord
from contextrelay.state import event_chain
from contextrelay.store.ledger import ONLY, Reads, current_token
from contextrelay.verbs import Body, CheckLedger, Survey, TryBlob, Verify

_GC = "repair it: relay gc"
_FINISH = "run it again, or discard it: relay restore --abandon"
_RESTORE = "restore a backup: relay restore FILE"


class _Findings:
    """The counts and problems found so far."""

    def __init__(self) -> None:
        self.artifacts = self.bodies = self.body_bytes = self.events = self.problem_count = 0
        self.unchecked = 0
        self.problems: list[Problem] = []

    def add(self, what: str, ref: str | None = None, next_step: str = _RESTORE) -> None:
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(what=what, ref=ref, next_step=next_step))

    @contextmanager
    def of(self, ref: str) -> Generator[None]:
        """Report a read error of one item as a problem, and continue with the others."""
        try:
            yield
        except Broken as error:
            self.add(error.message, ref)
        except (*UNREADABLE, ValueError) as error:
            self.add(f"cannot read a record of it: {error}", ref)


@answers(Verify)
def verify(stores: Stores, verb: Verify, body: Body) -> VerifyReport:
    return check_store(stores)


@answers(CheckLedger)
def check_ledger(stores: Stores, verb: CheckLedger, body: Body) -> LedgerReport:
    return LedgerReport(problems=stores.ledger.check(), advice=stores.engine.advise())


@answers(TryBlob)
def try_blob(stores: Stores, verb: TryBlob, body: Body) -> bool:
    tried = stores.random_bytes(_TRIED_BYTES)
    name = f"{hashlib.sha256(tried).hexdigest()}-{stores.random_bytes(8).hex()}"
    with stores.blobs.draft() as draft:
        draft.write(tried)
        draft.keep(name)
    is_same = b"".join(stores.blobs.read(name, 0, len(tried))) == tried
    stores.blobs.delete(name)
    return is_same


_TRIED_BYTES = 100_000


def check_store(stores: Stores) -> VerifyReport:
    """Check a whole store. It is not locked, or the caller holds the lock."""
    findings = _Findings()
    for line in stores.ledger.check():
        findings.add(line)
    if stores.ledger.locked_by() != current_token():
        findings.add("a restore or migration into this store is not finished", next_step=_FINISH)
        return convert(findings, VerifyReport, from_attributes=True)
    if stores.ledger.get(RESTORE, RowKind.UNFINISHED, ONLY) is not None:
        findings.add("a restore by an earlier version was interrupted: content may be missing")
    try:
        with stores.ledger.snapshot() as view, stores.blobs.hold():
            for log in walk_logs(view, BODIES):
                with findings.of(f"body {log.removeprefix(BODIES)[:12]}"):
                    _check_body(stores, view, log.removeprefix(BODIES), findings)
            for log in walk_logs(view, KEYS):
                with findings.of(log):
                    check_key(view, log)
            for _, space in views(view):
                _check_space(space, findings)
    except Broken as error:
        findings.add(f"cannot continue: {error.message}")
    return convert(findings, VerifyReport, from_attributes=True)


def _check_space(view: Reads, findings: _Findings) -> None:
    """Check one tenant's space, or the store's own."""
    for log in walk_logs(view, ARTIFACTS):
        with findings.of(ref := log.removeprefix(ARTIFACTS)):
            _check_artifact(view, ref, findings)
    for log in walk_logs(view, THREADS):
        with findings.of(thread := log.removeprefix(THREADS)):
            _check_thread(view, thread, findings)
    for log in walk_logs(view, CHANNELS):
        with findings.of(log):
            _check_channel(view, log, findings)


def _check_artifact(view: Reads, ref: str, findings: _Findings) -> None:
    try:
        artifact = find(view, ref)
        tombstone = find_tombstone(view, ref)
    except Broken as error:
        findings.add(error.message, ref)
        return
    if artifact is None and tombstone is None:
        return  # The push was interrupted and never acknowledged.
    _check_chain(view, artifact_log(ref), ref, findings)
    _check_description(view, artifact, tombstone, ref, findings)
    if artifact is not None and artifact.ref != ref:
        findings.add(f"its description is of another artifact: {artifact.ref}", ref)
    elif artifact is not None:
        findings.artifacts += 1
        _check_references(view, artifact, findings)


def _check_description(
    view: Reads,
    artifact: Artifact | None,
    tombstone: Tombstone | None,
    ref: str,
    findings: _Findings,
) -> None:
    """Compare an artifact's description with the events of its life."""
    said: dict[str, Any] = {}
    for event in _events(view, artifact_log(ref), b'"type":"artifact.'):
        said |= event.detail
    described = artifact or tombstone
    assert described is not None
    kept = said.get("tombstone" if artifact is None else "description")
    if kept is None:
        findings.unchecked += 1
    elif kept != description_hash(described):
        findings.add("its description was changed", ref)
    if artifact is None or "expires_at" not in said or lease(artifact) == said["expires_at"]:
        return
    # Imported artifacts do not expire, because their thread holds them.
    if artifact.expires_at is not None or artifact.thread is None:
        findings.add("its expiry time was changed", ref)


def _events(view: Reads, log: str, sign: bytes) -> Iterator[Event]:
    """Yield the events of a log whose encoded text contains `sign`."""
    for fact in walk_facts(view, log):
        if sign in fact.body:
            try:
                yield event_chain.decode(fact.body)
            except UNREADABLE:
                continue  # The check of the hash chain reports this event.


def _check_references(view: Reads, artifact: Artifact, findings: _Findings) -> None:
    log = bodies.body_log(artifact.sha256)
    if view.get(log, RowKind.AT, ONLY) is None:
        findings.add(f"its body {artifact.sha256[:12]} is missing", artifact.ref)
    if view.get(log, RowKind.HOLD, artifact.ref) is None:
        findings.add(f"it has no hold on its body {artifact.sha256[:12]}", artifact.ref)
    if not is_indexed(view, artifact.ref, to_ms(artifact.created_at)):
        findings.add("it is missing in the index", artifact.ref)


def _check_chain(view: Reads, log: str, ref: str, findings: _Findings) -> None:
    previous = b""
    seq = 0
    for page in fact_pages(view, log):
        broken = event_chain.first_break((fact.body for fact in page), previous)
        if broken is not None:
            findings.add(f"event {page[broken].seq} was changed or is missing", ref)
            return
        findings.events += len(page)
        seq, previous = page[-1].seq, page[-1].body
    if seq != view.last(log):
        findings.add(f"events after {seq} are missing", ref)


def _check_thread(view: Reads, thread: str, findings: _Findings) -> None:
    """Check the chain of a thread's events, and its snapshots and holds."""
    try:
        record = find_record(view, thread)
    except (NotFound, Gone):
        return  # The thread was never created, or it was removed and its events are trimmed.
    _check_chain(view, thread_log(thread), thread, findings)
    _check_record(view, record, thread, findings)
    try:
        for version in wrong_snapshots(view, thread):
            findings.add(f"its snapshot of v{version} does not match its events", thread)
        for ref, _ in held(view, thread):
            if find(view, ref) is None and find_tombstone(view, ref) is None:
                findings.add(f"it holds {ref}, which does not exist", thread)
    except Broken as error:
        findings.add(error.message, thread)


def _check_record(view: Reads, record: ThreadRecord, thread: str, findings: _Findings) -> None:
    """Compare a thread's fixed record with the event of its creation in this store."""
    begun: Event | None = None
    is_closed = False
    for event in _events(view, thread_log(thread), b'"type":"thread.'):
        if event.type in ("thread.created", "thread.imported"):
            begun, is_closed = event, False
        is_closed = is_closed or event.type == "thread.closed"
    if begun is None or "name" not in begun.detail:
        findings.unchecked += 1
        return
    said = (thread, begun.detail["name"], begun.detail.get("from"), begun.by, is_closed)
    is_now_closed = record.status == "closed"
    fixed = (record.thread_id, record.name, record.forked_from, record.created_by, is_now_closed)
    if said != fixed:
        findings.add("its description was changed", thread)


def _check_channel(view: Reads, log: str, findings: _Findings) -> None:
    """Check that the signals of a channel can be read, and that none between them is missing."""
    channel = log.removeprefix(CHANNELS)
    seq = 0
    for fact in walk_facts(view, log):
        if seq and fact.seq != seq + 1:
            findings.add(f"signals after {seq} of channel {channel!r} are missing")
        try:
            decoded(fact, channel)
        except Broken as error:
            findings.add(error.message)
        seq = fact.seq


def _check_body(stores: Stores, view: Reads, sha256: str, findings: _Findings) -> None:
    log = bodies.body_log(sha256)
    held_by = [row.key for row in walk_rows(view, log, RowKind.HOLD)]
    holders = [each for each in held_by if not bodies.BLOB_NAME.fullmatch(each)]
    for name in set(held_by).difference(holders):
        if not bodies.is_held_by_body(view, name):
            findings.add(f"body {sha256[:12]} has an unneeded hold by {name[:12]}", None, _GC)
    for ref in holders:
        if all(_is_held_for_nothing(space, ref) for _, space in views(view)):
            findings.add(f"body {sha256[:12]} has an unneeded hold by {ref}", ref, _GC)
    if view.get(log, RowKind.AT, ONLY) is None:
        return
    findings.bodies += 1
    try:
        at = bodies.location_of(view, sha256)
        findings.body_bytes += 0 if at is None else at.own_bytes
        for _ in bodies.checked_chunks(view, stores.blobs, sha256):
            pass
    except Broken as error:
        for ref in holders:
            findings.add(f"its body {sha256[:12]}: {error.message}", ref)


def _is_held_for_nothing(view: Reads, ref: str) -> bool:
    try:
        tombstone = find_tombstone(view, ref)
        return find(view, ref) is None and (tombstone is None or tombstone.is_released)
    except Broken:
        return False  # The check of the artifact itself reports this problem.


# Survey


@answers(Survey)
def survey(stores: Stores, verb: Survey, body: Body) -> StoreReport:
    ledger = stores.ledger
    kept: list[bodies.BodyLocation] = []
    for log in walk_logs(ledger, BODIES):
        with suppress(Broken):  # If the signals are damaged, `verify` reports it.
            at = bodies.location_of(ledger, log.removeprefix(BODIES))
            kept += [] if at is None else [at]
    return StoreReport(
        address=stores.engine.address,
        engine=type(stores.ledger).__name__.removesuffix("Ledger").lower(),
        artifacts=sum(1 for _, view in views(stores.ledger) for _ in entries(view)),
        bodies=len(kept),
        body_bytes=sum(at.own_bytes for at in kept),
        due=len(stores.ledger.due(stores.now_ms(), PAGE_ROWS_MAX)),
    )
