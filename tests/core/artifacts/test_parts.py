"""Long bodies: stored in parts under one ref, and read as one body by every verb."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path

import pytest

from contextrelay import Relay, Settings
from contextrelay.client.transport.local import Local
from contextrelay.core.artifacts import bodies
from contextrelay.errors import Broken, Invalid, NotFound
from contextrelay.model.artifact import Artifact
from contextrelay.store.engine import Engine, open_engine
from contextrelay.store.ledger import Write
from contextrelay.verbs import (
    Digest,
    Grep,
    Outline,
    Peek,
    Pull,
    Push,
    Remove,
    Slice,
    Survey,
    Sweep,
    Verify,
)
from tests.core.clock import Clock, local
from tests.store.stutter import Stopped, StutterLedger

LINES = [b"line %d of a long output\n" % index for index in range(9_000)]
WHOLE = b"".join(LINES)
# Within a line, and so that one part is in a blob and one in a row.
CUTS = (0, 100_001, 120_003, 200_000)


@pytest.fixture
def core() -> Local:
    return local(Clock(), open_engine("memory:"))


def push_parts(core: Local) -> list[str]:
    return [core.ask(Push(), WHOLE[start:stop]).ref for start, stop in pairwise(CUTS)]


def push_joined(core: Local) -> Artifact:
    parts = push_parts(core)
    return core.ask(Push(parts=tuple(parts), type="log"), WHOLE[CUTS[-1] :])


def test_parts_are_one_body_for_every_read(core: Local) -> None:
    """Promise X3: output past the limit is stored in parts under one ref."""
    long = push_joined(core)

    assert (long.size_bytes, long.sha256) == (len(WHOLE), hashlib.sha256(WHOLE).hexdigest())
    assert long.preview.line_count == len(LINES)
    assert core.ask(Pull(long.ref)).whole() == WHOLE
    for start, stop in ((0, 10), (100_000, 100_002), (99_000, 200_500), (224_000, 10**9)):
        assert core.ask(Pull(long.ref, start, stop)).whole() == WHOLE[start:stop]
    assert core.ask(Slice(long.ref, lines="8999:9001")).text == b"".join(LINES[-2:]).decode()
    assert "4322: line 4321 of" in core.ask(Grep("line 4321 ", long.ref)).text
    assert "9000 lines" in core.ask(Outline(long.ref)).text
    assert "line 8999" in core.ask(Digest(long.ref)).text
    assert core.ask(Peek(long.ref)).preview.text.startswith("line 0 of")


def test_a_long_body_keeps_its_parts_and_frees_them_with_itself(core: Local) -> None:
    """Promise G1."""
    parts = push_parts(core)
    long = core.ask(Push(parts=tuple(parts)), WHOLE[CUTS[-1] :])

    for ref in parts:
        core.ask(Remove(ref))
    core.ask(Sweep(is_deep=True))
    assert core.ask(Pull(long.ref)).whole() == WHOLE
    assert core.ask(Verify()).problems == []
    assert core.ask(Survey()).body_bytes == core.ask(Verify()).body_bytes == len(WHOLE)

    core.ask(Remove(long.ref))
    assert core.ask(Survey()).body_bytes == 0
    assert list(core.stores.blobs.walk()) == []


def test_a_long_body_that_is_freed_in_part_leaves_no_holds() -> None:
    """Promise G1: wherever its removal was interrupted."""
    for stops_after in range(1, 20):
        engine = open_engine("memory:")
        core = local(Clock(), engine)
        parts = push_parts(core)
        long = core.ask(Push(parts=tuple(parts)), WHOLE[CUTS[-1] :])
        for ref in parts:
            core.ask(Remove(ref))

        stopped = Engine("stutter", StutterLedger(engine.ledger, stops_after), engine.blobs)
        try:
            local(Clock(), stopped).ask(Remove(long.ref))
        except Stopped:
            problems = [each.what for each in core.ask(Verify()).problems]
            assert not [each for each in problems if f"hold by {long.sha256[:12]}" in each]
        else:
            return
    pytest.fail("it is never removed")


def test_only_a_plain_body_can_be_a_part(core: Local) -> None:
    long = push_joined(core)

    with pytest.raises(Invalid, match="stored in parts"):
        core.ask(Push(parts=(long.ref,)), b"more")
    with pytest.raises(Invalid, match="cannot have parts"):
        core.ask(Push(parts=(core.ask(Push(), b"x").ref,), sealed="k1"), b"gAAAA")
    with pytest.raises(NotFound):
        core.ask(Push(parts=("0" * 8 + "-0000-4000-8000-" + "0" * 12,)), b"more")


def test_parts_that_are_not_in_order_are_found(core: Local) -> None:
    """Promise G3: the hash of the long body is that of all its bytes."""
    long = push_joined(core)
    ledger = core.stores.ledger
    at = bodies.location_of(ledger, long.sha256)
    assert at is not None
    swapped = bodies.BodyLocation(at.size_bytes, parts=at.parts[::-1], held_as=at.held_as)
    ledger.commit(Write(bodies.body_log(long.sha256), rows=(bodies.at_row(swapped),)))

    with pytest.raises(Broken):
        core.ask(Pull(long.ref)).whole()
    assert core.ask(Verify()).problem_count == 1


def test_a_long_body_goes_out_and_in_with_its_thread(tmp_path: Path) -> None:
    """Promise T10: also into a store whose limit for one body is lower than its length."""
    with (
        Relay(tmp_path / "a") as relay,
        Relay(tmp_path / "b", settings=Settings(body_bytes_max=70_000)) as other,
    ):
        thread = relay.thread("long")
        parts = tuple(relay.push(WHOLE[i : i + 80_000]).ref for i in range(0, len(WHOLE), 80_000))
        long = relay.transport.ask(Push(parts=parts, thread=thread.id), b"")
        archive = tmp_path / "long.zip"
        thread.export(archive)

        taken = other.import_thread(archive)

        refs = [each.ref for each in taken.artifacts()]
        assert [other.pull(ref) for ref in refs] == [WHOLE]
        assert other.peek(refs[0]).sha256 == long.sha256
        assert other.verify().problems == []
        assert len(other.list().artifacts) == 1
