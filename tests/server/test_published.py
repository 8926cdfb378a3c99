"""The published client of seed 000, unmodified and in its own environment, against our server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Relay, Sealed
from tests.client.wires import Proxy, listening
from tests.server.serving import Served, serving_apart
from tests.store.engines import until

pytestmark = pytest.mark.xdist_group("published")

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".published" / "bin"
RUN_S_MAX = 60


@pytest.fixture(autouse=True)
def installed() -> None:
    if not (BIN / "contextrelay-mcp").exists():
        pytest.fail("the published client is not installed: make .published/.ready")


def environment(url: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "CONTEXTRELAY_URL": url, "PYTHONUNBUFFERED": "1"}


def run(url: str, script: str, *words: str) -> Any:
    """Run a script with the published client as `hub`; what it prints last, as JSON."""
    start = "import json, os, sys\nfrom contextrelay import AgentBridge, ContextRelay\n"
    start += "hub = ContextRelay(os.environ['CONTEXTRELAY_URL'])\n"
    done = subprocess.run(
        [BIN / "python", "-c", start + script, *words],
        env=environment(url),
        capture_output=True,
        timeout=RUN_S_MAX,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "text",
    ["plain", "x" * 5_000_000],
)
def test_text_comes_back_as_it_was_pushed(served: Served, tmp_path: Path, text: str) -> None:
    """Promise R12. Promise R1. Promise R3."""
    path = tmp_path / "text"
    path.write_text(text)

    back = run(
        served.url,
        """
text = open(sys.argv[1]).read()
url = hub.push(text, metadata={"summary": "été"})
print(json.dumps([url, hub.pull(url) == text, hub.peek(url)]))
""",
        str(path),
    )

    assert back[0].startswith(f"{served.url}/pull/")
    assert back[1:] == [True, {"summary": "été"}]


def test_a_sealed_push_is_opened_by_its_key_alone(served: Served, tmp_path: Path) -> None:
    """Promise R12. Promise E1."""
    url, text, wrong, bare = run(
        served.url,
        """
url = hub.push("the secret plan", encrypted=True, metadata={"summary": "a plan"})
try:
    hub.pull(url[:-4] + "AAA=")
    wrong = "opened"
except ValueError as error:
    wrong = str(error)
print(json.dumps([url, hub.pull(url), wrong, hub.pull(url.split("#")[0])]))
""",
    )

    assert "#key=" in url
    assert text == "the secret plan"
    assert wrong == "Failed to decrypt: Invalid or missing key"
    assert bare.startswith("gAAAAA")
    with Relay(tmp_path / "store") as relay:
        assert relay.peek(url).preview.text == f"[sealed, {len(bare)} bytes]"
        assert relay.peek(url).sealed == "k1"
        with pytest.raises(Sealed):
            relay.pull(url.split("#")[0])


@pytest.mark.parametrize("text", ["the secret plan", "", "é" * 300_000])
def test_what_either_client_seals_the_other_opens(
    served: Served, tmp_path: Path, text: str
) -> None:
    """Promise E1. Promise R12: `#key=` URLs are interchangeable, both ways."""
    path = tmp_path / "text"
    path.write_text(text)
    with Relay(served.url) as relay:
        ours = relay.push(text, seal="k1", metadata={"summary": "a plan"})
        theirs, opened, about = run(
            served.url,
            """
text = open(sys.argv[1]).read()
print(json.dumps([hub.push(text, encrypted=True), hub.pull(sys.argv[2]) == text,
    hub.peek(sys.argv[2])]))
""",
            str(path),
            ours.url,
        )

        assert opened is True
        assert about == {"summary": "a plan"}
        assert relay.pull(theirs).decode() == text
        assert relay.pull(theirs, 4, 9) == text.encode()[4:9]
        with pytest.raises(Sealed):
            relay.pull(theirs[:-3] + "AA=")


def test_what_is_not_there_is_an_http_error_with_the_seeds_words(served: Served) -> None:
    """Promise R4. Promise R12."""
    answers = run(
        served.url,
        """
import requests
url = os.environ["CONTEXTRELAY_URL"] + "/pull/00000000-0000-4000-8000-000000000000"
answers = []
for ask in (hub.pull, hub.peek):
    try:
        ask(url)
    except requests.HTTPError as error:
        answers.append([error.response.status_code, error.response.text])
print(json.dumps(answers))
""",
    )

    assert answers == [[404, "Context not found or expired"]] * 2


LISTEN = """
import threading
heard = []
def hear(url):
    heard.append(hub.pull(url))
    print(json.dumps(heard[-1]), flush=True)
