"""Completion: the scripts do in real shells what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.parts import has_command, needs

CASES = [
    (["relay", "th"], {"thread"}),
    (["relay", "state", "re"], {"restore", "resolve"}),
    (["relay", "--json", "state", "patch", "--exp"], {"--expected"}),
    (["relay", "--store", "x", "artifact", "p"], {"put", "pin"}),
    (["relay", "--url", "x", "subscribe", "room", "--on"], {"--once"}),
    (["relay", "report", "--format", ""], {"md", "json", "html"}),
    (["relay", "report", "orders", "--form"], {"--format"}),
    (["relay", "runs", "--lim"], {"--limit"}),
    (["relay", "completion", "z"], {"zsh"}),
    (["relay", "state", "add", "c"], {"constraint"}),
    (["relay", "import", "--na"], {"--name"}),
    (["relay", "project", "todo", "unb"], {"unblock"}),
    (["relay", "state", "header", "ord"], {"orders"}),
    (["relay", "artifact", "list", "--thread", "ord"], {"orders"}),
    (["relay", "pull", "REF"], {"REF"}),
    (["relay", "--store", "missing", "pull", "REF"], set[str]()),
    (["relay", "subscribe", "bu"], {"builds"}),
    (["relay", "get", "@l"], {"@last"}),
]

IDS = [" ".join(words) for words, _ in CASES]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    shell = Shell(folder)
    shell.out("thread", "new", "--name", "orders")
    shell.out("thread", "new", "--name", "$(touch owned)")
    shell.out("publish", "builds", "done")
    (folder / "ref").write_text(shell.out("artifact", "put", "-", stdin=b"x")[:8])
    for name in ("bash", "zsh", "fish"):
        (folder / name).write_text(shell.out("completion", name))
    return folder


def spelled(scripts: Path, words: list[str], offered: set[str]) -> tuple[list[str], set[str]]:
    """The words of a case, with a ref that there is."""
    ref = (scripts / "ref").read_text()
    return (
        [ref[:6] if word == "REF" else word for word in words],
        {ref if word == "REF" else word for word in offered},
    )


def environment(scripts: Path) -> dict[str, str]:
    folder = Path(sys.executable).parent
    return {**Shell(scripts).env, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize(("words", "offered"), CASES, ids=IDS)
def test_bash_offers_what_can_follow(scripts: Path, words: list[str], offered: set[str]) -> None:
    words, offered = spelled(scripts, words, offered)
    code = (
        'source "$0"; complete -p relay >/dev/null || exit 9; COMP_WORDS=("$@"); '
        'COMP_CWORD=$(($# - 1)); _relay; printf "%s\\n" "${COMPREPLY[@]}"'
    )

    done = subprocess.run(
        ["bash", "--norc", "-c", code, str(scripts / "bash"), *words],
        capture_output=True,
        text=True,
        check=True,
        env=environment(scripts),
    )

    assert set(done.stdout.split()) == offered
    assert done.stderr == ""


@pytest.mark.parametrize(("words", "offered"), CASES[::5], ids=IDS[::5])
def test_fish_offers_what_can_follow(scripts: Path, words: list[str], offered: set[str]) -> None:
    needs("fish", has_command("fish"))
    words, offered = spelled(scripts, words, offered)
    code = f"source {scripts / 'fish'}; complete -C '{' '.join(words)}'"

    done = subprocess.run(
        ["fish", "--no-config", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment(scripts),
    )

    assert {line.split("\t")[0] for line in done.stdout.splitlines()} == offered


@pytest.mark.parametrize(("words", "offered"), CASES[::5], ids=IDS[::5])
def test_zsh_offers_what_can_follow(scripts: Path, words: list[str], offered: set[str]) -> None:
    needs("zsh", has_command("zsh"))
    words, offered = spelled(scripts, words, offered)
    code = (
        'compdef() { :; }; _files() { :; }; compadd() { shift; print -l -- "$@"; }; '
        'source "$0"; words=("$@"); CURRENT=$#; _relay'
    )

    done = subprocess.run(
        ["zsh", "-f", "-c", code, str(scripts / "zsh"), *words],
        capture_output=True,
        text=True,
        check=True,
        env=environment(scripts),
    )

    # zsh itself keeps to what begins as the word does.
    assert {each for each in done.stdout.split() if each.startswith(words[-1])} == offered


def test_a_name_that_is_no_plain_word_is_offered_by_its_id(shell: Shell) -> None:
    """Promise Z3."""
    thread = shell.out("thread", "new", "--name", "$(touch owned) it").strip()

    offered = shell.out("__complete", "thread", "show", "")

    assert offered == f"{thread[:8]}\t$(touch owned) it\n"


def test_completing_makes_no_store_and_never_fails(shell: Shell) -> None:
    shell.env["RELAY_HOME"] = str(shell.home / "none")

    assert shell.out("__complete", "pull", "") == ""
    assert shell.out("__complete", "--url", "http://127.0.0.1:1", "pull", "") == ""
    assert shell.out("__complete", "--store") != ""
    assert shell.out("__complete", "nonsense", "--wrong", "") == ""
    assert not (shell.home / "none").exists()
