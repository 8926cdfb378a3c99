"""Trouble while a run goes on: a step fails, the run goes on and can be gone on with."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import pytest

from contextrelay import Invalid, Pipeline, Relay
from contextrelay.limits import FOREACH_ITEMS_MAX
from contextrelay.model.pipeline import PipelineRun, StepView
from contextrelay.pipelines import runs
from contextrelay.pipelines.steps.child import end_leftovers
from tests.pipelines.running import reason, result, run, statuses


def removed(relay: Relay) -> str:
    """A ref whose artifact is gone."""
    ref = relay.push("here today").ref
    relay.remove(ref)
    return ref


@pytest.mark.parametrize(
    "step",
    [
        '{foreach: "{{inputs.doc}}", exec: [echo]}',
        '{approve: "{{steps.gone.preview}}?"}',
        "{exec: [echo], when: steps.gone.json.x == 1}",
        '{exec: [echo, "{{steps.gone.preview}}"]}',
        '{prompt: hello, model: echo, refs: ["{{inputs.doc}}"]}',
        '{pipeline: inner.yaml, inputs: {word: "{{steps.gone.preview}}"}}',
        '{pipeline: inner.yaml, foreach: [1], inputs: {word: "{{steps.gone.preview}}"}}',
    ],
)
def test_a_ref_that_is_gone_fails_its_step_and_not_the_run(
    relay: Relay, tmp_path: Path, step: str
) -> None:
    """Promise X4."""
    (tmp_path / "inner.yaml").write_text("name: in\ninputs: {word: w}\nsteps: {a: {exec: [echo]}}")
    (tmp_path / "pipeline.yaml").write_text(
        "name: p\ninputs: {doc: {type: ref}}\nsteps:\n"
        f"  gone: {{exec: [echo, text]}}\n  bad: {step}\n"
        "  bad_too: {exec: [echo], needs: bad}\n  other: {exec: [echo, other], needs: gone}\n"
    )

    def hear(view: StepView) -> None:
        if view.step == "gone" and view.ref is not None:
            relay.remove(view.ref)

    loaded = Pipeline.load(tmp_path / "pipeline.yaml")
    ended = loaded.run(relay, {"doc": removed(relay)}, hear=hear)

    assert ended.status == "failed"
    assert statuses(ended)["bad"] == "failed"
    assert statuses(ended)["bad_too"] == "skipped"
    assert result(relay, ended, "other") == "other\n"
    assert runs.show(relay, ended.run).status == "failed"


def test_a_result_that_goes_before_its_pipeline_ends_fails_the_step_that_includes_it(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    (tmp_path / "inner.yaml").write_text("name: in\nsteps: {a: {exec: [echo, a]}}")
    (tmp_path / "pipeline.yaml").write_text("name: p\nsteps:\n  s: {pipeline: inner.yaml}\n")

    def hear(view: StepView) -> None:
        if view.step == "s/a" and view.ref is not None:
            relay.remove(view.ref)

    ended = Pipeline.load(tmp_path / "pipeline.yaml").run(relay, hear=hear)

    assert statuses(ended) == {"s/a": "done", "s": "failed"}


def test_a_cached_result_that_is_gone_is_made_again(relay: Relay, tmp_path: Path) -> None:
    """Promises X4, C2."""
    text = "steps:\n  ask: {prompt: hello, model: echo}\n"
    first = run(relay, tmp_path, text)
    relay.remove(first.steps["ask"].ref or "")

    second = run(relay, tmp_path, text)

    assert second.status == "done"
    assert not second.steps["ask"].is_cached


@pytest.mark.parametrize(
    "step",
    [
        '{exec: "setsid sleep 1000 & echo over"}',
        '{exec: "setsid setsid sleep 1000 >/dev/null 2>&1 & sleep 1000", timeout: 1s}',
        '{python: "work:leaves"}',
    ],
)
def test_a_child_that_left_its_group_ends_with_its_step(
    relay: Relay, tmp_path: Path, step: str
) -> None:
    """Promise X4."""
    (tmp_path / "work.py").write_text(
        "import subprocess\n"
        "def leaves():\n"
        "    subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
    )
    left: list[int] = []

    def hear(view: StepView) -> None:
        if view.step == "next" and view.status == "running":
            left.append(of_the_step(name))

    # A name of its own: others may run the same test at the same time.
    name = f"forks{os.getpid()}"
    text = f"name: p\nsteps:\n  {name}: {step}\n  next: {{exec: ['true'], needs: {name}}}\n"
    (tmp_path / "pipeline.yaml").write_text(
        text.replace("}\n  next", ", on_failure: continue}\n  next")
    )
    ended = Pipeline.load(tmp_path / "pipeline.yaml").run(relay, hear=hear)

    assert left == [0]
    assert end_leftovers(ended.run) == 0


def of_the_step(name: str) -> int:
    """How many processes of a step of this name are there."""
    key = re.compile(rb"RELAY_STEP_KEY=[^\0]+/%s\0" % name.encode())
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found += bool(key.search((folder / "environ").read_bytes()))
    return found


def test_a_cached_result_is_of_the_folder_and_the_module_that_made_it(
    relay: Relay, tmp_path: Path
) -> None:
    """Promises X4, C2."""
    text = (
        'steps:\n  here: {exec: "pwd", cache: 1h}\n  says: {python: "pack.work:says", cache: 1h}\n'
    )

    def go(folder: Path, word: str) -> PipelineRun:
        (folder / "pack").mkdir(parents=True, exist_ok=True)
        (folder / "pack" / "work.py").write_text(f"def says(): return {word!r}\n")
        return run(relay, folder, text)

    first, again = go(tmp_path / "a", "one"), go(tmp_path / "a", "one")
    elsewhere, changed = go(tmp_path / "b", "one"), go(tmp_path / "a", "another")

    assert not any(view.is_cached for view in first.steps.values())
    assert all(view.is_cached for view in again.steps.values())
    assert result(relay, elsewhere, "here") == f"{tmp_path / 'b'}\n"
    assert result(relay, changed, "says") == "another"
    assert changed.steps["here"].is_cached


def test_a_callback_that_raises_does_not_end_the_run(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    heard: list[str] = []

    def hear(view: StepView) -> None:
        heard.append(view.step)
        raise ValueError("no")

    pipeline = Pipeline("p").step("a", exec=["echo"]).step("b", exec=["echo"], needs=["a"])
    with pytest.raises(ValueError, match="no") as raised:
        pipeline.run(relay, hear=hear)

    (listed,) = runs.list_runs(relay)
    assert listed.status == "done"
    assert listed.run in raised.value.__notes__[0]
    assert heard == ["a"]


def test_a_name_is_given_to_one_step(relay: Relay) -> None:
    """Promise X4."""
    with pytest.raises(Invalid, match="step 'a' already exists"):
        Pipeline("p").step("a", exec=["echo"]).step("a", exec=["true"])


def test_what_lies_next_to_a_pipeline_does_not_break_its_functions(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    (tmp_path / "msgspec.py").write_text("raise RuntimeError('mine')")
    (tmp_path / "contextrelay.py").write_text("raise RuntimeError('mine')")
    (tmp_path / "work.py").write_text(
        "def says(): return 'ok'\ndef not_a_number(): return [float('nan')]\n"
    )

    ended = run(
        relay,
        tmp_path,
        'steps:\n  says: {python: "work:says"}\n  nan: {python: "work:not_a_number"}\n',
    )

    assert result(relay, ended, "says") == "ok"
    assert "not JSON compliant" in reason(ended, "nan")
    with pytest.raises(Invalid, match="nan"):
        run(relay, tmp_path, "inputs: {x: 1.5}\nsteps:\n  a: {exec: [echo]}\n", x=float("nan"))


def test_the_bound_of_a_fan_out_is_named_where_it_is_passed(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    text = 'inputs: {n: {type: list}}\nsteps:\n  a: {foreach: "{{inputs.n}}", exec: [echo]}\n'

    ended = run(relay, tmp_path, text, n=["x"] * (FOREACH_ITEMS_MAX + 1))

    assert "10,001 items: the limit is 10,000" in reason(ended, "a")
    assert "split the list" in ended.steps["a"].hint
    assert "split the list" in runs.show(relay, ended.run).steps["a"].hint


def test_a_fan_out_that_goes_on_says_which_items_failed(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    ended = run(
        relay,
        tmp_path,
        "steps:\n"
        "  a: {foreach: [0, 1, 0], exec: 'exit $N', env: {N: '{{item}}'}, on_failure: continue}\n"
        "  b: {exec: [echo], needs: a}\n",
    )

    assert statuses(ended)["b"] == "done"
    assert ended.steps["a"].status == "done"
    assert reason(ended, "a").startswith("1 of 3 items failed: sh exited with status 1")


def test_many_items_that_cannot_begin_are_no_deep_stack(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    ended = run(
        relay,
        tmp_path,
        "inputs: {n: {type: list}}\nsteps:\n"
        '  a: {foreach: "{{inputs.n}}", when: item, exec: [echo]}\n',
        n=[0] * 1_500,
    )

    assert ended.status == "done"
    assert ended.steps["a[1499]"].status == "skipped"


def test_a_failed_command_keeps_its_whole_output(relay: Relay, tmp_path: Path) -> None:
    """Promise X4: stdout and stderr, behind the ref of the failed step."""
    loud = "yes out | head -c 300000; yes err | head -c 300000 >&2; exit 3"
    ended = run(relay, tmp_path, f'steps:\n  loud: {{exec: "{loud}"}}\n')

    shown = runs.show(relay, ended.run)
    kept = result(relay, shown, "loud")
    assert (shown.status, shown.steps["loud"].ref) == ("failed", ended.steps["loud"].ref)
    assert kept == "out\n" * 75_000 + "err\n" * 75_000
    assert "relay pipeline show" in shown.steps["loud"].hint


def test_a_command_that_is_too_slow_keeps_what_it_printed(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    text = 'steps:\n  slow: {exec: "echo begun; sleep 60", timeout: 300ms}\n'

    ended = run(relay, tmp_path, text)

    assert "exceeded its time limit" in ended.steps["slow"].reason
    assert result(relay, ended, "slow") == "begun\n"


def test_a_retry_that_succeeds_keeps_its_own_result_alone(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    text = (
        'steps:\n  once: {exec: "echo try; test -e done || { touch done; exit 1; }", retries: 1}\n'
    )

    ended = run(relay, tmp_path, text)

    assert (ended.steps["once"].status, result(relay, ended, "once")) == ("done", "try\n")
    assert [each.name for each in relay.list().artifacts if "output" in (each.name or "")] == []


def test_a_command_that_fails_silently_has_no_ref(relay: Relay, tmp_path: Path) -> None:
    ended = run(relay, tmp_path, 'steps:\n  quiet: {exec: "exit 3"}\n')

    assert (ended.steps["quiet"].status, ended.steps["quiet"].ref) == ("failed", None)
