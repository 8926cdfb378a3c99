"""run, ask, chat: a model on the command line, offline with echo."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.server.serving import serving


def script(shell: Shell, *lines: dict[str, Any]) -> None:
    """Let echo say these lines from now on."""
    path = shell.home / "script.json"
    path.write_text(json.dumps(lines))
    shell.env["RELAY_ECHO_SCRIPT"] = str(path)


def test_words_in_one_argument_are_a_prompt(shell: Shell) -> None:
    """Promise X1: relay "summarize this repo"."""
    done = shell.run("say hello to them", "-m", "echo")

    assert done.returncode == 0
    assert done.stdout == b"say hello to them\n"
    assert b"created thread" in done.stderr
    (thread,) = shell.json("thread", "list")["threads"]
    assert thread["name"] == shell.home.name
    shell.out("and again to them", "-m", "echo")
    assert len(shell.json("thread", "list")["threads"]) == 1


def test_ask_and_run_are_the_same_with_words_or_user(shell: Shell) -> None:
    """Promise X1."""
    shell.out("thread", "new", "--name", "orders")

    asked = shell.out("ask", "which", "port?", "-t", "orders", "-m", "echo")
    run = shell.out("run", "--thread", "orders", "--user", "which port?", "-m", "echo")
    piped = shell.out("run", "-t", "orders", "--user", "-", "-m", "echo", stdin=b"which port?")

    assert asked == run == piped == "which port?\n"
    events = shell.json("events", "orders", "--limit", "100")
    assert [each["event"]["type"] for each in events].count("run.finished") == 3


def test_the_default_model_is_a_setting(shell: Shell) -> None:
    """Promise X1: relay config set model."""
    shell.out("config", "set", "model", "echo:small")

    result = shell.json("ask", "hello there")

    assert (result["provider"], result["model"]) == ("echo", "small")
    assert result["text"] == "hello there"
    code, says = shell.fails("config", "set", "model", "ecco")
    assert (code, "did you mean echo" in says) == (2, True)


def test_the_setting_is_that_of_your_own_home_where_the_thread_is_on_a_server(
    shell: Shell, tmp_path: Path
) -> None:
    """Promise X2: the model is asked from here, with the keys and prices of here."""
    shell.out("config", "set", "model", "echo:mine")
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "config.json").write_text('{"model": "echo:of-the-server"}')

    with serving(tmp_path / "served") as served:
        answer = shell.json("ask", "who answers?", "--url", served.url)

    assert (answer["provider"], answer["model"]) == ("echo", "mine")


def test_a_dry_run_is_the_same_bytes_and_changes_nothing(shell: Shell) -> None:
    """Promise X1: dry runs are byte-identical."""
    shell.out("thread", "new", "--name", "orders")
    shell.out("state", "add", "fact", "the port is 8080")
    shell.out("artifact", "put", "-", "-t", "orders", stdin=b"# Orders\n")
    words = ("ask", "which port?", "-m", "echo", "--dry-run")
    before = shell.json("events", "--limit", "100")

    first, again = shell.out(*words), shell.out(*words)
    as_json = shell.json(*words)

    assert first == again
    assert "the port is 8080" in first
    assert "price unknown without a cache" in first
    names = [part["name"] for part in as_json["parts"]]
    assert names == ["tools", "system", "preview", "header", "user"]
    assert as_json["tokens"] == sum(part["tokens"] for part in as_json["parts"])
    assert shell.out(*words, "--budget", "500") == shell.out(*words, "--budget", "500")
    assert shell.json("events", "--limit", "100") == before


def test_a_dry_run_makes_no_thread(shell: Shell) -> None:
    """Promise X1."""
    code, says = shell.fails("ask", "hello", "-m", "echo", "--dry-run")

    assert (code, "a dry run creates none" in says) == (2, True)
    assert shell.json("thread", "list")["threads"] == []


def test_what_is_sent_can_be_written_to_a_file(shell: Shell) -> None:
    """Promise X1: --dump-rpb."""
    shell.out("thread", "new")

    shell.out("ask", "which port?", "-m", "echo", "--dump-rpb", "bundle.json", "--dry-run")
    first = (shell.home / "bundle.json").read_bytes()
    shell.out("ask", "which port?", "-m", "echo", "--dump-rpb", "bundle.json")

    assert (shell.home / "bundle.json").read_bytes() == first
    bundle = json.loads(first)
    assert bundle["user"] == "which port?"
    assert bundle["messages"][-1]["text"].endswith("which port?")


def test_the_system_text_is_given_or_read_from_a_file(shell: Shell) -> None:
    """Promise X1: --system TEXT|@FILE."""
    shell.out("thread", "new")
    (shell.home / "system.txt").write_text("Answer in French.")
    words = ("ask", "hello", "-m", "echo", "--dry-run", "--system")

    given = shell.json(*words, "Answer in Latin.")
    read = shell.json(*words, "@system.txt")

    assert given["parts"][1]["text"] == "Answer in Latin."
    assert read["parts"][1]["text"] == "Answer in French."
    code, says = shell.fails(*words, "@nothing.txt")
    assert (code, "nothing.txt" in says) == (2, True)


def test_the_files_of_the_folder_are_offered_unless_refused(shell: Shell) -> None:
    """Promise X1: --no-files."""
    subprocess.run(["git", "init", "-q"], cwd=shell.home, check=True)
    (shell.home / "README.md").write_text("# Orders\n")
    subprocess.run(["git", "add", "README.md"], cwd=shell.home, check=True)
    script(
        shell,
        {"calls": [{"name": "relay_read", "arguments": {"path": "README.md"}}]},
        {"text": "done"},
    )

    read = shell.json("summarize this repo", "-m", "echo")
    refused = shell.json("summarize this repo", "-m", "echo", "--no-files")

    (ref,) = read["source_refs"]
    assert shell.out("pull", ref) == "# Orders\n"
    assert ref not in refused["source_refs"]


def test_an_answer_is_shown_defused_and_stored_and_piped_as_it_is(shell: Shell) -> None:
    """Promise X2: nothing that a model says acts on a terminal."""
    said = "\x1b[2Jgone\x07 \u202eright\r\nnext"
    script(shell, {"text": said})

    shown = shell.run("say it now", "-m", "echo", human=True)
    piped = shell.run("say it now", "-m", "echo")

    assert b"\x1b" not in shown.stdout
    assert "<U+001B>[2Jgone<U+0007>" in shown.stdout.decode()
    assert piped.stdout.decode() == f"{said}\n"
    ref = shell.json("artifact", "list", "--limit", "1")["artifacts"][0]["ref"]
    assert shell.run("pull", ref).stdout.decode() == said


def test_an_answer_that_breaks_off_ends_its_line(shell: Shell) -> None:
    """Promise X1: an error begins a line of its own, also where words came before."""
    script(shell, {"text": "half of it", "error": "failed"})

    done = shell.run("ask", "broken please", "-m", "echo", human=True)

    assert done.returncode == 1
    assert done.stdout == b"half of it\n"
    assert b"error: failed" in done.stderr


def test_a_missing_key_of_a_provider_is_not_taken_for_that_of_a_server(shell: Shell) -> None:
    """Promise X2: the error names what that provider wants, and the ways without a key."""
    shell.env.pop("ANTHROPIC_API_KEY", None)

    _, said = shell.fails("ask", "hi there", "-m", "anthropic")

    assert "ANTHROPIC_API_KEY" in said
    assert "-m ollama" in said
    assert "-m echo" in said
    assert "CONTEXTRELAY_API_KEY" not in said


def test_a_failed_run_is_an_error_with_a_next_step(shell: Shell) -> None:
    """Promise X2."""
    script(shell, {"text": "half", "error": "unavailable"})

    done = shell.run("say it now", "-m", "echo")

    assert done.returncode == 1
    assert b"error: unavailable (scripted)" in done.stderr
    assert shell.json("state", "show")["version"] == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("ask", "hello", "-m", "nobody"), "unknown provider 'nobody'"),
        (("ask", "hello", "-m", "echo", "--ref", "abcdef"), "no ref starts with"),
        (("run", "-m", "echo"), "missing prompt"),
        (("ask", "x", "-t", "nowhere", "-m", "echo"), "nowhere"),
    ],
)
def test_wrong_words_are_refused_with_a_next_step(
    shell: Shell, words: tuple[str, ...], says: str
) -> None:
    """Promises X1, X2."""
    code, text = shell.fails(*words)

    assert code in (2, 3)
    assert says in text


def test_chat_asks_again_and_again(shell: Shell) -> None:
    """Promise X1: /ref, /model, /quit."""
    ref = shell.json("push", stdin=b"# Orders\n")["ref"]
    typed = f"hello\n\n/ref {ref}\n/model echo:other\n/nothing\n/ref zz\nand now\n/quit\nnever\n"

    done = shell.run("chat", "-m", "echo", stdin=typed.encode())

    assert done.returncode == 0
    assert done.stdout == b"hello\nand now\n"
    assert b"unknown command /nothing" in done.stderr
    asked = [
        each["event"]["detail"]
        for each in shell.json("events", "--limit", "100")
        if each["event"]["type"] in ("message.received", "run.started")
    ]
    assert [each["refs"] for each in asked if "refs" in each] == [[], [ref]]
    assert [each["model"] for each in asked if "model" in each] == ["echo-1", "other"]


def test_ctrl_c_ends_the_answer_and_what_came_is_kept(shell: Shell) -> None:
    """Promise X2: Ctrl-C ends the answer, not the store; as a terminal sends it."""
    package = shell.home / "package"
    package.mkdir()
    (package / "slow.py").write_text(SLOW)
    info = package / "slow-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slow\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[contextrelay.providers]\nslow = slow:Slow\n")
    shell.env["PYTHONPATH"] = str(package)

    with shell.started("say it slowly", "-m", "slow") as running:
        assert running.line() == "the first line"
        code, rest, notes = running.ended(signal.SIGINT)

    assert (code, rest) == (130, "")
    assert "interrupted; partial answer stored" in notes
    types = [each["event"]["type"] for each in shell.json("events", "--limit", "100")]
    assert "run.interrupted" in types
    ref = shell.json("state", "show")["artifacts"][-1]["ref"]
    assert shell.out("pull", ref) == "the first line\n"


SLOW = '''
"""A provider in a package of its own, found by its entry point."""
import time


class Slow:
    name = "slow"

    def __init__(self, model, environ):
        self.model = model or "snail"

    def answer(self, prompt):
        yield "the first line\\n"
        time.sleep(60)
        yield "never"
'''


def test_a_reader_that_goes_away_interrupts_the_run(shell: Shell) -> None:
    """Promise X2: relay ... | head -1."""
    script(shell, {"text": "line\n" * 200_000})
    command = "python -m contextrelay 'say it now' -m echo | head -1"
    env = {**shell.env, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    done = subprocess.run(
        command, shell=True, capture_output=True, env=env, cwd=shell.home, timeout=60
    )

    assert done.stdout == b"line\n"
    types = [each["event"]["type"] for each in shell.json("events", "--limit", "100")]
    assert types[-1] == "state.patch.applied"
    assert "run.interrupted" in types
