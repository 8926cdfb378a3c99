"""The Agent Skill and the primer: valid, without dependencies, and with the same text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from contextrelay.content.tokens import count_tokens
from contextrelay.project.brief import PRIMER, write_primer
from contextrelay.project.documents import new_texts
from tests.cli.shell import Shell

SKILL = Path(__file__).parents[2] / "skills" / "context-relay"
LINES = [text for _, text in PRIMER]
SCRIPT = SKILL / "scripts" / "init_context.py"
TRIGGERS = (
    "memory fragmentation",
    "cross-session",
    "context passing",
    "context relay",
    "session restart",
    "sub-agent communication",
    "persistent context",
    "project state management",
    "cold start",
)


def test_the_skill_is_valid_and_has_the_trigger_words() -> None:
    """Promise J7."""
    command = str(Path(sys.executable).with_name("agentskills"))
    done = subprocess.run([command, "validate", str(SKILL)], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    head = (SKILL / "SKILL.md").read_text().split("---")[1].lower()
    assert [word for word in TRIGGERS if word not in head] == []


def test_the_script_needs_only_python_and_makes_the_same_files(tmp_path: Path) -> None:
    """Promise J7, promise J1."""
    words = [sys.executable, "-I", "-S", str(SCRIPT), str(tmp_path), "--name", "orders"]
    (tmp_path / "decisions.md").write_text("mine")

    done = subprocess.run(words, capture_output=True, text=True, check=True)

    assert done.stdout.split("\n")[:3] == ["made PROJECT.md", "made state.json", "made todos.json"]
    assert "kept decisions.md" in done.stderr
    now = json.loads((tmp_path / "state.json").read_text())["last_update"]
    assert (tmp_path / "decisions.md").read_text() == "mine"
    subprocess.run([*words, "--force"], capture_output=True, check=True)
    (copy,) = tmp_path.glob("decisions.md.*.bak")
    assert copy.read_text() == "mine"
    now = json.loads((tmp_path / "state.json").read_text())["last_update"]
    for name, text in new_texts("orders", now).named().items():
        assert (tmp_path / name).read_text() == text


@pytest.mark.parametrize("budget", [60, 100, 200, 600])
def test_a_primer_is_within_its_budget_and_names_what_is_left_out(budget: int) -> None:
    """Promise H4."""
    brief = "\n".join(f"line {number} of a brief" for number in range(30))

    made = write_primer(brief, budget)

    assert count_tokens(made.text) <= budget
    assert LINES[0] in made.text
    assert ("Left out" in made.text) == (budget < 600)


def test_prime_has_the_brief_of_the_current_project(shell: Shell) -> None:
    """Promise H4."""
    alone = shell.out("prime")
    assert alone.splitlines() == LINES
    shell.out("project", "init", "--name", "orders")
    shell.out("project", "todo", "add", "Login endpoint")

    answer = shell.json("prime", "--budget", "500")

    assert "- TODO-001 medium pending: Login endpoint" in answer["text"]
    assert answer["tokens"] <= 500
    (shell.home / "state.json").write_text("{")
    assert "need a look: state.json, line 1, column 2" in shell.out("prime")
    assert shell.fails("prime", "--budget", "5")[0] == 2
