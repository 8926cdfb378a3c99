"""The demo: offline, in seconds, repeatable, and gone without a trace when asked."""

from __future__ import annotations

import signal
import subprocess

import pytest

from contextrelay import Relay
from contextrelay.demo.commands import document, script
from tests.cli.shell import RELAY, Shell
from tests.store.engines import until


def test_the_demo_shows_savings_time_travel_and_a_wake_up_in_seconds(shell: Shell) -> None:
    """Promise U2."""
    outcome = shell.json("demo")

    assert outcome["is_identical"]
    assert outcome["is_restored"]
    assert outcome["hops"] == len(script()) == 35
    assert 0 < outcome["pulled_tokens"] < outcome["sent_tokens"] < outcome["pasted_tokens"] // 5
    assert 0 < outcome["wake_ms"] < 2_000
    assert outcome["took_s"] < 60
    assert outcome["basis"] == "measured: o200k_base"
    pasted, sent = float(outcome["price_pasted"]), float(outcome["price_sent"])
    cached = float(outcome["price_pasted_cached"])
    assert 0 < sent < cached < pasted
    assert shell.json("verify")["problem_count"] == 0
    # What it only compares with was not pulled by anybody.
    counted = shell.json("stats", "--all")
    assert counted["net"] > 0
    assert counted["pulls"] == sum(len(hop.looks) for hop in script())


def test_for_people_the_demo_draws_and_says_what_to_do_next(shell: Shell) -> None:
    """Promise U2."""
    text = shell.out("demo", human=True)
    next_steps = [line.split() for line in text.splitlines() if line.startswith("  relay ")]

    assert "if pasted" in text
    assert "with relay" in text
    assert "without a prompt cache" in text
    assert "with one" in text
    assert "─╯" in text
    assert len(next_steps) == 3
    for words in next_steps:
        shell.out(*words[1:])
    assert (shell.home / "demo.html").exists()


def test_a_second_demo_measures_the_same_and_clean_removes_both(shell: Shell) -> None:
    """Promise U2."""
    mine = shell.out("thread", "new", "--name", "demo-of-mine").strip()
    kept = shell.out("artifact", "put", "-", stdin=document("spec.md").encode()).strip()
    first, second = shell.json("demo"), shell.json("demo")

    assert (first["name"], second["name"]) == ("demo-orders", "demo-orders-2")
    assert shell.json("state", "header", "demo-orders")["thread_id"] == first["thread_id"]
    for name in ("document_tokens", "pulled_tokens", "versions", "hops"):
        assert first[name] == second[name]
    # Refs are in it, and some refs are more tokens than others.
    assert first["pasted_tokens"] == pytest.approx(second["pasted_tokens"], rel=0.01)
    assert sorted(shell.out("demo", "--clean").split()) == sorted(
        [first["thread_id"], second["thread_id"]]
    )
    assert shell.out("thread", "list").split() == [mine]
    assert shell.out("artifact", "list").split() == [kept]
    assert shell.json("thread", "show")["thread_id"] == mine


def test_an_interrupted_demo_leaves_nothing(shell: Shell) -> None:
    with Relay(shell.env["RELAY_HOME"]) as relay:
        process = subprocess.Popen(
            [*RELAY, "demo"], env=shell.env, cwd=shell.home, stdout=-3, stderr=subprocess.PIPE
        )
        until(lambda: bool(relay.threads().threads or process.poll()), "its thread")
        assert process.poll() is None

        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)

        assert process.returncode == 130, error
        assert b"Traceback" not in error
        assert relay.threads().threads == []
        assert relay.list().artifacts == []
