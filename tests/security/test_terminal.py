"""The terminal: nothing that others wrote acts on it, whatever command shows it.

Every command of the tree is run on a pty, over a store and a project that are full of escapes,
first as they are, then through a server that puts escapes into every name that it tells.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Relay
from tests.cli.shell import Shell
from tests.rigs import length, rig, some
from tests.security.hostile_store import HOSTILE, WORD, World, commands, in_colour
from tests.security.terminal import harmful, on_a_terminal, shown_by
from tests.server.serving import serving


def _shown(
    world: World, before: list[str], env: dict[str, str], *also: list[str]
) -> dict[str, str]:
    """What every command showed, by its words; in a thin run some of them, and `also` these."""
    every = [words for several in commands(world).values() for words in several]
    every.sort(key=lambda words: words[1:2] in (["rm"], ["revoke"], ["close"]))  # Removals last.
    if before[:1] == ["--url"]:
        every.remove(
            ["bridge", "send", "task", "--wait", "--timeout", "0.2"]
        )  # No WebSockets there.
    every = [*also, *some([words for words in every if words not in also], 40)]
    every += [[HOSTILE], ["thread", HOSTILE], ["push", f"--{HOSTILE}"], ["help", HOSTILE]]
    shown = on_a_terminal([[*before, *words] for words in every], env, world.home)
    return {" ".join(words): text for words, text in zip(every, shown, strict=True)}


def _check(shown: dict[str, str]) -> None:
    bad = {words: found[:3] for words, text in shown.items() if (found := harmful(text))}
    assert not bad, json.dumps(bad, indent=1)[:6000]
    # It was there to be cleaned, in many places.
    assert sum("<U+001B>" in text or "<U+202E>" in text for text in shown.values()) > length(
        8, 40, 40
    )


@rig
def test_no_command_lets_an_escape_through_to_the_terminal(tmp_path: Path) -> None:
    world = World(tmp_path)

    shown = _shown(world, [], world.env)

    _check(shown)


@rig
def test_json_on_a_terminal_is_the_same_value_without_a_character_that_acts(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)

    state_words = ["state", "show", f"{world.thread}:/session_summary"]
    shown = _shown(world, ["--json"], world.env, state_words, ["peek", world.ref])

    bad = {words: found[:3] for words, text in shown.items() if (found := harmful(text))}
    assert not bad, json.dumps(bad, indent=1)[:6000]
    state = json.loads(shown[" ".join(state_words)].splitlines()[0])
    assert state == HOSTILE
    metadata = json.loads(shown[f"peek {world.ref}"].splitlines()[0])
    assert metadata.items() >= {HOSTILE: HOSTILE, "k": WORD}.items()


# A server that tells hostile names


def _sent(request: BaseHTTPRequestHandler) -> bytes:
    """The body of a request, which may come in chunks."""
    if request.headers.get("transfer-encoding") != "chunked":
        return request.rfile.read(int(request.headers.get("content-length") or 0))
    body = b""
    while size_bytes := int(request.rfile.readline().split(b";")[0], 16):
        body += request.rfile.read(size_bytes)
        request.rfile.readline()
    request.rfile.readline()
    return body


class _Changing(BaseHTTPRequestHandler):
    """Passes requests on to a relay, and puts HOSTILE for each WORD that it tells."""

    protocol_version = "HTTP/1.1"
    port = 0

    def _pass_on(self) -> None:
        body = _sent(self)
        kept = ("accept", "content-type", "x-", "authorization", "idempotency", "if-")
        headers = {
            name: value for name, value in self.headers.items() if name.lower().startswith(kept)
        }
        asked = HTTPConnection("127.0.0.1", self.port, timeout=60)
        asked.request(self.command, self.path, body or None, headers)
        answer = asked.getresponse()
        reply = answer.read()
        asked.close()
        if "json" in (answer.getheader("content-type") or ""):
            escaped = json.dumps(HOSTILE)[1:-1].encode()
            reply = reply.replace(WORD.encode(), escaped)
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _pass_on  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def _server(handler: type[BaseHTTPRequestHandler]) -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(20)


@rig
def test_no_name_that_a_server_shows_acts_on_the_terminal(tmp_path: Path) -> None:
    world = World(tmp_path)
    with serving(world.home / "store") as served:

        class Changing(_Changing):
            port = served.port

        with _server(Changing) as url:
            shown = _shown(world, ["--url", url], world.env)

    _check(shown)


def _answering(status: int, media_type: str, body: bytes, **headers: str) -> type[Any]:
    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            _sent(self)
            self.send_response(status, "\x1b[2J")
            for name, value in {"content-type": media_type, **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Answering


def _problem(**more: object) -> bytes:
    reply = {
        "error": f"no {HOSTILE}\nerror: two",
        "hint": HOSTILE,
        "detail": HOSTILE,
        HOSTILE: HOSTILE,
    }
    return json.dumps(reply | more).encode()


ERRORS = {
    "a problem": (404, "application/problem+json", _problem(code="not_found")),
    "one that is gone": (
        410,
        "application/json",
        _problem(code="gone", metadata={HOSTILE: HOSTILE}),
    ),
    "a conflict": (409, "application/json", _problem(code="conflict", version=HOSTILE)),
    "raw C1 in JSON": (
        400,
        "application/json",
        json.dumps({"error": HOSTILE}, ensure_ascii=False).encode(),
    ),
    "plain text": (500, "text/plain", HOSTILE.encode()),
    "a refusal": (401, "text/plain", HOSTILE.encode()),
    "no relay": (200, "application/json", json.dumps({HOSTILE: HOSTILE}).encode()),
    "a message in the details": (
        400,
        "application/json",
        _problem(message=HOSTILE, exit_code=HOSTILE),
    ),
}


@rig
@pytest.mark.parametrize("error", some(ERRORS, 3))
def test_no_error_of_a_server_acts_on_the_terminal_or_in_a_pipe(error: str, tmp_path: Path) -> None:
    """Errors are cleaned wherever they go: logs and pipes are looked at on a terminal later."""
    status, media_type, body = ERRORS[error]
    ref = "0" * 8 + "-0000-4000-8000-" + "0" * 12
    asked = [
        ["peek", ref],
        ["pull", ref],
        ["thread", "list"],
        ["publish", "c", "x"],
        ["cap", "list"],
    ]
    env = in_colour(tmp_path)
    with _server(_answering(status, media_type, body, location=HOSTILE[:5])) as url:
        shown = on_a_terminal([["--url", url, *words] for words in asked], env, tmp_path)
        shown += on_a_terminal([["--json", "--url", url, *words] for words in asked], env, tmp_path)
        for words in asked:
            for json_too in ([], ["--json"]):
                done = Shell(tmp_path).run("--url", url, *json_too, *words)
                shown.append(done.stderr.decode())

    assert all(shown)
    assert not [found for text in shown for found in harmful(text)]
    assert not [text for text in shown if "\nerror: two" in text]


def test_a_server_cannot_overrule_what_an_error_says(tmp_path: Path) -> None:
    """What it adds to a problem does not stand in the place of our own fields."""
    ref = "0" * 8 + "-0000-4000-8000-" + "0" * 12
    more = _problem(code="not_found", message="overruled")
    with _server(_answering(404, "application/json", more)) as url:
        done = Shell(tmp_path).run("--json", "--url", url, "peek", ref)

    reply = json.loads(done.stderr)
    assert reply["error"] == "not_found"
    assert "overruled" not in reply["message"]


# Commands that go on


def test_the_server_logs_no_escape_of_a_request(tmp_path: Path) -> None:
    """Of each process, for several have logs of their own; nor does a request make up a line."""
    code = (
        "import sys, logging; from contextrelay.server.serve import quiet_logs;"
        "quiet_logs(); hostile = sys.argv[1];"
        "logging.getLogger('contextrelay.http').error('in %s', hostile);"
        "logging.getLogger('uvicorn.error').error('in %s', hostile + '\\nERROR forged');"
        "\ntry: raise ValueError(hostile)"
        "\nexcept ValueError: logging.getLogger('uvicorn.error').exception('fault')"
    )
    env = Shell(tmp_path).env
    shown = shown_by([sys.executable, "-c", code, HOSTILE], env, tmp_path, 60)
    assert "<U+001B>" in shown
    assert not harmful(shown)
    assert "\nERROR forged" not in shown


def test_serve_shows_nothing_hostile_of_what_it_is_asked(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "contextrelay", "serve", "--port", "0", "--store"]

    shown = shown_by([*words, f"s{HOSTILE}"], Shell(tmp_path).env, tmp_path, 60, until="http://")

    assert not harmful(shown)


def test_bridge_start_shows_nothing_hostile_of_a_task(tmp_path: Path) -> None:
    env = Shell(tmp_path).env
    words = [sys.executable, "-m", "contextrelay", "bridge", "start", "--task-channel"]

    shown = shown_by([*words, HOSTILE], env, tmp_path, 60)

    assert "error: " in shown
    assert not harmful(shown)


# Bytes stay bytes


def test_what_is_piped_or_written_to_a_file_is_the_same_bytes(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    body = HOSTILE.encode() + bytes(range(256))
    with Relay(tmp_path / "store") as relay:
        ref = relay.push(body).ref

    assert shell.run("pull", ref).stdout == body
    assert shell.run("artifact", "get", ref).stdout == body
    assert shell.run("pull", ref, human=True).stdout == body
    shell.out("pull", ref, "-o", "file")
    assert (tmp_path / "file").read_bytes() == body


def test_what_is_cleaned_on_a_terminal_can_be_read_there(tmp_path: Path) -> None:
    """Line ends of either kind, tabs and every script stay as they are."""
    body = "größer\t日本語 עברית 👍\r\nnext\r\n" * 20_000
    with Relay(tmp_path / "store") as relay:
        ref = relay.push(body).ref

    (shown,) = on_a_terminal([["pull", ref]], Shell(tmp_path).env, tmp_path)

    assert shown == body
