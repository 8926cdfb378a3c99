"""The survey: what a store is and holds, in numbers."""

from __future__ import annotations

from contextrelay.core.access.tenants import views
from contextrelay.core.answers import answers
from contextrelay.core.artifacts.bodies import where
from contextrelay.core.artifacts.catalog import entries
from contextrelay.core.schema import BODIES, walk_logs
from contextrelay.core.stores import Stores
from contextrelay.limits import PAGE_ROWS_MAX
from contextrelay.model.reports import StoreReport
from contextrelay.wire.verbs import Body, Survey


@answers(Survey)
def survey(stores: Stores, verb: Survey, body: Body) -> StoreReport:
    ledger = stores.ledger
    kept = [
        at for log in walk_logs(ledger, BODIES) if (at := where(ledger, log.removeprefix(BODIES)))
    ]
    return StoreReport(
        address=stores.engine.address,
        engine=type(stores.ledger).__name__.removesuffix("Ledger").lower(),
        artifacts=sum(1 for _, view in views(stores.ledger) for _ in entries(view)),
        bodies=len(kept),
        body_bytes=sum(at.own_bytes for at in kept),
        due=len(stores.ledger.due(stores.now_ms(), PAGE_ROWS_MAX)),
    )
