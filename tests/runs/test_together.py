"""Many runs on one thread at once, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from contextrelay import Relay
from tests.rigs import length, rig

PROCESSES = 8
WORKER = """
import sys
from contextrelay import Relay
from contextrelay.runs.providers.echo import Echo, ScriptedCall, ScriptLine

folder, thread, name, runs = sys.argv[1:]
with Relay(folder) as relay:
    handle = relay.thread(thread)
    for index in range(int(runs)):
        words = f"{name}-{index}"
        noted = ScriptedCall("relay_state", {"facts": [{"text": words}]})
        handle.run(words, Echo(script=[ScriptLine("", (noted,)), ScriptLine(f"answer {words}")]))
"""


@rig
def test_runs_at_once_are_all_answered_each_with_a_version_of_its_own(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Promises X1, T4: 100 runs by 8 processes: 100 answers, every version once."""
    each = length(thin=2, long=13, full=13)
    with Relay(tmp_path / "store") as relay:
        thread = relay.new_thread("together").id
    words = [sys.executable, "-c", WORKER, str(tmp_path / "store"), thread]

    running = [
        subprocess.Popen([*words, f"p{index}", str(each)], stderr=subprocess.PIPE)
        for index in range(PROCESSES)
    ]
    errors = [process.communicate(timeout=600)[1].decode() for process in running]

    if any(process.returncode for process in running):
        pytest.fail("\n".join(errors))
    runs = PROCESSES * each
    record_property("runs", runs)
    expected = sorted(f"p{number}-{index}" for number in range(PROCESSES) for index in range(each))
    with Relay(tmp_path / "store") as relay:
        handle = relay.thread(thread)
        events = [found.event for found in handle.tail(timeout_s=0)]
        versions = [e.detail["version"] for e in events if e.type == "state.patch.applied"]
        assert versions == list(range(2, runs + 2))
        state = handle.state()
        assert sorted(fact["value"] for fact in state["facts"]) == expected
        assert len({fact["id"] for fact in state["facts"]}) == runs
        finished = [e.detail["ref"] for e in events if e.type == "run.finished"]
        answers = sorted(relay.pull(ref).decode() for ref in finished)
        assert answers == [f"answer {text}" for text in expected]
        assert relay.verify().problems == []
