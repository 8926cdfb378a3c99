"""Channels on the command line: on a store of its own, and over a real server."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from contextrelay import Relay, Settings
from contextrelay.identity import user_name
from tests.cli.shell import Shell
from tests.server.serving import serving, serving_apart


@pytest.fixture(params=["here", "over http"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Shell]:
    shell = Shell(tmp_path)
    if request.param == "here":
        yield shell
        return
    with serving(tmp_path / "store") as served:
        shell.env["CONTEXTRELAY_URL"] = served.url
        shell.env["RELAY_HOME"] = str(tmp_path / "elsewhere")
        yield shell


def test_what_is_published_is_numbered_waited_for_and_listed(shell: Shell) -> None:
    """Promise S5."""
    assert shell.out("publish", "a/b c", "hello") == "1\n"
    assert shell.out("publish", "a/b c", "-", stdin="größer\n".encode()) == "2\n"

    assert shell.out("wait", "a/b c", "--since", "0") == 'hello\n"größer\\n"\n'
    page = shell.json("wait", "a/b c", "--since", "1")
    assert [(each["seq"], each["from"], each["message"]) for each in page["signals"]] == [
        (2, user_name(), "größer\n")
    ]
    assert (page["head"], page["gap"]) == (2, None)
    assert shell.out("channels") == "a/b c\n"
    assert [(each["name"], each["head"]) for each in shell.json("channels")["channels"]] == [
        ("a/b c", 2)
    ]
    assert shell.out("channels", human=True).split()[:3] == ["a/b", "c", "2"]


def test_where_nothing_comes_the_exit_code_says_so(shell: Shell) -> None:
    for words in (["wait", "room"], ["subscribe", "room", "--once"]):
        code, error = shell.fails(*words, "--timeout", "0.2")

        assert code == 3
        assert "no signal within 0.2 s" in error
    assert shell.run("subscribe", "room", "--timeout", "0.2").returncode == 0


def test_a_subscriber_gets_the_url_of_what_is_pushed(shell: Shell) -> None:
    with shell.started("subscribe", "room", "--once") as subscriber:
        assert subscriber.note() == "listening to room; press Ctrl-C to stop"
        url = shell.out("push", "--channel", "room", stdin=b"body").strip()

        assert subscriber.line() == url
        assert subscriber.ended()[0] == 0
    assert shell.run("pull", url).stdout == b"body"


def test_each_signal_is_one_json_object_a_line(shell: Shell) -> None:
    url = shell.out("push", "--channel", "room", "--by", "coder", stdin=b"body").strip()
    shell.out("publish", "room", "two\nlines", "--by", "planner")

    text = shell.out("subscribe", "room", "--json", "--since", "0", "--timeout", "0.2")
    first, second = map(json.loads, text.splitlines())

    assert first == {"seq": 1, "ts": first["ts"], "from": "coder", "url": url}
    assert second == {"seq": 2, "ts": second["ts"], "from": "planner", "message": "two\nlines"}


def test_pull_prints_the_body_instead(shell: Shell) -> None:
    shell.out("push", "--channel", "room", stdin=b"text")
    shell.out("push", "--channel", "room", stdin=b"\xff\x00")
    since = ("subscribe", "room", "--pull", "--since")

    assert shell.run(*since, "1", "--once").stdout == b"\xff\x00"
    lines = shell.out(*since, "0", "--json", "--timeout", "0.2").splitlines()
    assert json.loads(lines[0])["data"] == "text"
    assert json.loads(lines[1])["base64"] == "/wA="


def test_a_body_that_is_gone_is_noted_and_the_next_one_comes(shell: Shell) -> None:
    url = shell.out("push", "--channel", "room", stdin=b"first").strip()
    shell.out("push", "--channel", "room", stdin=b"second")
    shell.out("artifact", "rm", url)

    done = shell.run("subscribe", "room", "--pull", "--since", "0", "--timeout", "0.2")

    assert done.stdout == b"second"
    assert b"1: " in done.stderr
    assert b"was removed" in done.stderr


COMMAND = 'echo "$RELAY_SEQ|$RELAY_CHANNEL|$RELAY_FROM|$RELAY_URL|$RELAY_REF|$RELAY_MESSAGE|$(cat)"'


def test_a_command_gets_the_body_on_stdin_and_the_rest_in_its_environment(shell: Shell) -> None:
    shell.env["RELAY_MESSAGE"] = "stale"
    pushed = shell.json("push", "--channel", "room", "--by", "coder", stdin=b"body")
    shell.out("publish", "room", "$(touch evil) `touch evil`; touch evil")

    text = shell.out(
        "subscribe", "room", "--exec", COMMAND, "--since", "0", "--timeout", "0.2", real=True
    )

    assert text.splitlines() == [
        f"1|room|coder|{pushed['url']}|{pushed['ref']}||body",
        f"2|room|{user_name()}|||$(touch evil) `touch evil`; touch evil|",
    ]
    assert not (shell.home / "evil").exists()


def test_a_command_that_fails_is_noted_and_does_not_end_the_rest(shell: Shell) -> None:
    for message in ("one", "two"):
        shell.out("publish", "room", message)
    words = ("subscribe", "room", "--exec", "echo $RELAY_MESSAGE; exit $RELAY_SEQ", "--since", "0")

    done = shell.run(*words, "--timeout", "0.2", real=True)

    assert (done.returncode, done.stdout) == (0, b"one\ntwo\n")
    assert b"1: the command exited with 1\n2: the command exited with 2\n" in done.stderr
    assert shell.run(*words, "--once").returncode == 1


def test_ctrl_c_ends_a_subscriber(shell: Shell) -> None:
    with shell.started("subscribe", "room") as subscriber:
        subscriber.note()
        code, _, said = subscriber.ended(signal.SIGINT)

    assert code == 130
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["subscribe", "room", "--pull", "--exec", "cat"], "not allowed with"),
        (["publish", "x" * 513, "x"], "512"),
        (["publish", "room", "-"], "push"),
    ],
)
def test_wrong_use_exits_with_2(tmp_path: Path, words: list[str], says: str) -> None:
    code, error = Shell(tmp_path).fails(*words, stdin=b"x" * 70_000)

    assert code == 2
    assert says in error


def test_signals_that_are_no_longer_kept_are_reported_as_a_gap(tmp_path: Path) -> None:
    """Promise S4: an older place gets a gap."""
    store = tmp_path / "store"
    with Relay(store, settings=Settings(signals_kept_max=2)) as relay:
        for number in range(5):
            relay.publish("room", number)
    with serving(store) as served:
        for address in (str(store), served.url):
            done = Shell(tmp_path).run("--store", address, "wait", "room", "--since", "1")

            assert done.stdout == b"3\n4\n"
            assert b"gap: signals 2 to 3 of room are no longer stored" in done.stderr


def test_a_subscriber_outlives_its_server_and_misses_nothing(tmp_path: Path) -> None:
    """Promises S3, S4: a lost server is asked again, in order, each once."""
    shell, store = Shell(tmp_path), tmp_path / "store"
    with serving_apart(store) as served:
        shell.env["CONTEXTRELAY_URL"] = served.url
        with shell.started("subscribe", "room", "--json") as subscriber:
            subscriber.note()
            shell.out("publish", "room", "before")
            first = json.loads(subscriber.line())
            os.killpg(served.running.pid, signal.SIGKILL)
            served.running.wait()
            assert "retrying in 1 s" in subscriber.note()
            shell.out("--store", str(store), "publish", "room", "meanwhile")
            with serving_apart(store, port=served.port):
                second = json.loads(subscriber.line())
                shell.out("publish", "room", "after")
                third = json.loads(subscriber.line())

    text = [(each["seq"], each["message"]) for each in (first, second, third)]
    assert text == [(1, "before"), (2, "meanwhile"), (3, "after")]
