"""`relay pipeline`: run, validate, graph, list, show, retry, approve, reject, cancel, resume."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from contextlib import suppress
from pathlib import Path
from pwd import getpwuid
from typing import Any

import pytest

from tests.cli.shell import RELAY, Shell
from tests.store.engines import until

REVIEW = """\
name: review
inputs:
  topic: orders
  deep: false
  doc: {type: ref, default: ""}
steps:
  plan: {prompt: "Plan {{inputs.topic}}", model: echo}
  each: {foreach: [a, b], exec: [echo, "{{item}}"], needs: plan}
  join: {exec: [echo, "{{inputs.deep}} {{steps.each.ref}}"]}
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "review.yaml").write_text(REVIEW)
    return Shell(tmp_path)


def lines(shell: Shell, *words: str) -> list[dict[str, Any]]:
    """What a command says as JSON, line by line."""
    ran = shell.run("pipeline", *words, "--json")
    return [json.loads(line) for line in ran.stdout.decode().splitlines()]


def test_a_run_prints_a_line_a_step_and_its_end(shell: Shell) -> None:
    """Promise X4."""
    ran = shell.run("pipeline", "run", "review.yaml", "--input", "deep=true")

    printed = ran.stdout.decode().splitlines()
    assert ran.returncode == 0, ran.stderr
    steps = [line.split()[1] for line in printed[:-1]]
    assert sorted(steps) == ["each", "each[0]", "each[1]", "join", "plan"]
    assert printed[-1].startswith("review ")
    assert "done: 3 done" in printed[-1]


def test_a_run_reports_events_as_json_and_last_the_run(shell: Shell) -> None:
    """Promise X4."""
    first, *steps, end = lines(shell, "run", "review.yaml")

    assert (first["run"], first["status"]) == (end["run"], "running")
    assert [(each["step"], each["status"]) for each in steps[:2]] == [
        ("plan", "running"),
        ("plan", "done"),
    ]
    assert end["status"] == "done"
    assert set(end["steps"]) == {"plan", "each[0]", "each[1]", "each", "join"}
    listed = lines(shell, "list")[0]["runs"]
    assert [(each["run"], each["status"]) for each in listed] == [(end["run"], "done")]
    shown = lines(shell, "show", end["run"][:8])[0]
    assert {name: view["ref"] for name, view in shown["steps"].items()} == {
        name: view["ref"] for name, view in end["steps"].items()
    }


def test_on_a_terminal_runs_are_listed_and_shown_for_people(shell: Shell) -> None:
    """Promise X4."""
    none = shell.run("pipeline", "list", human=True).stdout.decode()
    run = lines(shell, "run", "review.yaml")[-1]["run"]

    listed = shell.run("pipeline", "list", human=True).stdout.decode()
    shown = shell.run("pipeline", "show", run, human=True).stdout.decode()

    assert "relay pipeline run FILE" in none
    assert f"{run[:8]}  done       review" in listed
    assert "✔ join  exec done" in shown
    assert shell.run("thread", "list").stdout == b""
    assert run in shell.run("thread", "list", "--kind", "pipeline").stdout.decode()


def test_a_file_becomes_an_input_by_its_ref(shell: Shell) -> None:
    """Promise X4."""
    (shell.home / "notes.md").write_text("# Notes")
    (shell.home / "read.yaml").write_text(
        "name: read\ninputs: {doc: {type: ref}}\nsteps:\n  read: {exec: [echo, '{{inputs.doc}}']}\n"
    )

    end = lines(shell, "run", "read.yaml", "--input", "doc=@notes.md")[-1]
    missing = shell.run("pipeline", "run", "read.yaml", "--input", "doc=@missing.md")

    ref = shell.run("pull", end["steps"]["read"]["ref"]).stdout.decode().strip()
    assert shell.run("pull", ref).stdout == b"# Notes"
    assert missing.returncode == 2
    assert b"cannot read missing.md" in missing.stderr


