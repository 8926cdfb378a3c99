"""Runs: decided, cancelled, retried, resumed, built in code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from contextrelay import Conflict, Invalid, NotFound, Pipeline, Relay
from contextrelay.model.pipeline import PipelineRun, StepView
from contextrelay.pipelines import pipeline, runs
from contextrelay.pipelines.approval import ApprovalDecision
from contextrelay.pipelines.run import Threads
from contextrelay.pipelines.steps.child import end_leftovers
from contextrelay.verbs import FinishStep
from tests.pipelines.running import result, run, statuses
from tests.store.engines import until

APPROVE = """\
name: release
steps:
  ask: {approve: "Ship {{inputs.what}}?", channel: releases}
  ship: {exec: [echo, "shipped, said {{steps.ask.by}}"]}
inputs: {what: it}
"""


def test_a_run_whose_worker_hears_first_that_it_is_cancelled_is_not_done(
    relay: Relay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise X4."""
    worker = Threads(relay, 1)
    worker.stop()

    def runner_on(*_: object) -> Threads:
        return worker

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "runner_on", runner_on)
        waits = f"test -e {tmp_path}/ready || sleep 60"  # A quick command could end before.
        first = run(relay, tmp_path, f"steps:\n  a: {{exec: '{waits}'}}\n")

    assert (first.status, statuses(first)) == ("cancelled", {"a": "pending"})
    assert first.reason == "the run was cancelled"
    (tmp_path / "ready").touch()
    assert runs.resume(relay, first.run).status == "done"


def begun(relay: Relay, folder: Path, text: str) -> tuple[threading.Thread, list[PipelineRun]]:
    """Run a pipeline in a thread; what came of it is then in the list."""
    (folder / "pipeline.yaml").write_text(text)
    ended: list[PipelineRun] = []
    pipeline = Pipeline.load(folder / "pipeline.yaml")
    thread = threading.Thread(target=lambda: ended.append(pipeline.run(relay)), daemon=True)
    thread.start()
    return thread, ended


def waiting(relay: Relay) -> str:
    """The run that waits for a decision."""

    def there() -> bool:
        return any(
            view.status == "waiting"
            for each in runs.list_runs(relay)
            for view in runs.show(relay, each.run).steps.values()
        )

    until(there, "a step that waits")
    return runs.list_runs(relay)[0].run


@pytest.mark.parametrize("way", ["command", "signal", "text"])
@pytest.mark.parametrize("is_approved", [True, False])
def test_a_step_waits_until_somebody_decides_and_says_who(
    relay: Relay, tmp_path: Path, way: str, is_approved: bool
) -> None:
    """Promise X4."""
    relay.publish("releases", {"step": "ask", "approve": not is_approved}, by="too early")
    thread, ended = begun(relay, tmp_path, APPROVE)
    run_id = waiting(relay)

    if way == "command":
        runs.decided(relay, run_id, "ask", ApprovalDecision(is_approved, "ana", "looks so"))
    else:
        message = {"step": "ask", "approve": is_approved, "reason": "looks so"}
        # `relay publish` sends what it is given as a text.
        relay.publish("releases", message if way == "signal" else json.dumps(message), by="ana")
    thread.join(30)

    assert ended[0].status == ("done" if is_approved else "failed")
    who = "ana" if way == "command" else "ana on releases"
    assert ended[0].steps["ask"].by == who
    if is_approved:
        assert result(relay, ended[0], "ship") == f"shipped, said {who}\n"
    else:
        assert ended[0].steps["ship"].status == "skipped"
        assert ended[0].reason == "ask: looks so"
    with pytest.raises(Conflict, match=f"is already (done|failed), by {who}"):
        runs.decided(relay, run_id, "ask", ApprovalDecision(True, "bob"))


