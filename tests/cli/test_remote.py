"""The everyday commands over a real server, by --url and by CONTEXTRELAY_URL."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from contextrelay import Gone, Relay
from tests.cli.shell import Shell
from tests.server.serving import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Generator[Served]:
    with serving(tmp_path / "served") as running:
        yield running


@pytest.fixture(params=["--url", "CONTEXTRELAY_URL"])
def far(request: pytest.FixtureRequest, shell: Shell, served: Served) -> Shell:
    """A shell whose commands ask the server."""
    if request.param == "CONTEXTRELAY_URL":
        shell.env["CONTEXTRELAY_URL"] = served.url
        return shell
    return Urged(shell.home, served.url)


class Urged(Shell):
    """A shell that says --url with every command."""

    def __init__(self, home: Path, url: str) -> None:
        super().__init__(home)
        self._url = url

    def run(
        self, *words: str, stdin: bytes = b"", human: bool = False, real: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        return super().run("--url", self._url, *words, stdin=stdin, human=human, real=real)


def test_push_pull_and_peek(far: Shell, served: Served) -> None:
    """Promises R7, R14."""
    words = ("push", "--meta", "summary=Orders", "--ttl", "24h")
    pushed = far.json(*words, "--channel", "room", stdin=b"a\x00b")

    assert pushed["url"] == f"{served.url}/pull/{pushed['ref']}"
    assert (pushed["ttl_s"], pushed["channel"]) == (86_400, "room")
    assert far.run("pull", pushed["ref"][:8]).stdout == b"a\x00b"
    assert far.run("pull", "@last", "--bytes", "1:").stdout == b"\x00b"
    assert far.json("peek", pushed["url"])["summary"] == "Orders"
    assert far.json("peek", far.out("push", "--pin", stdin=b"x").strip(), "--full")["ttl_s"] is None
    assert not (far.home / "store").exists()


def test_threads_state_and_artifacts(far: Shell) -> None:
    """Promise R14."""
    thread = far.out("thread", "new", "--name", "orders").strip()
    far.out("state", "add", "fact", "Orders owns the schema")
    ref = far.out("artifact", "put", "-t", "orders", stdin=b"notes").strip()

    assert far.json("thread", "show", "orders")["thread_id"] == thread
    assert far.json("state", "show", ":/facts/0")["value"] == "Orders owns the schema"
    assert far.out("artifact", "list", "-t", thread).split() == [ref]
    assert far.run("artifact", "get", ref, "-t", "orders").stdout == b"notes"
    assert "Orders owns" in far.out("state", "header", human=True)
    assert far.json("artifact", "show", ref)["artifact"]["ref"] == ref
    assert far.json("verify")["problem_count"] == 0


@pytest.mark.parametrize("words", [["init"], ["thread", "files"]])
def test_what_is_about_the_files_of_a_store_is_done_on_its_machine(
    shell: Shell, served: Served, words: list[str]
) -> None:
    code, error = shell.fails("--url", served.url, *words)

    assert code == 2
    assert "is a server" in error
    assert "on the machine of the store" in error
    assert not (shell.home / "store").exists()


def test_doctor_looks_at_a_server_as_far_as_it_can(shell: Shell, served: Served) -> None:
    done = shell.run("--url", served.url, "doctor")

    assert done.returncode == 0, done.stdout.decode()
    assert b"on the machine of the store" in done.stdout


def test_an_option_goes_before_contextrelay_url_and_that_before_relay_home(
    shell: Shell, served: Served
) -> None:
    """Promise R14."""
    here = shell.out("push", stdin=b"here").strip()
    shell.env["CONTEXTRELAY_URL"] = served.url
    there = shell.out("push", stdin=b"there").strip()
    asked = shell.out("--store", str(shell.home / "asked"), "push", stdin=b"asked").strip()

    assert here.startswith("relay:///pull/")
    assert there.startswith(f"{served.url}/pull/")
    assert asked.startswith("relay:///pull/")
    assert shell.run("pull", here).returncode == 3
    assert shell.run("--store", str(shell.home / "store"), "pull", here).stdout == b"here"


def test_a_url_is_pulled_from_its_own_server_with_nothing_set_up(
    shell: Shell, served: Served
) -> None:
    url = shell.out("--url", served.url, "push", "--meta", "a=b", stdin=b"content").strip()

    assert shell.run("pull", url).stdout == b"content"
    assert shell.json("peek", url)["a"] == "b"
    assert shell.run("artifact", "get", url).stdout == b"content"
    assert shell.json("artifact", "show", url)["artifact"]["size"] == 7
    assert not (shell.home / "store").exists()


def test_the_key_goes_to_the_server_that_was_chosen_and_to_no_other(shell: Shell) -> None:
    """Promise R10: the key goes only to the base URL's origin."""
    ref = "00000000-0000-4000-8000-000000000000"
    with listening() as (ours, our_keys), listening() as (others, other_keys):
        shell.env |= {"CONTEXTRELAY_URL": ours, "CONTEXTRELAY_API_KEY": "secret"}
        shell.run("peek", f"{ours}/pull/{ref}")
        shell.run("peek", f"{others}/pull/{ref}")
        shell.run("--url", others, "peek", ref)
        del shell.env["CONTEXTRELAY_URL"]
        shell.run("peek", f"{others}/pull/{ref}")

    assert our_keys == ["Bearer secret"]
    assert other_keys == [None, None, None]


