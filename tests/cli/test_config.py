"""Settings on the command line: looked at, changed, checked before they are written."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cli.shell import Shell


def test_a_setting_is_changed_obeyed_and_taken_back(shell: Shell) -> None:
    path = shell.home / "store" / "config.json"

    assert shell.out("config", "path").strip() == str(path)
    assert shell.out("config", "get", "ttl_s").strip() == "86400"
    shell.out("config", "set", "ttl_s", "60")
    shell.out("config", "set", "extend_on_read", "on")
    assert json.loads(path.read_bytes())["ttl_s"] == 60
    assert shell.json("push", stdin=b"x")["ttl_s"] == 60
    assert shell.json("config", "list")["extend_on_read"] is True
    assert "(default: 86400)" in shell.out("config", "list", human=True)
    shell.out("config", "set", "ttl_s", "default")
    assert shell.json("config", "get", "ttl_s") == 86_400


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [(["get", "ttl"], 3, "did you mean ttl_s?"), (["set", "ttl_s", "soon"], 2, "ttl_s")],
)
def test_a_wrong_setting_is_refused_and_the_file_stays(
    shell: Shell, words: list[str], code: int, says: str
) -> None:
    shell.out("config", "set", "ttl_s", "60")
    before = (shell.home / "store" / "config.json").read_bytes()

    got, error = shell.fails("config", *words)

    assert (got, says in error) == (code, True), error
    assert (shell.home / "store" / "config.json").read_bytes() == before


def test_a_broken_file_is_named_and_never_overwritten(shell: Shell) -> None:
    shell.out("init")
    path = shell.home / "store" / "config.json"
    path.write_text("{broken")

    code, error = shell.fails("config", "set", "ttl_s", "60")

    assert code == 2
    assert str(path) in error
    assert path.read_text() == "{broken"
    assert shell.out("config", "path").strip() == str(path)


def test_two_who_change_different_settings_at_once_lose_neither(shell: Shell) -> None:
    """Promise G1: many processes at once."""
    changes = {"ttl_s": "60", "hops_max": "7", "prompt_calls": "3", "signals_kept_max": "99"}

    def change(item: tuple[str, str]) -> str:
        return shell.out("config", "set", *item, real=True)

    with ThreadPoolExecutor(len(changes)) as pool:
        list(pool.map(change, changes.items()))

    listed = shell.json("config", "list")
    assert {key: str(listed[key]) for key in changes} == changes
