"""What an interrupted push of an earlier version left is finished at the first open, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from contextrelay import Relay
from contextrelay.core.schema import RESTORE, SWEEP, RowKind, artifact_log, body_log
from contextrelay.core.stores import Stores, clock_ms
from contextrelay.core.sweep import sweep
from contextrelay.core.threads.state import read_state
from contextrelay.core.upgrade import SIGNAL_PENDING_S, finish_pushes
from contextrelay.limits import UNFINISHED_PUSH_S
from contextrelay.model.names import channel_log, thread_log
from contextrelay.store.ledger import ONLY, Ledger, Row, Write
from contextrelay.store.ledger.view import LedgerView
from contextrelay.verbs import ReadState, Sweep

NOW_MS = 1_790_000_000_000


def stores_of(relay: Relay) -> Stores:
    return relay.transport.stores


class OvertakenLedger(LedgerView):
    """A ledger whose first commit comes after what another process does."""

    def __init__(self, inner: Ledger, overtake: Callable[[], object]) -> None:
        super().__init__(inner)
        self._overtake: Callable[[], object] | None = overtake

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        if writes and (overtake := self._overtake) is not None:
            self._overtake = None
            overtake()
        return super().commit(*writes, id=id)


def forget_finish(relay: Relay) -> None:
    """Make a store one that the new version has not opened yet."""
    row = Row(RowKind.FINISHED, ONLY, None)
    stores_of(relay).ledger.commit(Write(RESTORE, rows=(row,)))


def is_finished(relay: Relay) -> bool:
    return stores_of(relay).ledger.get(RESTORE, RowKind.FINISHED, ONLY) is not None


def finish_later(relay: Relay, after_s: int = UNFINISHED_PUSH_S) -> None:
    """Sweep as a process does that has been open for some time."""
    later = replace(stores_of(relay), now_ms=lambda: clock_ms() + after_s * 1000)
    sweep(later, Sweep(), b"")


def name_in_channel(relay: Relay, ref: str, at_ms: int = NOW_MS) -> None:
    row = Row(RowKind.PENDING, ref, b"%d" % at_ms, at_ms + 60_000)
    stores_of(relay).ledger.commit(Write(channel_log("news"), rows=(row,)))


def signals(relay: Relay) -> list[str | None]:
    return [each.ref for each in relay.signals("news", after=0).signals]


def pending(relay: Relay) -> list[str]:
    rows = stores_of(relay).ledger.rows(channel_log("news"), RowKind.PENDING, "", 9)
    return [row.key for row in rows]


def test_the_signal_of_a_stored_push_is_sent_once(tmp_path: Path) -> None:
    """Promise S4."""
    with Relay(tmp_path) as relay:
        ref = relay.push("stored").ref
        name_in_channel(relay, ref)
        name_in_channel(relay, "00000000-0000-4000-8000-000000000000")
        forget_finish(relay)

    for _ in range(2):
        with Relay(tmp_path) as relay:
            assert signals(relay) == [ref]
            assert pending(relay) == []


def test_two_first_opens_at_once_send_the_signal_once(tmp_path: Path) -> None:
    """Promise S4."""
    with Relay(tmp_path) as relay:
        ref = relay.push("stored").ref
        name_in_channel(relay, ref)
        stores = stores_of(relay)
        ledger = OvertakenLedger(stores.ledger, lambda: finish_pushes(stores))

        finish_pushes(replace(stores, engine=replace(stores.engine, ledger=ledger)))

        assert signals(relay) == [ref]
        assert pending(relay) == []


def test_the_signal_of_a_push_in_progress_is_left_to_its_server(tmp_path: Path) -> None:
    """Promise S4. A server of the earlier version may still be running."""
    with Relay(tmp_path) as relay:
        ref = relay.push("stored").ref
        name_in_channel(relay, ref, clock_ms())
        name_in_channel(relay, "00000000-0000-4000-8000-000000000000", clock_ms())
        forget_finish(relay)

    with Relay(tmp_path) as relay:
        assert signals(relay) == []
        assert not is_finished(relay)
        finish_later(relay, SIGNAL_PENDING_S + 1)
        assert signals(relay) == [ref]
        assert not is_finished(relay)  # The other one has an hour to be stored.
        finish_later(relay)
        assert pending(relay) == []
        assert is_finished(relay)
        assert stores_of(relay).ledger.rows(SWEEP, RowKind.CURSOR, "", 9) == []


def test_a_server_that_is_stopped_later_has_its_signal_sent_by_a_sweep(tmp_path: Path) -> None:
    with Relay(tmp_path) as relay:
        ref = relay.push("stored").ref
        name_in_channel(relay, ref)
        assert is_finished(relay)

        finish_later(relay)

        assert signals(relay) == [ref]


@pytest.mark.parametrize("damaged", [b"{", b"\xff\xfe", b'{"ref":1}'])
def test_a_damaged_record_does_not_stop_the_upgrade(tmp_path: Path, damaged: bytes) -> None:
    """It is skipped, and `verify` reports it; the others are finished."""
    with Relay(tmp_path) as relay:
        refs = sorted(relay.push(name).ref for name in ("one", "two"))
        for ref in refs:
            name_in_channel(relay, ref)
        row = Row(RowKind.ARTIFACT, ONLY, damaged)
        cursor = Row(RowKind.CURSOR, ONLY, b"never")
        writes = Write(artifact_log(refs[0]), rows=(row,)), Write(SWEEP, rows=(cursor,))
        stores_of(relay).ledger.commit(*writes)
        forget_finish(relay)

    with Relay(tmp_path) as relay:
        assert is_finished(relay)
        assert signals(relay) == refs[1:]
        assert stores_of(relay).ledger.due(clock_ms(), 9) == []
        assert [each.ref for each in relay.verify().problems] == refs[:1]


def test_a_push_without_its_artifact_is_undone(tmp_path: Path) -> None:
    """Promise R9."""
    with Relay(tmp_path) as relay:
        pushed = relay.push("was cut short")
        ledger = stores_of(relay).ledger
        ledger.drop(artifact_log(pushed.ref), 1)
        forget_finish(relay)

    with Relay(tmp_path) as relay:
        assert not is_finished(relay)  # It may be in progress.
        finish_later(relay)
        assert is_finished(relay)
        assert relay.verify().problem_count == 0
        ledger = stores_of(relay).ledger
        assert ledger.get(body_log(pushed.sha256), RowKind.AT, ONLY) is None
        assert list(relay.list().artifacts) == []


def test_an_artifact_that_its_thread_never_heard_of_goes(tmp_path: Path) -> None:
    with Relay(tmp_path) as relay:
        thread = relay.new_thread("work").id
        artifact = relay.push("for a thread", thread=thread)
        ledger = stores_of(relay).ledger
        ledger.commit(Write(thread_log(thread), rows=(Row(RowKind.ARTIFACT, artifact.ref, None),)))
        forget_finish(relay)

    with Relay(tmp_path) as relay:
        finish_later(relay)
        assert list(relay.list().artifacts) == []
        assert read_state(stores_of(relay), ReadState(thread), b"")


def test_a_store_of_today_is_looked_at_once(tmp_path: Path) -> None:
    with Relay(tmp_path):
        pass
    with Relay(tmp_path) as relay:
        assert is_finished(relay)
        ref = relay.push("today").ref
        name_in_channel(relay, ref)  # No open looks for such a row any more.

    with Relay(tmp_path) as relay:
        assert relay.signals("news", after=0).signals == []
