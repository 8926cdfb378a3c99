"""Problems on disk: files that are missing, empty, huge, of a wrong type, links, or read-only."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from contextrelay.errors import Broken, Invalid, Refused, RelayError, TooLarge
from contextrelay.model.project import DECISIONS, FILES, PROJECT_FILE, STATE, TODOS
from contextrelay.project import Project
from contextrelay.project.check import check
from contextrelay.project.project import init_project
from tests.project.conftest import NOW

MIB = 1024 * 1024


def everything(project: Project) -> None:
    """Call each method: it works, or fails with an error of ours that has a hint."""
    acts: list[Callable[[], object]] = [
        project.brief,
        lambda: project.todos.add("Write tests"),
        lambda: project.decide("Use files"),
        lambda: project.note("a note"),
        lambda: project.finish(current_task="X", todos={"add": ["Y"]}, decisions=["Z"]),
        project.todos.review,
        lambda: project.tasks.give("a task"),
        lambda: check(project.folder, NOW),
    ]
    hints: list[str] = []
    for act in acts:
        try:
            act()
        except RelayError as error:
            hints.append(error.hint)
    assert all(hints)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named_and_created_when_it_is_needed(project: Project, name: str) -> None:
    """Promise J6."""
    (project.folder / name).unlink()

    assert name in project.brief().text
    assert {each.file: each.state for each in check(project.folder, NOW)}[name] == "hint"
    everything(project)
    assert Project.find(project.folder).folder == project.folder
    assert (project.folder / name).exists() == (name != PROJECT_FILE)


@pytest.mark.parametrize("name", [STATE, TODOS])
def test_an_invalid_file_is_named_and_never_overwritten(project: Project, name: str) -> None:
    """Promise J6."""
    cases: list[tuple[bytes, type[RelayError], str]] = [
        (b"\xef\xbb\xbf", Broken, "empty"),
        (b'{"todos": [}', Broken, "line 1, column 12"),
        (b"\x00" * 100, Broken, "line 1, column 1"),
        (b"\xff\xfe{\x00}\x00", Broken, "invalid UTF-8"),
        (b"{\n<<<<<<< ours\n=======\n>>>>>>> theirs\n}", Broken, "line 2, column 1"),
        (b"[]", Refused, "is not a JSON object"),
        (b"[" * 100_000, Broken, "nested deeper"),
    ]
    for content, kind, problem in cases:
        (project.folder / name).write_bytes(content)

        with pytest.raises(kind, match=problem) as caught:
            project.finish(current_task="X", todos={"add": ["Y"]}, decisions=["Z"])
        assert name in caught.value.message
        assert caught.value.hint
        with pytest.raises(kind, match=problem):
            project.brief()
        everything(project)

        assert (project.folder / name).read_bytes() == content
        failures = [each for each in check(project.folder, NOW) if each.state == "failure"]
        assert [each.file for each in failures] == [name]


@pytest.mark.parametrize("name", FILES)
def test_a_huge_file_is_refused_before_it_is_read(project: Project, name: str) -> None:
    """Promise J6."""
    with (project.folder / name).open("wb") as file:
        file.truncate(100 * MIB)

    with pytest.raises(TooLarge, match=name) as caught:
        project.brief()

    assert "8,388,608" in caught.value.hint
    everything(project)
    assert (project.folder / name).stat().st_size == 100 * MIB


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (TODOS, '{"todos": {}}'),
        (TODOS, '{"todos": [1, "x", null]}'),
        (TODOS, '{"todos": [{"id": 5, "title": ["x"], "status": {}, "blocked_by": "TODO-001"}]}'),
        (TODOS, '{"todos": [], "completed": "x"}'),
        (TODOS, '{"todos": [{"id": "TODO-001", "due_date": []}], "last_review": 7}'),
        (TODOS, '{"metadata": []}'),
        (STATE, '{"progress": []}'),
        (STATE, '{"progress": {"completed": {"a": 1}, "next_steps": "x"}, "phase": 7}'),
        (STATE, '{"notes": {"a": 1}, "tasks": {}, "conflicts": "x", "current_task": null}'),
        (STATE, '{"tasks": [{"id": 3, "status": []}], "conflicts": [1, {"field": 3}]}'),
    ],
)
def test_fields_of_wrong_types_cause_no_crash(project: Project, name: str, content: str) -> None:
    """Promise J6."""
    (project.folder / name).write_text(content)
    everything(project)


def test_files_keep_their_permissions_and_line_endings(project: Project) -> None:
    """Promise J6."""
    path = project.folder / TODOS
    path.write_bytes(b'\xef\xbb\xbf{\r\n\t"todos": [],\r\n\t"x": 1.0\r\n}')
    path.chmod(0o640)

    project.todos.add("Ümlaut")

    content = path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o640
    assert content.startswith(b'\xef\xbb\xbf{\r\n\t"todos": [\r\n\t\t{\r\n\t\t\t"id": "TODO-001"')
    assert content.endswith(b'],\r\n\t"x": 1.0\r\n}')
    assert b"\n" not in content.replace(b"\r\n", b"")


def test_a_read_only_project_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise J6."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/nonexistent")
    with tempfile.TemporaryDirectory(prefix="relay-read-only-") as name:
        folder = Path(name)
        project = Project(folder)
        init_project(project, "locked")
        text = project.brief().text
        folder.chmod(0o555)
        project.own_folder.chmod(0o555)

        answer = as_nobody(lambda: _attempt(folder, text))

        folder.chmod(0o755)
        project.own_folder.chmod(0o755)
    assert answer == "as expected"


def _attempt(folder: Path, text: str) -> str:
    project = Project(folder)
    if project.brief().text != text:
        return "another brief"
    try:
        project.note("x")
    except Invalid as error:
        return "as expected" if "cannot write" in error.message and error.hint else str(error)
    return "it was written"


def as_nobody(act: Callable[[], str]) -> str:
    """Return the result of an act by a user without permissions; they do not stop root."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "it failed"
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            answer = act()
        except BaseException as error:
            answer = repr(error)
        finally:
            os.write(writing, answer.encode()[:4000])
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read().decode()


def test_decisions_with_a_gap_of_a_billion_are_checked_at_once(project: Project) -> None:
    (project.folder / DECISIONS).write_text("## ADR-999999999: x\n")
    found = [each for each in check(project.folder, NOW) if each.file == DECISIONS]
    assert [each.text for each in found] == ["missing: ADR-001, ADR-002, ADR-003, ADR-004, ADR-005"]