@contextmanager
def listening() -> Generator[tuple[str, list[str | None]]]:
    """A server that has nothing, and the keys that it was given."""
    keys: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers["authorization"])
            body = json.dumps({"error": "not_found", "status": 404}).encode()
            self.send_response(404)
            self.send_header("content-type", "application/problem+json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", keys
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_server_that_is_not_there_is_reported_with_what_to_do(shell: Shell) -> None:
    code, error = shell.fails("--url", "http://127.0.0.1:1", "peek", "@last")

    assert code == 1
    assert "no relay is running at http://127.0.0.1:1" in error


def test_with_a_local_store_nothing_of_the_network_is_imported(shell: Shell) -> None:
    code = (
        "import sys; from contextrelay.cli.main import run; run(['push', '-']);"
        "run(['publish', 'room', 'x']); run(['wait', 'room', '--since', '0']);"
        "print(sorted(set(sys.modules) & {'httpx2', 'uvicorn', 'websockets', 'asyncio', 'ssl'}))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], input=b"x", capture_output=True, env=shell.env, check=True
    )

    assert done.stdout.splitlines()[-1] == b"[]"


def test_a_diff_of_the_urls_of_another_server_asks_that_server(shell: Shell) -> None:
    with serving("memory:there") as there, serving("memory:third") as third:
        with Relay(there.url) as relay:
            old, new = (f"{there.url}/pull/{relay.push(body).ref}" for body in ("a\nb", "a\nc"))
        with Relay(third.url) as relay:
            far = f"{third.url}/pull/{relay.push('x').ref}"

        text = shell.out("diff", old, new)
        code, error = shell.fails("diff", old, far)

    assert "-b" in text
    assert "+c" in text
    assert (code, "in different stores" in error) == (2, True)


def test_the_url_of_another_server_changes_nothing_here(shell: Shell, tmp_path: Path) -> None:
    """The same ref is in both stores, as after a migration or a restore."""
    ref = shell.out("push", "--quiet", stdin=b"zebra crossing").strip().rpartition("/")[2]
    shell.out("backup", "-o", str(tmp_path / "all"))
    with serving(tmp_path / "there") as there, Relay(there.url) as relay:
        relay.restore(tmp_path / "all")
        url = f"{there.url}/pull/{ref}"
        shell.out("artifact", "pin", url)
        pinned = [shell.json("artifact", "show", each)["artifact"] for each in (ref, url)]
        found = shell.json("search", "zebra", "--ref", url)
        shell.out("artifact", "rm", url)
        with pytest.raises(Gone):
            relay.peek(ref)

    assert [each["expires_at"] is None for each in pinned] == [False, True]
    assert [hit["ref"] for hit in found["hits"]] == [ref]
    assert shell.out("pull", ref) == "zebra crossing"
