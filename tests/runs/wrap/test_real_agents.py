"""Claude Code, Codex and opencode themselves, wrapped, with a scripted model on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Relay
from tests.parts import needs, node_command
from tests.rigs import length, rig
from tests.runs.wrap.alone import alone
from tests.store.engines import free_port

RUN_S_MAX = 170
ROOT = Path(__file__).parents[3]
PATHS = {
    "claude": "/v1/messages",
    "codex": "/v1/responses",
    "opencode": "/v1/chat/completions",
}


def configured(folder: Path, url: str) -> dict[str, str]:
    """The environment of an agent that knows nobody but the model at a URL."""
    home, work = folder / "home", folder / "work"
    (home / ".codex").mkdir(parents=True)
    work.mkdir()
    (home / ".codex/config.toml").write_text(
        'model = "gpt-5"\nmodel_provider = "mock"\n[model_providers.mock]\nname = "mock"\n'
        f'base_url = "{url}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n'
    )
    provider: dict[str, Any] = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"gpt-5": {}},
    }
    opencode: dict[str, Any] = {
        "autoupdate": False,
        "share": "disabled",
        "model": "mock/gpt-5",
        "small_model": "mock/gpt-5",
        "provider": {"mock": provider},
    }
    (work / "opencode.json").write_text(json.dumps(opencode))
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "RELAY_HOME": str(folder / "store"),
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }


@rig
@pytest.mark.parametrize("name", length([*PATHS][:1], [*PATHS], [*PATHS]))
def test_a_real_agent_is_sent_the_bundle_and_its_answer_is_kept(name: str, tmp_path: Path) -> None:
    """Promise X3: what was sent is read in the model's own journal."""
    needs("aimock", node_command("llmock").exists())
    needs(name, node_command(name).exists())
    port, script, journal = free_port(), tmp_path / "script.json", tmp_path / "journal.json"
    fixture = {"match": {"userMessage": "Which day"}, "response": {"content": "It is Friday."}}
    script.write_text(json.dumps({"fixtures": [fixture]}))
    environment = configured(tmp_path, f"http://127.0.0.1:{port}")
    with Relay(tmp_path / "store") as relay:
        thread = relay.thread("work")
        thread.add_fact("the deadline is Friday")
        wrap = (sys.executable, "-m", "contextrelay", "wrap", "run", "--thread", "work")
        words = ("--cli", str(node_command(name)), "--user", "Which day is the deadline?")

        done = subprocess.run(
            alone(port, script, journal, *wrap, *words),
            env=environment,
            cwd=tmp_path / "work",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=RUN_S_MAX,
        )

        assert done.returncode == 0, done.stdout + done.stderr
        assert b"It is Friday." in done.stdout
        sent: list[Any] = json.loads(journal.read_bytes())
        asked = [each for each in sent if each["path"].partition("?")[0] == PATHS[name]]
        assert any("the deadline is Friday" in json.dumps(each["body"]) for each in asked)
        runs = [each.event for each in thread.events() if each.event.type == "run.finished"]
        assert [run.by for run in runs] == [f"cli:{name}"]
        assert b"It is Friday." in relay.pull(runs[0].detail["ref"])
