"""Records: what a log says of a task."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from subprocess import PIPE, Popen
from typing import Any

from msgspec.json import decode

from contextrelay.a2a.record import ARTIFACT, ASKED, STATUS, ArtifactChange, TaskRecord, joined
from contextrelay.model.thread import Event, Numbered
from contextrelay.pipelines.record import RunnerIdentity, plain_runner

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "go"}]}


def numbered(seq: int, type: str, detail: dict[str, Any]) -> Numbered:
    event = Event(
        id=f"e{seq}", type=type, at=datetime(2026, 11, 17, tzinfo=UTC), by="a", detail=detail
    )
    return Numbered(seq=seq, event=event)


def piece(seq: int, text: str, append: bool = True) -> Numbered:
    artifact = {"artifactId": "answer", "parts": [{"text": text}]}
    return numbered(seq, ARTIFACT, {"artifact": artifact, "append": append})


def begun() -> TaskRecord:
    record = TaskRecord("t", "c", "echo")
    record.take(numbered(1, ASKED, {"message": MESSAGE, "runner": plain_runner()}))
    return record


def test_a_piece_stays_as_it_came_when_others_follow_it() -> None:
    """Promise M2."""
    record = begun()
    first = record.take(piece(2, "one ", append=False))
    record.take(piece(3, "two"))

    assert isinstance(first, ArtifactChange)
    assert [part.text for part in first.artifact.parts] == ["one "]
    assert [part.text for part in joined(record.artifacts["answer"].parts)] == ["one two"]


def test_events_that_somebody_else_made_up_are_passed_over() -> None:
    """Promise M2."""
    record = begun()
    made_up: list[dict[str, Any]] = [{}, {"state": "DONE"}, {"state": 7}, {"artifact": []}]

    for seq, detail in enumerate(made_up, 2):
        assert record.take(numbered(seq, STATUS, detail)) is None
        assert record.take(numbered(seq, ARTIFACT, detail)) is None
    assert record.state == "TASK_STATE_WORKING"


def test_a_killed_process_that_nobody_waited_for_yet_is_dead() -> None:
    """Promise M2: a task of a killed server fails also where who started that is slow."""
    code = (
        "import json, time; from contextrelay.pipelines.record import plain_runner\n"
        "print(json.dumps(plain_runner()), flush=True); time.sleep(60)"
    )
    with Popen([sys.executable, "-c", code], stdout=PIPE) as process:
        assert process.stdout is not None
        runner = decode(process.stdout.readline(), type=RunnerIdentity)
        assert runner.is_alive
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

        assert not runner.is_alive
