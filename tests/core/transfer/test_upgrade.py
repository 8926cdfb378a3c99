"""What an interrupted push of an earlier version left is finished at the first open, once."""

from __future__ import annotations

from pathlib import Path

from contextrelay import Relay
from contextrelay.core.schema import RESTORE, RowKind, artifact_log, body_log
from contextrelay.core.stores import Stores
from contextrelay.core.threads.state import read_state
from contextrelay.model.names import channel_log, thread_log
from contextrelay.store.ledger import ONLY, Row, Write
from contextrelay.verbs import ReadState

NOW_MS = 1_790_000_000_000


def stores_of(relay: Relay) -> Stores:
    return relay.transport.stores


def forget_finish(relay: Relay) -> None:
    """Make a store one that the new version has not opened yet."""
    row = Row(RowKind.FINISHED, ONLY, None)
    stores_of(relay).ledger.commit(Write(RESTORE, rows=(row,)))


def name_in_channel(relay: Relay, ref: str) -> None:
    row = Row(RowKind.PENDING, ref, b"%d" % NOW_MS, NOW_MS + 60_000)
    stores_of(relay).ledger.commit(Write(channel_log("news"), rows=(row,)))


def test_the_signal_of_a_stored_push_is_sent_once(tmp_path: Path) -> None:
    """Promise S4."""
    with Relay(tmp_path) as relay:
        ref = relay.push("stored").ref
        name_in_channel(relay, ref)
        name_in_channel(relay, "00000000-0000-4000-8000-000000000000")
        forget_finish(relay)

    for _ in range(2):
        with Relay(tmp_path) as relay:
            assert [each.ref for each in relay.signals("news", after=0).signals] == [ref]
            assert stores_of(relay).ledger.rows(channel_log("news"), RowKind.PENDING, "", 9) == []


def test_a_push_without_its_artifact_is_undone(tmp_path: Path) -> None:
    """Promise R9."""
    with Relay(tmp_path) as relay:
        pushed = relay.push("was cut short")
        ledger = stores_of(relay).ledger
        ledger.drop(artifact_log(pushed.ref), 1)
        forget_finish(relay)

    with Relay(tmp_path) as relay:
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
        assert list(relay.list().artifacts) == []
        assert read_state(stores_of(relay), ReadState(thread), b"")


def test_a_store_of_today_is_looked_at_once(tmp_path: Path) -> None:
    with Relay(tmp_path):
        pass
    with Relay(tmp_path) as relay:
        assert stores_of(relay).ledger.get(RESTORE, RowKind.FINISHED, ONLY) is not None
        ref = relay.push("today").ref
        name_in_channel(relay, ref)  # Nothing looks for such a row any more.

    with Relay(tmp_path) as relay:
        assert relay.signals("news", after=0).signals == []