def test_a_dry_run_and_a_check_run_nothing(shell: Shell) -> None:
    """Promise X4."""
    plan = shell.run("pipeline", "run", "review.yaml", "--dry-run")
    checked = shell.run("pipeline", "validate", "review.yaml")

    assert "plan  prompt echo" in plan.stdout.decode()
    assert checked.stdout == b"review.yaml is valid (3 steps)\n"
    assert shell.run("pipeline", "list").stdout == b""


def test_a_graph_is_drawn_as_text_svg_and_mermaid(shell: Shell) -> None:
    """Promise X4."""
    text = shell.run("pipeline", "graph", "review.yaml").stdout.decode()
    svg = shell.run("pipeline", "graph", "review.yaml", "--svg").stdout.decode()
    mermaid = shell.run("pipeline", "graph", "review.yaml", "--mermaid").stdout.decode()

    assert "  each  exec for each  ← plan" in text
    assert svg.startswith("<svg")
    assert mermaid.startswith("flowchart TD")


def test_a_failed_run_ends_with_1_and_is_retried(shell: Shell) -> None:
    """Promise X4."""
    (shell.home / "bad.yaml").write_text(
        "name: bad\nsteps:\n"
        "  test: {exec: 'test -e repaired'}\n  after: {exec: [echo], needs: test}\n"
    )
    failed = shell.run("pipeline", "run", "bad.yaml")
    run = shell.run("pipeline", "list").stdout.decode().strip()
    (shell.home / "repaired").touch()

    again = shell.run("pipeline", "retry", run, "test")

    assert failed.returncode == 1
    hint = f"next: fix the cause, then: relay pipeline retry {run[:8]} test"
    assert hint in failed.stdout.decode()
    assert again.returncode == 0
    assert shell.run("pipeline", "resume", run).returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("run", "missing.yaml"), 3, b"missing.yaml"),
        (("run", "review.yaml", "--input", "tpoic=x"), 2, b"did you mean topic?"),
        (("run", "review.yaml", "--on", "dask://127.0.0.1:1"), 2, b"--store http://HOST:PORT"),
        (("cancel", "ffffff"), 3, b"see: relay pipeline list"),
    ],
)
def test_mistakes_are_answered_with_the_next_step(
    shell: Shell, words: tuple[str, ...], code: int, said: bytes
) -> None:
    """Promise X4."""
    (shell.home / "broken.yaml").write_text(
        "name: broken\nsteps:\n  a: {exec: [a], needs: b}\n  b: {exec: [b], needs: a}\n"
    )

    ran = shell.run("pipeline", *words)

    assert ran.returncode == code
    assert said in ran.stderr


def test_a_run_that_is_over_is_not_cancelled_or_decided(shell: Shell) -> None:
    """Promise X4."""
    run = lines(shell, "run", "review.yaml")[-1]["run"]

    assert shell.run("pipeline", "cancel", run).returncode == 5
    assert shell.run("pipeline", "approve", run, "plan").returncode == 3
    assert shell.run("pipeline", "reject", run, "plan", "no").returncode == 3


def test_a_step_is_approved_from_another_terminal(shell: Shell) -> None:
    """Promise X4."""
    (shell.home / "ask.yaml").write_text(
        "name: ask\nsteps:\n  ok: {approve: Ship?}\n  ship: {exec: [echo, '{{steps.ok.by}}']}\n"
    )

    with shell.started("pipeline", "run", "ask.yaml", "--json") as running:
        run = json.loads(running.line())["run"]
        waits = json.loads(running.line())
        assert (waits["status"], waits["hint"]) == (
            "waiting",
            f"relay pipeline approve {run[:8]} ok",
        )
        assert f"Ship?  → {waits['hint']}" in shell.run("pipeline", "show", run).stdout.decode()
        said = shell.run("pipeline", "approve", run, "ok", "--by", "ana").stdout
        decided = json.loads(running.line())

    who = f"{getpwuid(os.getuid()).pw_name}/ana"
    assert (decided["status"], decided["by"]) == ("done", who)
    assert said.decode() == f"approved ok, by {who}\n"
    shown = shell.run("pipeline", "show", run, human=True).stdout.decode()
    assert f"✔ ok  approve done  by {who}" in shown


