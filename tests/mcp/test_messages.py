"""What is no message, or no good one, is answered, and the next client is served as before."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_types import ToolAnnotations

from contextrelay import Relay
from contextrelay.limits import MCP_MESSAGE_BYTES_MAX
from tests.cli.shell import RELAY, Shell
from tests.mcp.connecting import bad, connecting, good, unfenced
from tests.server.serving import Served, serving

PARSE_ERROR = -32700
INVALID_REQUEST = -32600

NONSENSE = [
    (b"hello", PARSE_ERROR),
    (b"{", PARSE_ERROR),
    (b"\xff\xfe\x00", PARSE_ERROR),
    (b'"\\ud800"', PARSE_ERROR),
    (b"[" * 5_000, PARSE_ERROR),
    (b"null", INVALID_REQUEST),
    (b"[]", INVALID_REQUEST),
    (b"{}", INVALID_REQUEST),
    (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', INVALID_REQUEST),
    (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', INVALID_REQUEST),
    (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', INVALID_REQUEST),
]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "first",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


def said(folder: Path, lines: list[bytes], until: str) -> list[Any]:
    """What a process answers to these lines, up to the answer with an id; then it is left."""
    command = [*RELAY, "mcp", "--store", str(folder / "store")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(b"\n".join(lines) + b"\n")
        running.stdin.flush()
        answers: list[Any] = []
        while not answers or answers[-1]["id"] != until:
            line = running.stdout.readline()
            assert line, answers
            answers.append(json.loads(line))
        running.stdin.close()
        assert running.wait(20) == 0
    return answers


def test_lines_that_are_no_messages_are_answered_and_serving_goes_on(tmp_path: Path) -> None:
    """Promise M1."""
    lines = [json.dumps(INITIALIZE).encode(), *(line for line, _ in NONSENSE)]
    lines.append(b'{"jsonrpc": "2.0", "id": "last", "method": "ping"}')

    answers = said(tmp_path, lines, until="last")

    by_id = {answer["id"]: answer for answer in answers}
    assert by_id["first"]["result"]["protocolVersion"] == "2025-06-18"
    assert by_id["last"]["result"] == {}
    refused = [answer["error"]["code"] for answer in answers if answer["id"] is None]
    assert refused == [code for _, code in NONSENSE]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    with serving(tmp_path_factory.mktemp("messages") / "store") as running:
        yield running


def post(served: Served, body: bytes, **headers: str) -> httpx2.Response:
    usual = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    return httpx2.post(
        f"{served.url}/mcp",
        content=body,
        headers={**usual, **{name.replace("_", "-"): value for name, value in headers.items()}},
        timeout=30,
    )


def pings(served: Served) -> bool:
    return post(served, b'{"jsonrpc":"2.0","id":1,"method":"ping"}').status_code == 200


@pytest.mark.parametrize("version", ["", "2026-07-28", "x y"])
def test_bodies_that_are_no_messages_are_refused_over_http(served: Served, version: str) -> None:
    """Promise M1."""
    headers = {"mcp_protocol_version": version} if version else {}
    for body, _ in NONSENSE:
        answer = post(served, body, **headers)

        assert answer.status_code == 400, (body[:40], answer.text)
        # Not all are JSON-RPC errors: what is wrong with HTTP itself comes before.
        assert answer.headers["content-type"].startswith("application/")
    assert pings(served)


def test_a_message_that_is_too_long_is_refused_unread(served: Served) -> None:
    """Promise M1."""
    answer = post(served, b" " * (MCP_MESSAGE_BYTES_MAX + 1))

    assert answer.status_code == 413
    assert pings(served)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_without_sessions_there_is_nothing_but_post(served: Served, method: str) -> None:
    """Promise M1."""
    answer = httpx2.request(method, f"{served.url}/mcp", headers={"accept": "text/event-stream"})

    assert answer.status_code == 405
    assert "POST" in answer.headers["allow"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"origin": "http://evil.example"}, 403), ({"host": "evil.example"}, 421)],
)
def test_pages_of_others_are_kept_out(served: Served, headers: dict[str, str], status: int) -> None:
    """Promise M1."""
    answer = post(served, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', **headers)

    assert answer.status_code == status


def test_a_server_asks_no_other_server_for_its_callers(tmp_path: Path) -> None:
    """Promise M1."""
    with (
        serving(tmp_path / "other") as other,
        connecting(tmp_path / "store", "http", "modern") as place,
    ):
        with Relay(other.url) as relay:
            url = relay.push("of another server").url

        answer = bad(place.call("pull_context", url=url))

        assert "of another server" not in answer
        assert other.door.metrics is not None


def test_a_url_of_another_server_is_asked_there_by_a_local_process(tmp_path: Path) -> None:
    """Promise M1."""
    with (
        serving(tmp_path / "other") as other,
        connecting(tmp_path / "store", "stdio", "modern") as place,
    ):
        with Relay(other.url) as relay:
            url = relay.push("of another server").url

        assert unfenced(good(place.call("pull_context", url=url))) == "of another server"


ARGUMENTS: list[Any] = [
    None,
    "",
    "x" * 100_000,
    -1,
    1e308,
    True,
    [],
    [[[]]],
    {},
    {"$ref": "x"},
    "\x00",
    "../../etc/passwd",
    "ctx://thread/x/header",
]


def test_every_tool_answers_every_argument_and_none_brings_it_down(tmp_path: Path) -> None:
    """Promise M1."""
    with connecting(tmp_path / "store", "http", "modern") as place:

        async def act(client: Any) -> list[str]:
            faults: list[str] = []
            for tool in (await client.list_tools()).tools:
                fields = tool.input_schema["properties"]
                for value in ARGUMENTS:
                    arguments = dict.fromkeys(fields, value)
                    for quick in {"timeout", "timeout_s"} & set(fields):
                        arguments[quick] = 1 if value is None else value
                    answer = await client.call_tool(tool.name, arguments)
                    text = answer.content[0].text
                    if "went wrong" in text or not text or len(text) > 5_000:
                        faults.append(f"{tool.name} {str(value)[:40]}: {text[:200]}")
            return faults

        assert place.run(act) == []


def test_every_tool_is_described_in_full(tmp_path: Path) -> None:
    """Promise M1."""
    with connecting(tmp_path / "store", "http", "modern") as place:
        tools = {tool.name: tool for tool in place.run(lambda client: client.list_tools()).tools}

    seeds = {
        "push_context": ["data", "channel", "encrypted", "summary", "name"],
        "peek_context": ["url"],
        "pull_context": ["url"],
        "bridge_task": ["task", "task_channel", "done_channel", "timeout"],
    }
    for name, arguments in seeds.items():
        assert list(tools[name].input_schema["properties"]) == arguments
    assert "600" in tools["bridge_task"].input_schema["properties"]["timeout"]["description"]
    assert "FIRST" in (tools["peek_context"].description or "")
    hints = {name: tool.annotations or ToolAnnotations() for name, tool in tools.items()}
    for tool in tools.values():
        assert tool.description
        assert hints[tool.name].read_only_hint or hints[tool.name].destructive_hint is False
        assert "$ref" not in json.dumps(tool.input_schema)
    readers = {name for name, hint in hints.items() if hint.read_only_hint}
    assert readers >= {"peek_context", "pull_context", "relay_get", "relay_search"}
    assert not readers & {"push_context", "bridge_task", "relay_state", "relay_channel"}


def test_a_store_that_cannot_be_opened_is_an_error_for_the_model(tmp_path: Path) -> None:
    """Promise M1."""
    (tmp_path / "store").write_text("no folder")

    with connecting(tmp_path / "store", "stdio", "modern") as place:
        assert bad(place.call("push_context", data="x")).startswith("Error pushing context: ")


def test_the_command_says_what_to_install_where_the_sdk_is_missing(tmp_path: Path) -> None:
    """Promise M1."""
    hidden = tmp_path / "mcp_types.py"
    hidden.write_text("raise ImportError('hidden', name='mcp_types')\n")
    shell = Shell(tmp_path)
    shell.env["PYTHONPATH"] = str(tmp_path)

    done = shell.run("mcp", real=True)

    assert (done.returncode, done.stdout) == (1, b"")
    assert "pip install 'contextrelay[mcp]'" in done.stderr.decode()


def test_an_interrupt_ends_it_at_once_and_says_so(tmp_path: Path) -> None:
    """Promise M1: 130, as every command that is interrupted."""
    command = [*RELAY, "mcp", "--store", str(tmp_path / "store")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        running.stdin.flush()
        assert running.stdout.readline()

        running.send_signal(signal.SIGINT)

        _, error = running.communicate(timeout=20)
    assert running.returncode == 130
    assert error.startswith(b"interrupted")
    assert b"Traceback" not in error


def test_a_client_that_is_gone_is_no_fault_of_the_server(tmp_path: Path) -> None:
    """Promise M1: agents are killed; what reads the log meets no trace then."""
    command = [*RELAY, "mcp", "--store", str(tmp_path / "store")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        running.stdin.flush()
        assert running.stdout.readline()

        running.stdout.close()
        running.stdin.write(b'{"jsonrpc": "2.0", "id": "second", "method": "ping"}\n')
        running.stdin.close()

        error = running.stderr.read()
        assert running.wait(20) == 1
    assert error == b""
