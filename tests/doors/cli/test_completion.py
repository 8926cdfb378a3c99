"""Completion: the scripts do in real shells what they say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.doors.cli.shell import Shell
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
]

IDS = [" ".join(words) for words, _ in CASES]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    shell = Shell(folder)
    for name in ("bash", "zsh", "fish"):
        (folder / name).write_text(shell.out("completion", name))
    return folder


@pytest.mark.parametrize(("words", "offered"), CASES, ids=IDS)
def test_bash_offers_what_can_follow(scripts: Path, words: list[str], offered: set[str]) -> None:
    code = (
        'source "$0"; complete -p relay >/dev/null || exit 9; COMP_WORDS=("$@"); '
        'COMP_CWORD=$(($# - 1)); _relay; printf "%s\\n" "${COMPREPLY[@]}"'
    )

    done = subprocess.run(
        ["bash", "--norc", "-c", code, str(scripts / "bash"), *words],
        capture_output=True,
        text=True,
        check=True,
    )

    assert set(done.stdout.split()) == offered
    assert done.stderr == ""


@pytest.mark.parametrize(("words", "offered"), CASES, ids=IDS)
def test_fish_offers_what_can_follow(scripts: Path, words: list[str], offered: set[str]) -> None:
    needs("fish", has_command("fish"))
    code = f"source {scripts / 'fish'}; complete -C '{' '.join(words)}'"

    done = subprocess.run(
        ["fish", "--no-config", "-c", code], capture_output=True, text=True, check=True
    )

    assert {line.split("\t")[0] for line in done.stdout.splitlines()} == offered


@pytest.mark.parametrize(("words", "offered"), CASES, ids=IDS)
def test_zsh_offers_what_can_follow(scripts: Path, words: list[str], offered: set[str]) -> None:
    needs("zsh", has_command("zsh"))
    code = (
        'compdef() { :; }; _files() { :; }; compadd() { shift; print -l -- "$@"; }; '
        'source "$0"; words=("$@"); CURRENT=$#; _relay'
    )

    done = subprocess.run(
        ["zsh", "-f", "-c", code, str(scripts / "zsh"), *words],
        capture_output=True,
        text=True,
        check=True,
    )

    # zsh itself keeps to what begins as the word does.
    assert {each for each in done.stdout.split() if each.startswith(words[-1])} == offered