print("{}", flush=True)
hub.subscribe(sys.argv[1], hear, max_reconnect_delay=1.0)
"""


def test_a_subscriber_hears_pushes_on_its_channel_and_comes_back_after_a_restart(
    tmp_path: Path,
) -> None:
    """Promise S1. Promise S3. Promise R12."""
    channel = "projet-é/x"
    with serving_apart(tmp_path / "store") as first:
        listener = subprocess.Popen(
            [BIN / "python", "-c", _listening(), channel],
            env=environment(first.url),
            stdout=subprocess.PIPE,
        )
        try:
            assert listener.stdout is not None
            listener.stdout.readline()
            _until_subscribed(first.url, channel)
            run(first.url, 'print(json.dumps(hub.push("elsewhere", channel="another")))')
            run(first.url, 'print(json.dumps(hub.push("erste", channel=sys.argv[1])))', channel)
            assert json.loads(listener.stdout.readline()) == "erste"
            port = first.port
            first.kill()
            with serving_apart(tmp_path / "store", port=port) as second:
                _until_subscribed(second.url, channel)
                run(second.url, 'print(json.dumps(hub.push("zwei", channel=sys.argv[1])))', channel)
                assert json.loads(listener.stdout.readline()) == "zwei"
        finally:
            listener.kill()
            listener.wait()
            assert listener.stdout is not None
            listener.stdout.close()


def test_a_subscriber_comes_back_through_a_forwarded_port(served: Served) -> None:
    """Promise S3. Promise R12. Promise Z2: ssh -L, docker -p."""
    forwarder = Proxy()
    forwarder.upstream_port = served.port
    with listening(forwarder):
        listener = subprocess.Popen(
            [BIN / "python", "-c", _listening(), "reviews"],
            env=environment(forwarder.url),
            stdout=subprocess.PIPE,
        )
        try:
            assert listener.stdout is not None
            listener.stdout.readline()
            for text in ("before", "after"):
                _until_subscribed(served.url, "reviews")
                url = run(
                    forwarder.url,
                    'print(json.dumps(hub.push(sys.argv[1], channel="reviews")))',
                    text,
                )
                assert url.startswith(forwarder.url)
                assert json.loads(listener.stdout.readline()) == text
                forwarder.cut_all()
                until(lambda: not served.door.hub.listeners, "the end of the connection")
        finally:
            listener.kill()
            listener.wait()
            assert listener.stdout is not None
            listener.stdout.close()


def _listening() -> str:
    start = "import json, os, sys\nfrom contextrelay import ContextRelay\n"
    return f"{start}hub = ContextRelay(os.environ['CONTEXTRELAY_URL'])\n{LISTEN}"


def _until_subscribed(url: str, channel: str) -> None:
    """Wait until somebody listens, by the server's own metrics."""
    import httpx2

    def is_heard() -> bool:
        try:
            answers = httpx2.get(f"{url}/metrics").text
        except httpx2.TransportError:
            return False
        return any(
            line.startswith("contextrelay_subscribers") and float(line.split()[-1]) >= 1
            for line in answers.splitlines()
        )

    until(is_heard, "a subscriber")


def test_its_bridge_carries_a_task_there_and_the_answer_back(served: Served) -> None:
    """Promise S6. Promise R12."""
    bridge = subprocess.Popen(
        [BIN / "contextrelay-bridge", "start", "--exec", "tr a-z A-Z"],
        env=environment(served.url),
        stdout=subprocess.PIPE,
    )
    try:
        _until_subscribed(served.url, "agent-tasks")
        done = subprocess.run(
            [BIN / "contextrelay-bridge", "send", "--wait", "--timeout", "30", "shout this"],
            env=environment(served.url),
            capture_output=True,
            timeout=RUN_S_MAX,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.decode().splitlines()[-1] == "SHOUT THIS"
    finally:
        bridge.kill()
        bridge.wait()
        assert bridge.stdout is not None
        bridge.stdout.close()


MCP_CLIENT = """
import asyncio, json, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    server = StdioServerParameters(command=sys.argv[1], env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        async def call(name, **args):
            return (await session.call_tool(name, args)).content[0].text
        tools = sorted(tool.name for tool in (await session.list_tools()).tools)
        url = await call("push_context", data="für alle ✓", summary="a greeting")
        sealed = await call("push_context", data="hidden", encrypted=True)
        print(json.dumps([
            tools, url, await call("peek_context", url=url), await call("pull_context", url=url),
            await call("pull_context", url=sealed),
            await call("pull_context", url=url[:-4] + "0000"),
        ]))

asyncio.run(main())
"""


def test_its_mcp_server_pushes_peeks_and_pulls(served: Served) -> None:
    """Promise R12."""
    done = subprocess.run(
        [BIN / "python", "-c", MCP_CLIENT, BIN / "contextrelay-mcp"],
        env=environment(served.url),
        capture_output=True,
        timeout=RUN_S_MAX,
    )

    assert done.returncode == 0, done.stderr.decode()
    tools, url, peeked, pulled, opened, missing = json.loads(done.stdout.splitlines()[-1])
    assert {"push_context", "peek_context", "pull_context"} <= set(tools)
    assert url.startswith(served.url)
    assert json.loads(peeked) == {"summary": "a greeting"}
    assert (pulled, opened) == ("für alle ✓", "hidden")
    assert missing.startswith("Error pulling context: 404")


def test_it_really_is_another_program() -> None:
    """Promise R12."""
    done = subprocess.run(
        [BIN / "python", "-c", "import contextrelay; print(contextrelay.__version__)"],
        env=environment(""),
        capture_output=True,
        timeout=RUN_S_MAX,
    )

    assert done.stdout.decode().strip() == "0.2.0"
    assert Path(sys.prefix).resolve() != (ROOT / ".published").resolve()
