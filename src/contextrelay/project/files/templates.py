"""Templates: the four files of a new project, as the published skill lays them out."""

from __future__ import annotations

from typing import Any

from contextrelay.model.project import Texts
from contextrelay.project.files.json_edit import written

_ABOUT = """# {name}

## One-Line Description
{description}

## Tech Stack
- Frontend:
- Backend:
- Database:
- Deployment:

## Directory Structure
/src - Source code
/docs - Documentation
/tests - Tests

## Key Constraints
[Rules that must be followed, such as API compatibility, performance requirements]

## Related Documents
- Architecture decisions: decisions.md
- Current state: state.json
- Todo items: todos.json
"""
_DESCRIPTION = "[What this project is, what problem it solves]"


def new_state(now: str) -> dict[str, Any]:
    """What state.json of a new project says."""
    return {
        "phase": "planning",
        "current_task": "",
        "progress": {"completed": [], "in_progress": "", "blocked": [], "next_steps": []},
        "last_update": now,
        "session_id": "",
        "notes": "",
    }


def new_todos(now: str) -> dict[str, Any]:
    """What todos.json of a new project says."""
    return {"todos": [], "last_review": now}


def new_files(name: str, now: str, description: str = "") -> Texts:
    """The files of a new project."""
    return Texts(
        about=_ABOUT.format(name=name, description=description or _DESCRIPTION),
        state=written(new_state(now)),
        todos=written(new_todos(now)),
        decisions="# Architecture Decision Records\n",
    )
