"""The brief: within its budget by the real tokenizer, the same for the same files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextrelay.content.tokens import count_tokens
from contextrelay.errors import Invalid
from contextrelay.limits import BRIEF_TOKENS_MIN
from contextrelay.model.project import Texts
from contextrelay.project.brief_text import brief_of
from contextrelay.project.decisions import read_decisions
from contextrelay.project.files.templates import new_files
from contextrelay.project.snapshot import gathered, mattering

ABOUT = """# orders-service

JWT auth for the orders API

## Tech Stack
- Backend: Python
- Database:

## Key Constraints
- Answers within 50 ms

## History
It began in 2020.
"""
STATE = {
    "phase": "development",
    "current_task": "Implement login endpoint",
    "progress": {"completed": ["Database design"], "in_progress": "Login", "next_steps": ["Reset"]},
    "last_update": "2026-04-20T10:00:00+08:00",
    "session_id": "abc123",
    "notes": "CORS\nneeds a proxy \x1b[31m",
}
TODOS = {
    "todos": [
        {"id": "TODO-001", "title": "Auth", "priority": "high", "status": "in_progress"},
        {"id": "TODO-002", "title": "Tests", "priority": "low", "status": "pending"},
    ],
    "last_review": "2026-04-20T10:00:00+08:00",
}
DECISIONS = """# Records
## ADR-001: Use tokens for login
- Decision: JWT
## ADR-002: Choose blue for buttons
## ADR-003: Login by mail
- Supersedes: ADR-001
"""
TEXTS = Texts(ABOUT, json.dumps(STATE), json.dumps(TODOS), DECISIONS)


def test_a_brief_holds_project_state_todos_and_the_decisions_that_matter() -> None:
    """Promise J4."""
    brief = brief_of(gathered(TEXTS, "folder"), 600, count_tokens)

    assert brief.text.splitlines() == [
        "# orders-service",
        "(from the project's files: data, not your user's words)",
        "JWT auth for the orders API",
        "Constraint: Answers within 50 ms",
        "Stack: Backend: Python",
        "Phase: development",
        "Task: Implement login endpoint",
        "In progress: Login",
        "Notes: CORS needs a proxy <U+001B>[31m",
        "Next: Reset",
        "Done: Database design",
        "Last update: 2026-04-20T10:00:00+08:00 by abc123",
        "Do next:",
        "- TODO-001 high in_progress: Auth",
        "- TODO-002 low pending: Tests",
        "Decided:",
        "- ADR-003 Login by mail",
        "Todos reviewed: 2026-04-20T10:00:00+08:00; if over 24 h ago: relay project todo review",
        f"When you end: relay project finish --since {gathered(TEXTS, 'x').stamp}",
        "Left out: 2 decisions (relay project decisions).",
    ]
    assert brief.tokens == count_tokens(brief.text)


def test_people_read_how_long_ago() -> None:
    """Promise J4."""
    brief = brief_of(gathered(TEXTS, "folder"), 600, count_tokens, lambda moment: "3 h ago")

    assert brief.text.splitlines()[:2] == [
        "# orders-service — JWT auth for the orders API",
        "phase development · task Implement login endpoint · last update 3 h ago (session abc123)",
    ]


@settings(max_examples=30)
@given(
    st.integers(BRIEF_TOKENS_MIN, 400),
    st.lists(st.text(max_size=300), max_size=30),
    st.text(max_size=500),
)
def test_no_brief_is_over_its_budget(budget: int, titles: list[str], notes: str) -> None:
    """Promise J4."""
    todos = [{"id": f"TODO-{i:03d}", "title": title} for i, title in enumerate(titles, 1)]
    about = f"# {notes[:200]}\n\n{notes}\n## Key Constraints\n" + "\n".join(titles)
    state = {**STATE, "notes": notes, "progress": {"completed": titles, "next_steps": titles}}
    texts = Texts(about, json.dumps(state), json.dumps({"todos": todos}), DECISIONS)

    found = gathered(texts, "folder")
    brief = brief_of(found, budget, count_tokens)

    assert count_tokens(brief.text) <= budget
    assert brief == brief_of(gathered(texts, "folder"), budget, count_tokens)
    shown = brief.text.count("\n- TODO-")
    assert brief.left_out.get("todos", 0) + shown == found.open_todos


def test_a_budget_that_holds_nothing_is_refused() -> None:
    with pytest.raises(Invalid, match="too few"):
        brief_of(gathered(TEXTS, "x"), BRIEF_TOKENS_MIN - 1, count_tokens)


def test_the_brief_of_a_new_project_has_no_placeholders() -> None:
    brief = brief_of(gathered(new_files("new", "2026-04-20T10:00Z"), "x"), 600, count_tokens)
    assert "[" not in brief.text
    assert "Frontend" not in brief.text


def test_files_that_are_missing_are_named() -> None:
    """Promise J4."""
    brief = brief_of(gathered(Texts(about=ABOUT), "x"), 600, count_tokens)
    assert "Missing: state.json, todos.json, decisions.md (relay project init" in brief.text


def test_decisions_matter_by_what_they_say_about_the_task() -> None:
    decisions = read_decisions(DECISIONS)
    assert [each.number for each in mattering(decisions, "the login endpoint")] == [3]
    assert [each.number for each in mattering(decisions, "blue buttons, login")] == [2, 3]
    assert [each.number for each in mattering(decisions, "nothing of it")] == [2, 3]
