"""relay serve: a real server in real processes, as a person or a service manager runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.cli.shell import Shell
from tests.store.engines import free_port


def answer_of(url: str) -> bytes:
    with urlopen(url, timeout=30) as reply:
        return reply.read()


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_it_prints_its_url_once_it_listens_and_ends_well(
    shell: Shell, workers: str, by: signal.Signals
) -> None:
    """Promise R13: the root says that the API runs."""
    with shell.started("serve", "--port", "0", "--workers", workers) as server:
        url = server.line()
        running = answer_of(url)
        code, more, said = server.ended(by)

    assert running == b"ContextRelay API is running."
    assert (code, more, said) == (0, "", "")


def test_who_waits_for_a_signal_does_not_hold_up_its_end(shell: Shell) -> None:
    for workers in ("1", "2"):
        with shell.started("serve", "--port", "0", "--workers", workers) as server:
            url = server.line()
            with shell.started("--url", url, "subscribe", "room") as subscriber:
                assert "listening" in subscriber.note()
                code, _, said = server.ended(signal.SIGTERM)

        assert (code, said) == (0, "")


def test_a_port_that_is_taken_is_reported_with_what_to_do(shell: Shell) -> None:
    with shell.started("serve", "--port", "0") as server:
        port = server.line().rpartition(":")[2]
        code, error = shell.fails("serve", "--port", port)

    assert code == 2
    assert port in error
    assert "--port 0" in error


@pytest.mark.parametrize(
    "words",
    [
        ["--host", "0.0.0.0"],
        ["--require-token"],
        ["--public-url", "https://relay.example.com"],
        ["--allow-host", "localhost", "--allow-host", "192.0.2.7"],
    ],
)
def test_where_a_key_is_needed_it_does_not_start_while_nobody_has_one(
    shell: Shell, words: list[str]
) -> None:
    """Promise Z1: any other address refuses to start without keys, and says how."""
    revoked = shell.json("keys", "new", "--scope", "admin")["key"]["id"]
    shell.out("keys", "revoke", revoked)

    code, error = shell.fails("serve", *words, "--port", str(free_port()))

    assert code == 2
    assert "the store has none" in error
    assert "--token auto" in error
    assert "relay keys new" in error


def status_of(url: str, token: str = "") -> int:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        with urlopen(Request(f"{url}/v1/artifacts", headers=headers), timeout=30) as reply:
            return reply.status
    except HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize("store", ["folder", "memory:"])
def test_token_auto_makes_an_admin_key_and_shows_it_once(shell: Shell, store: str) -> None:
    """Promise Z1: relay serve --token auto."""
    words = [] if store == "folder" else ["--store", store]
    with shell.started(*words, "serve", "--port", "0", "--token", "auto", "--json") as server:
        text = json.loads(server.line())
        assert (status_of(text["url"]), status_of(text["url"], text["token"])) == (401, 200)
        shell.env |= {"CONTEXTRELAY_API_KEY": text["token"], "CONTEXTRELAY_URL": text["url"]}
        keys = shell.json("keys", "list")["keys"]
        _, _, said = server.ended(signal.SIGTERM)

    assert [key["scope"] for key in keys] == ["admin"]
    assert text["token"][19:] not in said
    if store == "folder":
        with shell.started("serve", "--port", "0", "--token", "auto", "--json") as server:
            again = json.loads(server.line())
            assert "token" not in again
            assert "already exists" in server.note()
            assert (status_of(again["url"]), status_of(again["url"], text["token"])) == (401, 200)


def test_beyond_this_machine_it_asks_everybody_for_a_key(shell: Shell) -> None:
    """Promise Z1: any other address needs them."""
    token = shell.out("keys", "new", "--scope", "read").strip()

    with shell.started("serve", "--host", "0.0.0.0", "--port", "0") as server:
        url = server.line()

        assert (status_of(url), status_of(url, token)) == (401, 200)
        assert answer_of(url) == b"ContextRelay API is running."


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--store", "memory:", "serve", "--workers", "2"], "cannot share a store in memory"),
        (["--store", "http://127.0.0.1:1", "serve"], "is a server, not a store"),
        (["serve", "--port", "65536"], "is not a valid port"),
        (["serve", "--port", "0", "--public-url", "relay.example.com"], "invalid public URL"),
        (["serve", "--port", "0", "--host", "no.such.host.invalid"], "is not an address"),
    ],
)
def test_wrong_use_is_reported_before_it_listens(shell: Shell, words: list[str], says: str) -> None:
    code, error = shell.fails(*words)

    assert code == 2
    assert says in error


def test_it_serves_the_store_of_this_machine_whatever_others_ask(shell: Shell) -> None:
    shell.env["CONTEXTRELAY_URL"] = "http://127.0.0.1:1"

    with shell.started("serve", "--port", "0", "--json") as server:
        assert json.loads(server.line())["store"] == str(shell.home / "store")


def test_behind_a_proxy_it_asks_everybody_for_a_key(shell: Shell) -> None:
    """Promise Z1: who comes by a name that others know is not on this machine."""
    token = shell.out("keys", "new", "--scope", "read").strip()
    port = free_port()

    with shell.started(
        "serve", "--port", str(port), "--public-url", "https://relay.example.com"
    ) as server:
        server.line()
        url = f"http://127.0.0.1:{port}"

        assert (status_of(url), status_of(url, token)) == (401, 200)


def test_names_of_this_machine_alone_need_no_key(shell: Shell) -> None:
    """Promise Z1: on loopback without tokens."""
    names = ["--public-url", "http://localhost:9999", "--allow-host", "127.0.0.1:9999"]
    port = free_port()

    with shell.started("serve", "--port", str(port), *names, "--allow-host", "[::1]:1") as server:
        server.line()

        assert status_of(f"http://127.0.0.1:{port}") == 200


def test_without_its_parts_it_says_how_to_install_them(shell: Shell) -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None; from contextrelay.cli.main import run;"
        "sys.exit(run(['serve', '--port', '0']))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=shell.env, timeout=60
    )

    assert done.returncode == 1
    assert "uvicorn" in done.stderr
    assert "pip install 'contextrelay[server]'" in done.stderr
