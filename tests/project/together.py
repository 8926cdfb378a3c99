"""Together: several processes add todos and decisions at once, while a reader looks all the time.

`python -m tests.project.together --seconds 10 --writers 8` does it for longer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from contextrelay.project import Project
from contextrelay.project.decisions import read_decisions
from contextrelay.project.init import make_project

WRITER = """
import sys, time
from contextrelay.project import Project

project, number = Project(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
end = time.monotonic() + float(sys.argv[3])
count = 0
while time.monotonic() < end:
    count += 1
    title = f"writer {number} number {count}"
    if count % 3 == 0:
        print(project.decide(title), title, flush=True)
    elif count % 3 == 1:
        print(project.todos.add(title).id, title, flush=True)
    else:
        done = project.finish(todos={"add": [title]}, decisions=[title])
        print(done.todos[0], title, flush=True)
        print(done.decisions[0], title, flush=True)
"""
END_S_MAX = 60


class Seen(NamedTuple):
    """Answers to the writers, what the files say in the end, and how often a reader looked."""

    answered: dict[str, str]
    answered_twice: list[str]
    todos: dict[str, str]
    decisions: dict[str, str]
    looks: int


def together(folder: Path, seconds: float, writers: int) -> Seen:
    """Run it; a file that is not whole at any look is an error."""
    project = Project(folder)
    make_project(project, "together")
    command = [sys.executable, "-c", WRITER, str(folder)]
    running = [
        subprocess.Popen([*command, str(number), str(seconds)], stdout=subprocess.PIPE, text=True)
        for number in range(writers)
    ]
    try:
        looks = _look(project, time.monotonic() + seconds)
        printed = [each.communicate(timeout=END_S_MAX)[0] for each in running]
    finally:
        for each in running:
            if each.poll() is None:
                each.kill()
                each.wait()
    assert all(each.returncode == 0 for each in running)
    lines = [line.split(" ", 1) for text in printed for line in text.splitlines()[1:]]
    answer = {id: title for id, title in lines}  # noqa: C416
    twice = [id for id, title in lines if answer[id] != title]
    todos = {todo.id: todo.title for todo in project.todos.list()}
    decisions = {each.id: each.title for each in project.decisions()}
    return Seen(answer, twice, todos, decisions, looks)


def _look(project: Project, end: float) -> int:
    """Read what is there as any program would, and as ours do; how often."""
    looks, todos_before, decided_before = 0, 0, 0
    while time.monotonic() < end:
        todos = len(json.loads((project.folder / "todos.json").read_bytes())["todos"])
        json.loads((project.folder / "state.json").read_bytes())
        decided = read_decisions((project.folder / "decisions.md").read_text())
        assert [each.number for each in decided] == list(range(1, len(decided) + 1))
        assert todos >= todos_before
        assert len(decided) >= decided_before
        todos_before, decided_before = todos, len(decided)
        if looks % 10 == 0:
            project.brief()
        looks += 1
    return looks


def check(seen: Seen) -> None:
    """Every one is there once, and the numbers have neither gaps nor repeats."""
    assert not seen.answered_twice
    assert {**seen.todos, **seen.decisions} == seen.answered
    for prefix, found in (("TODO", seen.todos), ("ADR", seen.decisions)):
        assert sorted(found) == sorted(f"{prefix}-{n:03d}" for n in range(1, len(found) + 1))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--writers", type=int, default=8)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="relay-together-") as folder:
        os.environ["RELAY_HOME"] = str(Path(folder) / "store")
        seen = together(Path(folder), args.seconds, args.writers)
        check(seen)
    print(
        f"{len(seen.todos)} todos, {len(seen.decisions)} decisions, {seen.looks} looks: all there"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
