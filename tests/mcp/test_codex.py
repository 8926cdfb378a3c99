"""Codex itself, with a scripted model on loopback: it finds our tools, and calls one.

Its tools of MCP servers are named within a namespace, which aimock does not write: this model is
our own, and speaks only as much of the Responses API as is needed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from contextrelay import Relay
from tests.parts import needs, node_command
from tests.rigs import rig

RUN_S_MAX = 170
ITEMS: list[dict[str, Any]] = [
    {
        "type": "function_call",
        "call_id": "call_1",
        "namespace": "mcp__relay",
        "name": "push_context",
        "arguments": json.dumps({"data": "Friday"}),
    },
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "It is kept."}],
    },
]


@contextmanager
def scripted() -> Generator[tuple[str, list[Any]]]:
    """A model that answers with one item after the other; its URL, and what it was sent."""
    sent: list[Any] = []

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            item = ITEMS[min(len(sent), len(ITEMS)) - 1]
            usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
            response: dict[str, Any] = {"id": f"r{len(sent)}", "usage": usage, "output": []}
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for event in (
                {"type": "response.created", "response": response},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": response},
            ):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", sent
        finally:
            server.shutdown()
            thread.join()


@rig
def test_codex_finds_and_calls_our_tools(tmp_path: Path) -> None:
    """Promise M1."""
    needs("codex", node_command("codex").exists())
    store, home, work = (tmp_path / name for name in ("store", "home", "work"))
    (home / ".codex").mkdir(parents=True)
    work.mkdir()
    with scripted() as (url, sent):
        (home / ".codex/config.toml").write_text(
            'model = "gpt-5.5"\nmodel_provider = "mock"\napproval_policy = "never"\n'
            '[model_providers.mock]\nname = "mock"\n'
            f'base_url = "{url}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n'
            f"[mcp_servers.relay]\ncommand = {json.dumps(sys.executable)}\n"
            f'args = ["-m", "contextrelay", "mcp", "--store", {json.dumps(str(store))}]\n'
            "required = true\n"
        )
        done = subprocess.run(
            [node_command("codex"), "exec", "--skip-git-repo-check", "--yolo", "go on"],
            env={"PATH": os.environ["PATH"], "HOME": str(home), "OPENAI_API_KEY": "none"},
            cwd=work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=RUN_S_MAX,
        )

    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    assert b"It is kept." in done.stdout
    with Relay(store) as relay:
        (artifact,) = relay.list().artifacts
        assert relay.pull(artifact.ref) == b"Friday"
    assert artifact.ref in json.dumps(sent[1]["input"][-1])