def test_a_broken_save_is_reported_and_watched_until_it_is_repaired(shell: Shell) -> None:
    """Promise X4."""
    file = shell.home / "say.yaml"
    file.write_text("name: say\nsteps:\n  say: {exec: [echo, one]}\n")

    with shell.started("pipeline", "run", "say.yaml", "--watch") as running:
        first = [running.line() for _ in range(2)]
        assert "waiting for a change" in [running.note(), running.note()][1]
        file.write_text("name: say\nsteps:\n  say: {exec: [\n")
        assert "invalid YAML" in running.note()
        assert "fix the line" in running.note()
        assert "waiting for a change" in running.note()
        file.write_text("name: say\nsteps:\n  repaired: {exec: [echo, two]}\n")
        second = [running.line() for _ in range(2)]

    assert first[0].startswith("✔ say")
    assert second[0].startswith("✔ repaired")


def test_a_run_whose_lines_nobody_reads_goes_on_to_its_end(shell: Shell) -> None:
    """Promise X4."""
    (shell.home / "three.yaml").write_text(
        "name: three\nsteps:\n  a: {exec: [echo]}\n  b: {exec: [sleep, 0.5], needs: a}\n"
        "  c: {exec: [touch, ran], needs: b}\n"
    )

    for more in ([], ["--json"]):
        with subprocess.Popen(
            [*RELAY, "pipeline", "run", "three.yaml", *more],
            env=shell.env,
            cwd=shell.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as running:
            assert running.stdout is not None
            running.stdout.readline()
            running.stdout.close()
            running.wait(60)
        assert (shell.home / "ran").exists()
        (shell.home / "ran").unlink()

    assert {each["status"] for each in lines(shell, "list")[0]["runs"]} == {"done"}


def test_what_is_under_way_is_shown_as_running_until_the_run_is_cancelled(shell: Shell) -> None:
    """Promise X4."""
    (shell.home / "long.yaml").write_text(
        "name: long\nsteps:\n  a: {exec: [sleep, 1000]}\n"
        "  each: {foreach: [1], exec: [sleep, 1000]}\n  b: {exec: [echo], needs: a}\n"
    )

    with shell.started("pipeline", "run", "long.yaml", "--json") as running:
        run = json.loads(running.line())["run"]

        def standing() -> dict[str, str]:
            steps = lines(shell, "show", run)[0]["steps"]
            return {name: view["status"] for name, view in steps.items()}

        until(lambda: len(standing()) == 4, "the steps that last")
        assert standing() == {
            "a": "running",
            "each[0]": "running",
            "each": "running",
            "b": "pending",
        }
        cancelled = shell.run("pipeline", "cancel", run).stdout.decode()
        end = json.loads(running.ended()[1].splitlines()[-1])

    assert "1 running" not in cancelled
    assert cancelled.splitlines()[0].endswith(" s")
    assert cancelled.count("next: resume with: relay pipeline resume") == 1
    assert {view["status"] for view in end["steps"].values()} == {"pending"}
    assert set(end["steps"]) == set(standing()) == {"a", "each[0]", "each", "b"}
    assert set(standing().values()) == {"pending"}
    assert cancelled.splitlines()[0] in shell.run("pipeline", "show", run).stdout.decode()


def test_on_a_terminal_each_step_has_a_line_that_is_redrawn(shell: Shell) -> None:
    """Promise X4."""
    (shell.home / "slow.yaml").write_text("name: slow\nsteps:\n  wait: {exec: [sleep, 0.5]}\n")
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [*RELAY, "pipeline", "run", "slow.yaml"],
        env={**shell.env, "TERM": "xterm"},
        cwd=shell.home,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    drawn = b""
    with suppress(OSError):  # The end of a terminal.
        while piece := os.read(ours, 4096):
            drawn += piece
    os.close(ours)

    assert running.wait(30) == 0
    text = drawn.decode()
    assert any(sign in text for sign in "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
    assert "wait  exec running" in text
    assert "\x1b[A" in text
    assert "✔ wait  exec done" in text.rpartition("\x1b[J")[2]
