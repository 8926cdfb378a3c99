"""The pipelines in examples/ run: with echo, a scripted model, and stand-ins of agents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Pipeline, Relay
from tests.aimock import aimock
from tests.pipelines.running import result

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"
AGENT = """\
#!{python}
# Stands in for a coding agent: takes the prompt, reads what a ref holds, and says so.
import re, subprocess, sys
prompt = sys.stdin.read()
request = prompt.rpartition("## Request")[2]
print("{name} was asked:", " ".join(request.split()))
for ref in re.findall(r"[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}", request):
    pulled = subprocess.run([{relay!r}, "pull", ref], capture_output=True, text=True, check=True)
    print("{name} read:", pulled.stdout.splitlines()[0])
"""


def test_a_repository_is_reviewed_file_by_file_and_the_reviews_merged(
    relay: Relay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise X4."""
    monkeypatch.setenv("RELAY_MODEL", "echo")
    repository = tmp_path / "repository"
    repository.mkdir()
    for name in ("one.py", "two.py", "notes.md"):
        (repository / name).write_text(f"# {name}\n")
    for words in (("init", "-q"), ("add", ".")):
        subprocess.run(["git", *words], cwd=repository, check=True)

    ended = Pipeline.load(EXAMPLES / "review.yaml").run(relay, {"folder": str(repository)})

    assert ended.status == "done", ended.reason
    files = json.loads(result(relay, ended, "file"))
    assert [relay.pull(ref) for ref in files] == [b"# one.py\n", b"# two.py\n"]
    reviews = json.loads(result(relay, ended, "review"))
    assert [files[0] in relay.pull(reviews[0]).decode(), len(reviews)] == [True, 2]
    assert all(ref in result(relay, ended, "report") for ref in reviews)
    assert relay.peek(ended.steps["report"].ref or "").name == "report.md"


def test_the_telecom_flow_leads_from_words_to_an_answer(
    relay: Relay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise X4."""
    monkeypatch.setenv("RELAY_MODEL", "openai:gpt-x")
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    script: list[dict[str, Any]] = [
        _says("What does this customer want", '{"intent": "technical_support"}', at=0),
        _says(
            "What does this customer want", '{"intent": "technical_support", "customer": "c42"}', 1
        ),
        _says("Find out what is wrong", "CRC errors on port 7: replace the port."),
        _says("Write the answer", "We replace your port today."),
    ]

    with aimock(tmp_path, script) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
        ended = Pipeline.load(EXAMPLES / "telecom.yaml").run(
            relay, {"query": "My internet is slow. Customer c42."}
        )
        sent = [json.dumps(body) for body in model.bodies()]

    assert ended.status == "done", ended.reason
    assert result(relay, ended, "answer") == "We replace your port today."
    assert ended.steps["other"].status == "skipped"
    assert "lacks customer" in sent[1]
    assert "CRC on port 7 since Monday" in sent[2]
    assert json.loads(result(relay, ended, "account"))["customer"] == "c42"


def _says(words: str, answer: str, at: int | None = None) -> dict[str, Any]:
    match: dict[str, Any] = {"userMessage": words}
    if at is not None:
        match["sequenceIndex"] = at
    return {"match": match, "response": {"content": answer}}


def test_three_coding_agents_hand_over_by_refs(
    relay: Relay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise X4."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = str(Path(sys.executable).parent / "relay")
    for name in ("claude", "codex", "opencode"):
        (folder / name).write_text(AGENT.format(python=sys.executable, name=name, relay=command))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    ended = Pipeline.load(EXAMPLES / "agents.yaml").run(relay, {"task": "Add an option"})

    assert ended.status == "done", ended.reason
    assert "Add an option" in result(relay, ended, "plan")
    assert "codex read: claude was asked" in result(relay, ended, "write")
    review = result(relay, ended, "review")
    assert "opencode read: codex was asked" in review
    assert "opencode read: claude was asked" in review
