"""The survey: what a store is and holds, in numbers."""

from __future__ import annotations

from contextrelay.core.access.tenants import views
from contextrelay.core.answer import answers
from contextrelay.core.artifacts.bodies import where
from contextrelay.core.artifacts.catalog import entries
from contextrelay.core.maintenance.verify import all_logs
from contextrelay.core.stores import Stores
from contextrelay.limits import PAGE_ROWS_MAX
from contextrelay.model.reports import StoreReport
from contextrelay.wire.verbs import Body, Survey


@answers(Survey)
def survey(stores: Stores, verb: Survey, body: Body) -> StoreReport:
    kept = [at for log in all_logs(stores.ledger, "b/") if (at := where(stores.ledger, log[2:]))]
    return StoreReport(
        address=stores.engine.address,
        engine=type(stores.ledger).__name__.removesuffix("Ledger").lower(),
        artifacts=sum(1 for _, view in views(stores.ledger) for _ in entries(view)),
        bodies=len(kept),
        body_bytes=sum(at.size_bytes for at in kept),
        due=len(stores.ledger.due(stores.now_ms(), PAGE_ROWS_MAX)),
    )
