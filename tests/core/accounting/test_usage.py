"""Usage: what readers received is written in few commits, and a failed one loses no counts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from contextrelay.client.transport.local import Local
from contextrelay.core.accounting.usage import usage_of
from contextrelay.errors import Full, Unconfirmed
from contextrelay.store.engine import open_engine
from contextrelay.store.ledger import Ledger, Write
from contextrelay.store.ledger.memory import MemoryLedger
from contextrelay.verbs import Outline, Peek, Push, ReadSavings, Remove, Verify
from tests.core.clock import Clock, local
from tests.store.stutter import StutterLedger


class FullLedger(MemoryLedger):
    """An engine whose disk may be too full for a counter."""

    is_full = False

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        if self.is_full:
            raise Full("the disk is full", "free some")
        return super().commit(*writes, id=id)


class UnconfirmedLedger(MemoryLedger):
    """An engine that counts, but may not say so."""

    is_quiet = False

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        heads = super().commit(*writes, id=id)
        if self.is_quiet:
            raise Unconfirmed("no replica confirmed the write", "try again")
        return heads


def core_on(ledger: Ledger) -> Local:
    return local(Clock(), replace(open_engine("memory:"), ledger=ledger))


def test_a_look_writes_its_row_and_all_counters_at_once() -> None:
    """Promise U1."""
    ledger = StutterLedger(MemoryLedger(), 1_000)
    core = core_on(ledger)
    ref = core.ask(Push(name="a.md", created_by="someone"), b"# A\n\nwords of it\n").ref
    core.ask(Outline(ref))
    usage_of(core.stores).write()
    before = ledger.writes_done

    core.ask(Peek(ref))
    core.ask(Peek(ref))
    usage_of(core.stores).write()

    assert ledger.writes_done == before + 1
    assert core.ask(ReadSavings()).answers == 3


@pytest.mark.parametrize("look", [Peek, Outline])
def test_a_first_look_of_a_short_command_is_one_commit(look: type[Peek | Outline]) -> None:
    """Promise U1: the cached outline, the rows of the artifact and all counters together."""
    ledger = StutterLedger(MemoryLedger(), 1_000)
    core = core_on(ledger)
    ref = core.ask(Push(name="a.md", created_by="someone"), b"# A\n\nwords of it\n").ref
    before = ledger.writes_done

    core.ask(look(ref))
    core.close()

    assert ledger.writes_done == before + 1
    assert ledger.tally("savings")["answers"] == 1


def test_counts_are_written_although_an_outline_is_out_of_date() -> None:
    """Promise U1: the body was freed before its outline was written."""
    core = core_on(MemoryLedger())
    ref = core.ask(Push(name="a.md"), b"# A\n\nwords of it\n").ref
    core.ask(Outline(ref))
    core.ask(Remove(ref))

    usage_of(core.stores).write()

    assert core.ask(ReadSavings()).answers == 1
    assert core.ask(Verify()).problems == []


def test_counters_that_cannot_be_written_are_written_the_next_time() -> None:
    """Promise U1."""
    ledger = FullLedger()
    core = core_on(ledger)
    ref = core.ask(Push(name="a.md"), b"# A\n\nwords of it\n").ref
    core.ask(Peek(ref))
    ledger.is_full = True
    with pytest.raises(Full):
        usage_of(core.stores).write()
    core.ask(Peek(ref))
    with pytest.raises(Full):
        usage_of(core.stores).write()

    ledger.is_full = False

    assert core.ask(ReadSavings()).answers == 2
    assert core.ask(ReadSavings()).whole.tokens > 0


def test_counters_that_were_written_without_a_reply_are_counted_once() -> None:
    """Promise U1."""
    ledger = UnconfirmedLedger()
    core = core_on(ledger)
    ref = core.ask(Push(name="a.md"), b"# A\n\nwords of it\n").ref
    core.ask(Peek(ref))
    ledger.is_quiet = True
    for _ in range(2):
        with pytest.raises(Unconfirmed):
            usage_of(core.stores).write()
        core.ask(Peek(ref))

    ledger.is_quiet = False

    assert core.ask(ReadSavings()).answers == 3
