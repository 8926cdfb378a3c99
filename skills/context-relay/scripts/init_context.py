#!/usr/bin/env python3
"""Make PROJECT.md, state.json, decisions.md and todos.json in a folder; files there are kept.

    python3 init_context.py [FOLDER] [--name NAME] [--description TEXT] [--force]

Needs nothing but Python. With --force, files are overwritten after a copy is kept. A link that
stands in the place of a file is never written through.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import datetime
from pathlib import Path

ABOUT = """# {name}

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


def files(name: str, description: str, now: str) -> dict[str, str]:
    """The text of each file."""
    state: dict[str, object] = {
        "phase": "planning",
        "current_task": "",
        "progress": {"completed": [], "in_progress": "", "blocked": [], "next_steps": []},
        "last_update": now,
        "session_id": "",
        "notes": "",
    }
    todos: dict[str, object] = {"todos": [], "last_review": now}
    described = description or "[What this project is, what problem it solves]"
    return {
        "PROJECT.md": ABOUT.format(name=name, description=described),
        "state.json": json.dumps(state, indent=2, ensure_ascii=False) + "\n",
        "todos.json": json.dumps(todos, indent=2, ensure_ascii=False) + "\n",
        "decisions.md": "# Architecture Decision Records\n",
    }


def make(folder: Path, texts: dict[str, str], now: str, is_forced: bool) -> None:
    """Write what is not there, and say what is kept."""
    for name, text in texts.items():
        path = folder / name
        if os.path.lexists(path):
            if not is_forced:
                print(f"kept {name}, which is there already", file=sys.stderr)
                continue
            copy = folder / f"{name}.{now.replace(':', '')}.bak"
            path.rename(copy)
            print(f"copied {name} to {copy.name}", file=sys.stderr)
        # A new file under a random name: what came with the folder may hold links by any other.
        draft = folder / f".{name}.{os.urandom(8).hex()}.part"
        with open(draft, "xb") as file:
            file.write(text.encode())
        draft.replace(path)
        print(f"made {name}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the files of a project's memory.")
    parser.add_argument("folder", nargs="?", default=".")
    parser.add_argument("--name", default="", help="else the folder's")
    parser.add_argument("--description", default="", help="what it is, in one line")
    parser.add_argument("--force", action="store_true", help="overwrite, after a copy")
    args = parser.parse_args()
    folder = Path(args.folder).expanduser().resolve()
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        make(folder, files(args.name or folder.name, args.description, now), now, args.force)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
