"""A pipeline's process is killed at random moments, and resumed: it ends as if undisturbed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Relay
from contextrelay.client.thread import Thread
from contextrelay.documents.values import is_list
from contextrelay.limits import LIST_ITEMS_MAX
from contextrelay.model.pipeline import PipelineRun
from contextrelay.model.ref import is_ref
from contextrelay.model.run import FINAL
from contextrelay.pipelines import runs
from contextrelay.pipelines.steps.child import end_leftovers
from tests.rigs import length, rig

INNER = """\
name: inner
inputs: {word: {type: text}}
steps:
  a: {exec: 'echo $RELAY_STEP >> "$WORD.ran"; echo inner "$WORD"', env: {WORD: "{{inputs.word}}"}}
  b:
    exec: 'echo $RELAY_STEP >> "$WORD.ran"; echo "$BEFORE"'
    env: {WORD: "{{inputs.word}}", BEFORE: "{{steps.a.preview}}"}
"""
OUTER = """\
name: outer
inputs: {topic: orders}
steps:
  list: {exec: 'echo $RELAY_STEP >> list.ran; printf "1\\n2\\n3\\n4\\n5\\n"'}
  each:
    foreach: "{{steps.list.ref}}"
    exec: 'echo $RELAY_STEP >> "$ITEM.ran"; sleep 0.03; echo "$ITEM"'
    env: {ITEM: "{{item}}"}
  plan: {prompt: "Plan {{inputs.topic}}", model: echo, cache: off}
  count: {python: "work:count", args: {refs: "{{steps.each.refs}}"}}
  never: {exec: [touch, never.ran], when: steps.count.json.count > 5}
  bad: {exec: 'echo $RELAY_STEP >> bad.ran; exit 3', on_failure: continue, needs: list}
  both: {pipeline: inner.yaml, foreach: [x, y], inputs: {word: "{{item}}"}, needs: count}
  large: {exec: 'echo $RELAY_STEP >> large.ran; head -c 300000 /dev/zero', needs: plan}
  last: {prompt: "Join {{steps.both.json}} {{steps.large.status}}", model: echo, needs: [never, bad]}
"""  # noqa: E501
WORK = """\
import os
def count(refs):
    with open("count.ran", "a") as file:
        file.write(os.environ["RELAY_STEP"] + "\\n")
    return {"count": len(refs)}
"""


def folder_for(place: Path) -> Path:
    place.mkdir()
    for name, text in (("inner.yaml", INNER), ("outer.yaml", OUTER), ("work.py", WORK)):
        (place / name).write_text(text)
    return place


def started(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "contextrelay", "pipeline", *words],
        cwd=folder,
        env={**os.environ, "RELAY_HOME": str(folder / "store")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


KILLS = length(2, 5, 5)


@rig
@pytest.mark.parametrize("batch", range(length(1, 5, 10)))
def test_a_run_killed_at_random_moments_ends_as_an_undisturbed_one(
    batch: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Promise X4."""
    chance = random.Random(17 + batch)
    calm = folder_for(tmp_path / "calm")
    began_s = time.monotonic()
    assert started(calm, "run", "outer.yaml").wait(120) == 0
    duration_s = time.monotonic() - began_s
    expected = shape(calm)
    kills = again = 0
    for number in range(KILLS):
        folder = folder_for(tmp_path / f"killed-{number}")
        running = started(folder, "run", "outer.yaml")
        time.sleep(chance.uniform(0.2, 1.0) * duration_s)
        running.kill()
        running.wait()
        kills += 1
        again += goes_on(folder)

        assert shape(folder) == expected
    record_property("kills", kills)
    record_property("steps run twice", again)


def goes_on(folder: Path) -> int:
    """Resume the run of a folder; how often a step that was not over was run again."""
    with Relay(folder / "store") as relay:
        found = runs.list_runs(relay)
        if not found:  # It was killed before it had begun.
            assert started(folder, "run", "outer.yaml").wait(120) == 0
            return 0
        run = found[0].run
        steps = runs.show(relay, run).steps
        over = {key for key, view in steps.items() if view.status in FINAL}
    end_leftovers(run)
    before = ran(folder)
    assert started(folder, "resume", run).wait(120) == 0
    after = ran(folder)
    assert {key: after[key] for key in over} == {key: before[key] for key in over}
    assert end_leftovers(run) == 0
    return sum(after.values()) - len(after)


def ran(folder: Path) -> Counter[str]:
    """How often each step was begun, as its own notes say."""
    return Counter(line for file in folder.glob("*.ran") for line in file.read_text().split())


def shape(folder: Path) -> dict[str, Any]:
    """How a run ended, without ids and times: statuses, results by content, the thread's state."""
    with Relay(folder / "store") as relay:
        (listed,) = runs.list_runs(relay)
        run = runs.show(relay, listed.run)
        thread = Thread(relay, run.run)
        events = [each.event for each in thread.events(limit=LIST_ITEMS_MAX)]
        ends = Counter(
            each.detail["step"]
            for each in events
            if each.type == "run.step" and each.detail["status"] in FINAL
        )
        assert set(ends.values()) == {1}
        state = thread.state()
        return {
            "status": run.status,
            "steps": {key: _step(relay, run, key) for key in sorted(run.steps)},
            "artifacts": sorted(
                (each["type"], each.get("name", "")) for each in state["artifacts"]
            ),
            "facts": state["facts"],
            "held": len(thread.artifacts()),
        }


def _step(relay: Relay, run: PipelineRun, key: str) -> tuple[str, str, str]:
    view = run.steps[key]
    body = "" if view.ref is None else _plain(relay, relay.pull(view.ref).decode())
    return view.status, body, view.reason


def _plain(relay: Relay, body: str) -> str:
    """A result in which refs are what they lead to."""
    try:
        document: Any = json.loads(body)
    except ValueError:
        return " ".join(word for word in body.split() if not is_ref(word.strip('",[]')))[:200]
    if is_list(document):
        return json.dumps([_plain(relay, relay.pull(ref).decode()) for ref in document])
    return body
