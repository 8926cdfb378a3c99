"""A key stays where it belongs: runs that succeed and fail leave no trace of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextrelay import Relay
from tests.cli.shell import Shell
from tests.runs.providers.raw_server import raw_server, refusal, stream
from tests.runs.providers.vendors import KEY, VENDORS, Vendor

PARTS = (KEY, KEY[:12])


@pytest.mark.parametrize("vendor", VENDORS, ids=[each.id for each in VENDORS])
def test_a_key_is_in_no_store_no_event_no_output_and_no_error(
    vendor: Vendor, tmp_path: Path
) -> None:
    """Promise X2."""
    said = {"error": {"message": f"bad key: {KEY} ({KEY[:12]}...)", "type": "some_error"}}
    scripts = [
        stream(vendor.kind, *vendor.said("Here.")),
        *(refusal(status, said) for status in (400, 401)),
    ]
    name = {"chat": "openai-chat", "responses": "openai-responses"}.get(vendor.id, vendor.id)
    output = _relay(tmp_path, "", 0, "thread", "new", "--name", "t")
    with raw_server(*scripts) as server:
        for status in (0, 2, 4):
            command = ("run", "--thread", "t", "--user", "hello", "-m", f"{name}:m", "--no-files")
            output += _relay(tmp_path, server.url, status, *command, "--json")
        assert any(KEY in head for head in server.heads)
    output += _relay(tmp_path, "", 0, "trace", "t", "--json")
    with Relay(tmp_path / "store") as relay:
        output += "\n".join(map(repr, relay.thread("t").events()))

    assert "run.failed" in output
    stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert stored
    for part in PARTS:
        assert part not in output
        assert not any(part.encode() in body for body in stored)


def _relay(folder: Path, url: str, status: int, *words: str) -> str:
    """What a command prints, on both streams."""
    shell = Shell(folder)
    shell.env |= {
        "HOME": str(folder),
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OLLAMA_API_KEY": KEY,
        "OLLAMA_HOST": url,
    }
    done = shell.run(*words)
    output = (done.stdout + done.stderr).decode()
    assert done.returncode == status, output
    return output
