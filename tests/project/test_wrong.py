"""What is wrong on disk: missing, empty, huge, of another type, a link, not to be written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from contextrelay.errors import Broken, Invalid, Refused, RelayError, TooLarge
from contextrelay.model.project import ABOUT, DECISIONS, FILES, STATE, TODOS
from contextrelay.project import Project
from contextrelay.project.check import check
from contextrelay.project.init import make_project

MIB = 1024 * 1024


def everything(project: Project) -> None:
    """One of each: it either works, or fails with an error of ours."""
    acts: list[Callable[[], object]] = [
        project.brief,
        lambda: project.todos.add("Write tests"),
        lambda: project.decide("Use files"),
        lambda: project.note("a note"),
        lambda: project.finish(current_task="X", todos={"add": ["Y"]}, decisions=["Z"]),
        project.todos.review,
        lambda: project.tasks.give("a task"),
        lambda: check(project),
    ]
    hints: list[str] = []
    for act in acts:
        try:
            act()
        except RelayError as error:
            hints.append(error.hint)
    assert all(hints)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named_and_made_when_it_is_needed(project: Project, name: str) -> None:
    """Promise J6."""
    (project.folder / name).unlink()

    assert name in project.brief().text
    found = {each.file: each.state for each in check(project)}
    assert found[name] == "hint"
    everything(project)
    assert Project.find(project.folder).folder == project.folder
    assert (project.folder / name).exists() == (name != ABOUT)


@pytest.mark.parametrize("name", [STATE, TODOS])
@pytest.mark.parametrize(
    ("content", "kind", "says"),
    [
        (b"", Broken, "empty"),
        (b"\xef\xbb\xbf", Broken, "empty"),
        (b'{"todos": [}', Broken, "line 1, column 12"),
        (b"\x00" * 100, Broken, "line 1, column 1"),
        (b"\xff\xfe{\x00}\x00", Broken, "is no UTF-8"),
        (b"{\n<<<<<<< ours\n=======\n>>>>>>> theirs\n}", Broken, "line 2, column 1"),
        (b"[]", Refused, "holds no object"),
        (b'"text"', Refused, "holds no object"),
        (b"[" * 100_000, Broken, "nested deeper"),
    ],
)
def test_a_broken_file_is_named_and_never_overwritten(
    project: Project, name: str, content: bytes, kind: type[RelayError], says: str
) -> None:
    """Promise J6."""
    (project.folder / name).write_bytes(content)

    with pytest.raises(kind, match=says) as caught:
        project.finish(current_task="X", todos={"add": ["Y"]}, decisions=["Z"])
    assert name in caught.value.message
    assert caught.value.hint
    with pytest.raises(kind, match=says):
        project.brief()
    everything(project)

    assert (project.folder / name).read_bytes() == content
    failures = [each for each in check(project) if each.state == "failure"]
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
    "content",
    [
        '{"todos": {}}',
        '{"todos": [1, "x", null]}',
        '{"todos": [{"id": 5, "title": ["x"], "status": {}, "tags": 3, "blocked_by": "TODO-001"}]}',
        '{"todos": [], "completed": "x"}',
        '{"todos": [{"id": "TODO-001", "completed_at": 5, "due_date": []}], "last_review": 7}',
        '{"metadata": []}',
    ],
)
def test_todos_of_wrong_types_never_end_in_a_trace(project: Project, content: str) -> None:
    """Promise J6."""
    (project.folder / TODOS).write_text(content)
    everything(project)


@pytest.mark.parametrize(
    "content",
    [
        '{"progress": []}',
        '{"progress": {"completed": {"a": 1}, "blocked": 3, "next_steps": "x"}, "phase": 7}',
        '{"notes": {"a": 1}, "tasks": {}, "conflicts": "x", "current_task": null}',
        '{"tasks": [{"id": 3, "status": []}], "conflicts": [1, {"field": 3}]}',
    ],
)
def test_states_of_wrong_types_never_end_in_a_trace(project: Project, content: str) -> None:
    """Promise J6."""
    (project.folder / STATE).write_text(content)
    everything(project)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_a_link_is_neither_read_nor_written(
    project: Project, tmp_path: Path, name: str
) -> None:
    """Promise J6."""
    outside = tmp_path / "private"
    outside.write_text("{}")
    (project.folder / name).unlink()
    (project.folder / name).symlink_to(outside)

    with pytest.raises(Refused, match="is a link"):
        project.brief()
    everything(project)

    assert outside.read_text() == "{}"
    assert (project.folder / name).is_symlink()


def test_a_link_inside_the_project_is_not_followed_either(project: Project) -> None:
    """Promise J6. Where it leads now says nothing of where it leads a moment later."""
    (project.folder / "docs").mkdir()
    (project.folder / DECISIONS).rename(project.folder / "docs" / "adr.md")
    (project.folder / DECISIONS).symlink_to("docs/adr.md")

    with pytest.raises(Refused, match=r"decisions\.md is a link") as caught:
        project.decide("Use links")

    assert "put the file itself there" in caught.value.hint
    assert "Use links" not in (project.folder / "docs" / "adr.md").read_text()


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_refused(project: Project, kind: str) -> None:
    """Promise J6."""
    path = project.folder / STATE
    path.unlink()
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)

    with pytest.raises((Refused, Broken), match=STATE):
        project.brief()
    everything(project)


def test_a_folder_of_ours_that_is_a_link_is_refused(project: Project, tmp_path: Path) -> None:
    for path in project.own_folder.iterdir():
        path.unlink()
    project.own_folder.rmdir()
    project.own_folder.symlink_to(tmp_path)

    with pytest.raises(Refused, match="is a link"):
        project.note("x")


def test_files_keep_their_permissions_and_line_ends(project: Project) -> None:
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


def test_a_folder_that_cannot_be_written_can_be_read() -> None:
    """Promise J6."""
    with tempfile.TemporaryDirectory(prefix="relay-read-only-") as name:
        folder = Path(name)
        project = Project(folder)
        make_project(project, "locked")
        (project.own_folder / "brief.json").unlink(missing_ok=True)
        text = project.brief().text
        folder.chmod(0o555)
        project.own_folder.chmod(0o555)

        answer = as_nobody(lambda: _attempt(folder, text))

        folder.chmod(0o755)
        project.own_folder.chmod(0o755)
    assert answer == "all right"


def _attempt(folder: Path, text: str) -> str:
    project = Project(folder)
    if project.brief().text != text:
        return "another brief"
    try:
        project.note("x")
    except Invalid as error:
        return "all right" if "cannot be written" in error.message and error.hint else str(error)
    return "it was written"


def as_nobody(act: Callable[[], str]) -> str:
    """What comes of an act by somebody who may do nothing; permissions do not stop root."""
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