def test_a_decision_that_nobody_takes_in_time_is_a_no(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    ended = run(relay, tmp_path, 'steps:\n  ask: {approve: "Ship?", timeout: 200ms}\n')

    assert ended.status == "failed"
    assert ended.steps["ask"].reason == "no decision within 0.2 s"


def test_no_command_runs_where_the_pipeline_is_not(
    relay: Relay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise X4."""
    (tmp_path / "here").mkdir()
    (tmp_path / "elsewhere").mkdir()
    text = 'steps:\n  a: {exec: "test -e ready"}\n  b: {exec: "touch ran", needs: a}\n'
    ended = run(relay, tmp_path / "here", text)
    (tmp_path / "here").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "ready").touch()

    again = runs.retry(relay, ended.run, "a")

    assert again.status == "failed"
    assert "no longer exists" in again.steps["a"].reason
    assert not (tmp_path / "elsewhere" / "ran").exists()


def test_a_failed_step_is_retried_with_what_depends_on_it(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    text = """\
steps:
  first: {exec: "echo first >> ran"}
  bad: {exec: "echo bad >> ran; test -e repaired", needs: first}
  after: {exec: "echo after >> ran", needs: bad}
  parts:
    foreach: [a, b]
    exec: 'echo "$ITEM" >> ran; test "$ITEM" = a -o -e repaired'
    env: {ITEM: "{{item}}"}
"""
    ended = run(relay, tmp_path, text, parallel=1)
    (tmp_path / "repaired").touch()

    again = runs.retry(relay, ended.run, "bad")
    last = runs.retry(relay, ended.run, "parts[1]")

    assert statuses(ended)["bad"] == "failed"
    assert statuses(again)["after"] == "done"
    assert again.status == "failed"
    assert last.status == "done"
    ran = (tmp_path / "ran").read_text().split()
    assert sorted(ran) == sorted(["first", "bad", "a", "b", "bad", "after", "b"])
    with pytest.raises(NotFound, match="did you mean bad"):
        runs.retry(relay, ended.run, "bat")


def started(folder: Path, text: str) -> subprocess.Popen[bytes]:
    """`relay pipeline run` as a process of its own."""
    (folder / "pipeline.yaml").write_text(text)
    return subprocess.Popen(
        [sys.executable, "-m", "contextrelay", "pipeline", "run", "pipeline.yaml"],
        cwd=folder,
        env={**os.environ, "RELAY_HOME": str(folder / "store")},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


LONG = """\
name: long
steps:
  first: {exec: "echo first >> ran"}
  hangs: {exec: "echo hangs >> ran; touch begun; sleep 1000 & while [ ! -e go ]; do sleep 0.05; done", needs: first}
  after: {exec: "echo after >> ran", needs: hangs}
"""  # noqa: E501


@pytest.mark.parametrize("end", ["kill", "cancel", "interrupt"])
def test_a_run_that_was_ended_goes_on_where_it_was_and_leaves_no_children(
    relay: Relay, tmp_path: Path, end: str
) -> None:
    """Promise X4."""
    running = started(tmp_path, LONG)
    until((tmp_path / "begun").exists, "the step")
    run_id = runs.list_runs(relay)[0].run
    with pytest.raises(Conflict, match=f"process {running.pid} is running it"):
        runs.resume(relay, run_id)

    ways: dict[str, Callable[[], object]] = {
        "kill": running.kill,
        "interrupt": lambda: running.send_signal(signal.SIGTERM),
        "cancel": lambda: runs.cancel(relay, run_id),
    }
    ways[end]()
    running.communicate(timeout=30)

    assert runs.show(relay, run_id).status == ("killed" if end == "kill" else "cancelled")
    if end != "kill":
        assert end_leftovers(run_id) == 0
    (tmp_path / "go").touch()
    ended = runs.resume(relay, run_id)
    assert ended.status == "done"
    assert end_leftovers(run_id) == 0
    assert (tmp_path / "ran").read_text().split() == ["first", "hangs", "hangs", "after"]


def test_what_waits_for_a_decision_when_its_process_is_killed_is_decided_all_the_same(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    running = started(tmp_path, APPROVE)
    run_id = waiting(relay)
    running.kill()
    running.communicate()

    runs.decided(relay, run_id, "ask", ApprovalDecision(True, "ana"))
    ended = runs.resume(relay, run_id)

    assert result(relay, ended, "ship") == "shipped, said ana\n"


def test_the_same_graph_is_built_in_code(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    heard: list[StepView] = []
    pipeline = Pipeline("review", inputs={"topic": "orders"})
    pipeline.step("plan", prompt="Plan {{inputs.topic}}", model="echo")
    pipeline.step("read", exec=["echo", "{{steps.plan.ref}}"], needs=["plan"])

    ended = pipeline.run(relay, {"topic": "dawn"}, hear=heard.append)

    assert result(relay, ended, "read") == f"{ended.steps['plan'].ref}\n"
    assert [(view.step, view.status) for view in heard] == [
        ("plan", "running"),
        ("plan", "done"),
        ("read", "running"),
        ("read", "done"),
    ]
    with pytest.raises(Invalid, match="unknown step 'plam'"):
        Pipeline("bad").step("a", exec=["echo", "{{steps.plam.ref}}"]).run(relay)


def test_what_is_left_is_ended_by_one_who_has_the_run(
    relay: Relay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise X4. Of two who retried a step at once, the loser ended the step of the other."""
    ended = run(relay, tmp_path, 'steps:\n  a: {exec: "true"}\n')
    last: list[str] = []

    def note(id: str) -> None:
        last.append(relay.thread(id).events()[-1].event.type)

    monkeypatch.setattr(runs, "end_leftovers", note)

    runs.retry(relay, ended.run, "a")

    assert last[0] == "pipeline.resumed"


@pytest.mark.parametrize("words", [("resume",), ("retry", "b")])
def test_of_two_who_resume_a_run_one_does(
    relay: Relay, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Promise X4."""
    text = 'steps:\n  a: {exec: "test -e ready"}\n  b: {exec: "echo b >> ran; sleep 3"}\n'
    ended = run(relay, tmp_path, text)
    (tmp_path / "ready").touch()
    (tmp_path / "ran").unlink()
    for step in ("a", "b"):
        relay.transport.ask(FinishStep(thread=ended.run, step=step, status="pending"))
    verb, *step = words
    command = [sys.executable, "-m", "contextrelay", "pipeline", verb, ended.run, *step]
    command += ["--store", str(tmp_path / "store")]

    both = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [each.communicate(timeout=60)[1].decode() for each in both]

    assert min(each.returncode for each in both) == 0
    assert [each for each in said if "resumed the run" in each or "is running it" in each]
    assert (tmp_path / "ran").read_text() == "b\n"
