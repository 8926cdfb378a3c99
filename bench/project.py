"""Projects: a cold start with 1,000 todos and 300 decisions, against an empty Python; a write."""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import contextrelay
from bench.measure import Curve, Result, each, interleaved, within
from contextrelay.content.tokens import count_tokens
from contextrelay.project.documents import new_state, new_texts

TIMES = 15
TODOS = 1_000
DECISIONS = 300
NOW = "2026-04-20T10:00:00+08:00"


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    compileall.compile_dir(str(Path(contextrelay.__file__).parent), quiet=2)
    project = folder / "project"
    make(project)
    relay = str(Path(sys.executable).with_name("relay"))
    env = {**os.environ, "RELAY_HOME": str(folder / "store"), "RELAY_OUTPUT": "plain"}
    start = [relay, "project", "start"]

    def run(*words: str) -> bytes:
        return subprocess.run(words, cwd=project, env=env, check=True, capture_output=True).stdout

    brief = run(*start).decode()
    tokens = count_tokens(brief.rstrip("\n"))
    yield within("a brief's tokens / its budget", tokens, 600, "tokens", 1.0)

    def compared(name: str, at_most: float, *words: str, edits: bool = False) -> Result:
        def act(index: int) -> None:
            if edits:
                edit(project)
            run(*words)

        ours, anchor = interleaved(
            lambda: each(act, TIMES),
            lambda: each(lambda index: run(sys.executable, "-c", "pass"), TIMES),
        )
        return within(f"{name} / python -c pass", ours / 1000, anchor / 1000, "ms", at_most)

    yield compared("project start, 1,000 todos", 10, *start)
    alone = [*start, "--no-thread"]
    yield compared("project start, after an edit by hand, no thread", 10, *alone, edits=True)
    # Here the thread learns of the edit, too: the store is opened, and the states are compared.
    yield compared("project start, after an edit by hand", 30, *start, edits=True)
    add = [relay, "project", "todo", "add", "one more", "--no-thread"]
    yield compared("project todo add, 1,000 todos, no thread", 20, *add)


def edit(folder: Path) -> None:
    """What a person does between two starts; short next to what is measured."""
    path = folder / "todos.json"
    path.write_text(path.read_text().replace("of the login", "of the new login", 1))


def make(folder: Path) -> None:
    """A project that has lived for a while."""
    folder.mkdir()
    for name, text in new_texts("orders", NOW, "JWT auth for the orders API").named().items():
        (folder / name).write_text(text or "")
    state = new_state(NOW) | {"current_task": "Login endpoint with refresh tokens"}
    (folder / "state.json").write_text(json.dumps(state, indent=2) + "\n")
    (folder / "todos.json").write_text(json.dumps(_todos(), indent=2) + "\n")
    (folder / "decisions.md").write_text("# Architecture Decision Records\n" + _decisions())


def _todos() -> dict[str, object]:
    priorities = ("critical", "high", "medium", "low")
    statuses = ("pending", "in_progress", "completed", "blocked")
    todos = [
        {
            "id": f"TODO-{number:03d}",
            "title": f"Implement part {number} of the login endpoint",
            "description": "It takes a name and a password, and gives two tokens. " * 2,
            "priority": priorities[number % 4],
            "status": statuses[number % 7 % 4],
            "tags": ["login", f"part-{number}"],
            "created": NOW,
            "updated": None,
            "blocked_by": [f"TODO-{number - 1:03d}"] if number % 7 == 3 else [],
            "notes": "somebody should look at this",
        }
        for number in range(1, TODOS + 1)
    ]
    return {"todos": todos, "last_review": NOW}


def _decisions() -> str:
    return "".join(
        f"\n## ADR-{number:03d}: Use scheme {number} for service {number % 17}\n"
        f"- Date: 2026-04-15\n- Status: Accepted\n"
        f"- Context: Service {number % 17} needs a stateless scheme\n"
        f"- Decision: Use JWT and refresh tokens of kind {number}\n"
        f"- Consequences: Must handle token expiration and revocation\n"
        for number in range(1, DECISIONS + 1)
    )
