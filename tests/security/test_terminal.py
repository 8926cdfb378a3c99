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
from contextrelay.doors.cli.command_table import every_command
from contextrelay.doors.project.init import make_project
from contextrelay.project import Project
from tests.doors.cli.shell import Shell
from tests.doors.http.serving import serving
from tests.security.terminal import harmful, on_a_terminal, shown_by

# OSC 52 writes to the clipboard, CSI clears the screen, C1 does both in one character; then bidi,
# zero-width and tag characters, a carriage return, a backspace and DEL.
HOSTILE = (
    "\x1b]52;c;cm0gLXJm\x07\x1b[2J\x1b[8m\x9b31m\x9d0;title\x9c\u202eright\u2066to\u200bleft\ufeff"
    "\U000e0041 over\rwritten\x08\x7f\x85\u2028end"
)
# Names of a store hold none of this, so the server below puts it in the place of this word.
WORD = "EVILNAME"


class World:
    """A store and a project full of hostile content, and the names that commands need."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "project\x1b[2J\u202e"
        self.body = f"# Head {HOSTILE}\n\nneedle {HOSTILE} {WORD}\n"
        with Relay(home / "store") as relay:
            self._fill(relay)
        self._make_project()
        for name in ("body.md", "other.md"):
            (home / name).write_text(f"{name}\n{self.body}")
        (home / "patch.json").write_text(json.dumps([_fact("p")]))

    def _fill(self, relay: Relay) -> None:
        column = HOSTILE.replace("\r", "")
        about: dict[str, Any] = {"metadata": {HOSTILE: HOSTILE, "k": WORD}, "created_by": WORD}
        pushed = relay.push(self.body, name=f"{WORD}.md", channel=f"c/{WORD}", **about)
        self.ref = pushed.ref
        self.table = relay.push(f"a,{column}\n1,{column}\n" * 3, name="t.csv", **about).ref
        self.json = relay.push(json.dumps({HOSTILE: [HOSTILE, WORD]}), name="x.json").ref
        self.code = relay.push(f"def needle():\n    return '{HOSTILE}'\n", name="x.py").ref
        self.sealed = relay.push(self.body, seal=True, name=WORD).url
        thread = relay.new_thread(f"thread {WORD}", WORD)
        self.thread = thread.id
        for operation in (
            _fact("f1"),
            {"op": "add", "path": "/constraints/-", "value": _constraint()},
            {"op": "add", "path": "/open_questions/-", "value": _question()},
            {"op": "add", "path": "/plan/-", "value": _step()},
            {"op": "add", "path": f"/own {HOSTILE}", "value": {HOSTILE: HOSTILE}},
            {"op": "add", "path": "/session_summary", "value": HOSTILE},
        ):
            thread.patch([operation], by=WORD)
        thread.checkpoint(WORD, WORD)
        thread.add_event("custom.event", {HOSTILE: HOSTILE}, WORD)
        thread.put(self.body, name=f"{WORD} put.md", created_by=WORD)
        block = {"type": "MEMORY", "relevance_score": 1.0, "group": HOSTILE}
        thread.put(f"a needle {HOSTILE}", metadata={"block": block})
        self.handoff = thread.hand_off("agent", f"do {HOSTILE}", by=WORD).ref
        self.taken = thread.hand_off("agent", f"do {HOSTILE} {WORD}", by=WORD).ref
        relay.publish(f"c/{WORD}", HOSTILE)
        relay.publish(f"c/{WORD}", {HOSTILE: [HOSTILE]})
        self.key = relay.new_key(name=WORD).key.id
        self.key_to_revoke = relay.new_key(name=WORD).key.id
        self.doomed = relay.push(self.body, name=WORD).ref
        self.doomed_thread = relay.new_thread(f"doomed {WORD}").id
        gone = relay.push(self.body, name=WORD, metadata={HOSTILE: HOSTILE})
        relay.remove(gone.ref)
        self.gone = gone.ref
        thread.export(self.home / "thread.zip")

    def _make_project(self) -> None:
        self.folder.mkdir()
        project = Project(self.folder)
        make_project(project, "orders", HOSTILE.replace("\r", ""))
        names = ("current_task", "phase", "notes")
        state = json.loads((self.folder / "state.json").read_text())
        for name in names:
            state[name] = HOSTILE
        state["progress"] = {
            "completed": [HOSTILE],
            "in_progress": HOSTILE,
            "blocked": [HOSTILE],
            "next_steps": [HOSTILE],
        }
        state[f"own {HOSTILE}"] = HOSTILE
        (self.folder / "state.json").write_text(json.dumps(state))
        for index in range(8):
            project.todos.add(f"todo {index} {HOSTILE}", description=HOSTILE, notes=HOSTILE)
        with (self.folder / "decisions.md").open("a") as decisions:
            decisions.write(f"\n## ADR-001: choose {HOSTILE}\n\n**Status**: {HOSTILE}\n\nWhy\n")
        with (self.folder / "PROJECT.md").open("a") as about:
            about.write(f"\n## Notes\n\n{HOSTILE}\n")

    @property
    def env(self) -> dict[str, str]:
        return {**_in_colour(self.home), "RELAY_PROJECT": str(self.folder)}


def _in_colour(home: Path) -> dict[str, str]:
    return {name: value for name, value in Shell(home).env.items() if name != "NO_COLOR"}


def _fact(id: str) -> dict[str, Any]:
    value = {"id": id, "key": f"{HOSTILE} {WORD}", "value": HOSTILE}
    return {"op": "add", "path": "/facts/-", "value": value}


def _constraint() -> dict[str, Any]:
    return {"id": "c1", "description": HOSTILE, "severity": "hard"}


def _question() -> dict[str, Any]:
    return {"id": "q1", "question": HOSTILE, "status": "open"}


def _step() -> dict[str, Any]:
    return {"id": "s1", "step": HOSTILE, "status": "pending"}


# Commands that go on until they are ended: tested below, but mcp, whose stdout is for a program.
LASTING = {"serve", "mcp", "bridge start"}


def commands(world: World) -> dict[str, list[list[str]]]:
    """Every command, with words that make it show what others wrote."""
    ref, thread = world.ref, world.thread
    channel = f"c/{WORD}"
    in_thread = ["-t", thread]
    shown: dict[str, list[list[str]]] = {
        "demo": [["--clean"]],
        "init": [[]],
        "push": [
            ["body.md", "--meta", f"k={HOSTILE}"],
            ["none\x1b[2J"],
            ["body.md", "--name", HOSTILE],
        ],
        "pull": [
            [ref],
            [ref, "-o", "out.md"],
            [world.sealed],
            [world.gone],
            [f"no\x1b[2J{HOSTILE}"],
        ],
        "peek": [[ref], [ref, "--full"], [world.gone], [world.sealed]],
        "get": [
            [ref, "--lines", "1:9"],
            [ref, "--outline"],
            [ref, "--digest"],
            [ref, "--grep", "needle"],
            [ref, "--bytes", "0:99"],
            [ref, "--tokens", "0:50"],
            [ref, "--heading", "Head"],
            [ref, "--heading", HOSTILE],
            [ref],
            [world.json, "--json-pointer", ""],
            [world.json, "--json-path", "$.*"],
            [world.json, "--json-pointer", f"/{HOSTILE}x"],
            [world.table, "--rows", "0:2"],
            [world.table, "--rows", "0:2", "--columns", f"{HOSTILE}x"],
            [world.code, "--symbol", "needle"],
            [world.sealed, "--lines", "1:9"],
        ],
        "grep": [["needle"], ["needle", ref], ["needle", *in_thread], [f"({HOSTILE}", ref]],
        "diff": [[ref, world.table], [ref, world.json]],
        "search": [["needle right"], ["needle", "--ref", ref], [HOSTILE]],
        "subscribe": [
            [channel, "--since", "0", "--once", "--timeout", "5"],
            [channel, "--since", "1", "--once", "--timeout", "5"],
            [channel, "--since", "2", "--once", "--timeout", "5"],
            [channel, "--since", "0", "--once", "--timeout", "5", "--pull"],
        ],
        "publish": [[channel, HOSTILE], [HOSTILE, "x"]],
        "channels": [[], ["--limit", "1"]],
        "wait": [[channel, "--since", "0", "--timeout", "5"]],
        "events": [[thread], [thread, "--jsonl"]],
        "tail": [[thread, "--after", "0", "--timeout", "0.2"]],
        "checkpoint": [["here", *in_thread], [HOSTILE, *in_thread]],
        "stats": [[thread], ["--all"]],
        "report": [[thread], [thread, "--format", "json"], [thread, "--format", "html"]],
        "export": [[thread, "-o", "again.zip"], [thread]],
        "import": [["thread.zip"], ["body.md"], [f"none{HOSTILE}"]],
        "gc": [[]],
        "verify": [[]],
        "backup": [["-o", "all.tar"]],
        "restore": [["all.tar"], ["body.md", "--store", "another"]],
        "doctor": [[]],
        "prime": [[]],
        "completion": [["bash"], [HOSTILE]],
        "version": [[]],
        "thread new": [["--name", "another"], ["--name", HOSTILE]],
        "thread list": [[], ["--limit", "1"]],
        "thread show": [[thread], [HOSTILE], [WORD]],
        "thread fork": [[thread]],
        "thread close": [[world.doomed_thread]],
        "thread rm": [[world.doomed_thread, "--yes"]],
        "thread files": [[thread]],
        "state header": [[thread], [HOSTILE]],
        "state show": [[thread], [f"{thread}:/session_summary"], [f"{thread}:/{HOSTILE}"]],
        "state patch": [["--file", "patch.json", *in_thread], ["--json", HOSTILE, *in_thread]],
        "state diff": [["v1", "v5", *in_thread]],
        "state log": [[thread]],
        "state restore": [["v5", *in_thread]],
        "state add": [["fact", HOSTILE, *in_thread], ["fact", f"{HOSTILE}={HOSTILE}", *in_thread]],
        "state resolve": [["q1", *in_thread], [HOSTILE, *in_thread]],
        "state compact": [[thread]],
        "state adopt": [[thread]],
        "artifact put": [["other.md", *in_thread]],
        "artifact get": [[ref], [ref, *in_thread]],
        "artifact list": [[], in_thread],
        "artifact show": [[ref], [world.table], [world.json]],
        "artifact pin": [[ref]],
        "artifact rm": [[world.doomed]],
        "context add": [[HOSTILE, *in_thread]],
        "context pack": [["needle", *in_thread], ["needle", "--why", *in_thread]],
        "context score": [["needle", *in_thread]],
        "context show": [in_thread],
        "context prune": [["needle", "--budget", "100", *in_thread]],
        "context export": [["needle", *in_thread], ["needle", "-o", "package.json", *in_thread]],
        "context import": [["package.json", *in_thread], ["body.md", *in_thread]],
        "handoff give": [["--to", "b", "--ask", HOSTILE, *in_thread]],
        "handoff accept": [[world.handoff]],
        "handoff return": [[world.handoff, "body.md", "--name", "x"]],
        "handoff list": [[]],
        "handoff show": [[world.taken], [world.taken, "--why"]],
        "cap list": [[]],
        "cap invoke": [
            ["retrieval.search", "--arg", "query=needle"],
            ["retrieval.search", "--arg", f"{HOSTILE}=x"],
            [HOSTILE],
        ],
        "cap purge": [[]],
        "bridge send": [[f"task {HOSTILE}"], ["task", "--wait", "--timeout", "0.2"]],
        "bench context": [["--sizes", "20", "--article-max", "20"]],
        "keys new": [["--name", "another"], ["--name", HOSTILE]],
        "keys list": [[]],
        "keys revoke": [[world.key_to_revoke], [HOSTILE]],
        "keys usage": [[], [world.key]],
        "project init": [["another"]],
        "project start": [[], ["--agent"]],
        "project finish": [["--task", HOSTILE, "--notes", HOSTILE], [HOSTILE]],
        "project status": [[]],
        "project next": [[]],
        "project decide": [[HOSTILE, "--context", HOSTILE]],
        "project decisions": [[], ["ADR-001"], ["ADR-002"]],
        "project note": [[HOSTILE]],
        "project doctor": [[]],
        "project restore": [["v1"], ["v999"]],
        "project todo add": [[f"new {HOSTILE}"]],
        "project todo start": [["todo-001", HOSTILE], [HOSTILE]],
        "project todo done": [["todo-001", HOSTILE]],
        "project todo block": [["todo-002", HOSTILE]],
        "project todo unblock": [["todo-002", HOSTILE]],
        "project todo cancel": [["todo-002", HOSTILE]],
        "project todo list": [["--all"]],
        "project todo review": [[]],
        "project todo archive": [[]],
        "project task give": [[HOSTILE, "--expect", HOSTILE]],
        "project task take": [[]],
        "project task return": [[HOSTILE]],
        "project task list": [[]],
        "project heartbeat": [["--exec", r"printf '\033[2J\302\233x'"]],
        "config list": [[]],
        "config get": [["ttl_s"], [HOSTILE]],
        "config set": [["ttl_s", HOSTILE]],
        "config path": [[], ["--store", f"a{HOSTILE}b".replace("\0", "")]],
    }
    assert {*shown, *LASTING} == {name for name, _ in every_command()}, "say here how to show it"
    return {name: [[*name.split(), *words] for words in several] for name, several in shown.items()}


def _shown(world: World, before: list[str], env: dict[str, str]) -> dict[str, str]:
    """What every command showed, by its words; removals come last."""
    every = [words for several in commands(world).values() for words in several]
    every.sort(key=lambda words: words[1:2] in (["rm"], ["revoke"], ["close"]))
    if before[:1] == ["--url"]:
        every.remove(
            ["bridge", "send", "task", "--wait", "--timeout", "0.2"]
        )  # No WebSockets there.
    every += [[HOSTILE], ["thread", HOSTILE], ["push", f"--{HOSTILE}"], ["help", HOSTILE]]
    shown = on_a_terminal([[*before, *words] for words in every], env, world.home)
    return {" ".join(words): text for words, text in zip(every, shown, strict=True)}


def _check(shown: dict[str, str]) -> None:
    bad = {words: found[:3] for words, text in shown.items() if (found := harmful(text))}
    assert not bad, json.dumps(bad, indent=1)[:6000]
    # It was there to be cleaned, in many places.
    assert sum("<U+001B>" in text or "<U+202E>" in text for text in shown.values()) > 40


def test_no_command_lets_an_escape_through_to_the_terminal(tmp_path: Path) -> None:
    world = World(tmp_path)

    shown = _shown(world, [], world.env)

    _check(shown)


def test_json_on_a_terminal_is_the_same_value_without_a_character_that_acts(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)

    shown = _shown(world, ["--json"], world.env)

    bad = {words: found[:3] for words, text in shown.items() if (found := harmful(text))}
    assert not bad, json.dumps(bad, indent=1)[:6000]
    state = json.loads(shown[f"state show {world.thread}:/session_summary"].splitlines()[0])
    assert state == HOSTILE
    metadata = json.loads(shown[f"peek {world.ref}"].splitlines()[0])
    assert metadata == {HOSTILE: HOSTILE, "k": WORD}


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
        told = answer.read()
        asked.close()
        if "json" in (answer.getheader("content-type") or ""):
            escaped = json.dumps(HOSTILE)[1:-1].encode()
            told = told.replace(WORD.encode(), escaped)
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

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


def test_no_name_that_a_server_tells_acts_on_the_terminal(tmp_path: Path) -> None:
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
    told = {
        "error": f"no {HOSTILE}\nerror: two",
        "hint": HOSTILE,
        "detail": HOSTILE,
        HOSTILE: HOSTILE,
    }
    return json.dumps(told | more).encode()


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


@pytest.mark.parametrize(("status", "media_type", "body"), ERRORS.values(), ids=ERRORS)
def test_no_error_of_a_server_acts_on_the_terminal_or_in_a_pipe(
    status: int, media_type: str, body: bytes, tmp_path: Path
) -> None:
    """Errors are cleaned wherever they go: logs and pipes are looked at on a terminal later."""
    ref = "0" * 8 + "-0000-4000-8000-" + "0" * 12
    asked = [
        ["peek", ref],
        ["pull", ref],
        ["thread", "list"],
        ["publish", "c", "x"],
        ["cap", "list"],
    ]
    env = _in_colour(tmp_path)
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

    told = json.loads(done.stderr)
    assert told["error"] == "not_found"
    assert "overruled" not in told["message"]


# Commands that go on


def test_the_server_logs_no_escape_of_a_request(tmp_path: Path) -> None:
    """Of each process, for several have logs of their own; nor does a request make up a line."""
    code = (
        "import sys, logging; from contextrelay.doors.http.server.serve import quiet_logs;"
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
