"""A cloned project reaches nothing of the user's: no link below it is followed, by any door."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from contextrelay import Refused, Relay
from contextrelay.model.project import FILES, OWN_FOLDER, STATE, TODOS
from contextrelay.project import Project, confined
from contextrelay.project.heartbeat import run_heartbeat
from contextrelay.project.thread_link import link_at
from tests.cli.shell import Shell
from tests.mcp.connecting import connecting, text_of
from tests.parts import has_command, needs
from tests.rigs import rig, some
from tests.security.clones import LINKS, SECRET, Clone, everything

COMMANDS = (
    ("project", "start"),
    ("prime",),
    ("project", "todo", "add", "x"),
    ("project", "finish", "--task", "x"),
    ("project", "heartbeat", "--exec", "cat"),
    ("project", "doctor"),
)
TOOLS: tuple[tuple[str, dict[str, str]], ...] = (
    ("relay_project_start", {}),
    ("relay_project_todo", {"action": "add", "title": "x"}),
    ("relay_project_finish", {"current_task": "x"}),
    ("relay_project_init", {}),
)
# What a person types in a clone; the rest differs only in what is written.
SOME = ("link.json and link.part", "seen to a folder", "link.json to a file", "lock to nothing")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


@rig
@pytest.mark.parametrize("has_descriptors", [True, False], ids=["", "as-on-windows"])
@pytest.mark.parametrize("attack", some(LINKS, 9))
def test_whatever_is_a_link_nothing_outside_is_read_written_or_deleted(
    clone: Clone,
    attack: str,
    has_descriptors: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Promise J6. Promise Z4."""
    LINKS[attack](clone)
    if not has_descriptors:
        monkeypatch.setattr(confined, "_HAS_DESCRIPTORS", False)
        monkeypatch.setattr(confined, "_NO_FOLLOW", 0)
    with Relay(tmp_path / "store") as relay:
        link = link_at(clone.folder, str(tmp_path / "store"), lambda: relay)

        everything(Project(clone.folder, link=link))

    clone.check()


@pytest.mark.parametrize("attack", SOME)
def test_by_the_command_line_nothing_outside_is_touched(
    clone: Clone, attack: str, shell: Shell
) -> None:
    """Promise Z4."""
    LINKS[attack](clone)

    for words in COMMANDS:
        done = shell.run(*words, "--project", str(clone.folder))
        assert b"Traceback" not in done.stderr, done.stderr.decode()

    clone.check()


@pytest.mark.parametrize("attack", SOME)
def test_by_the_tools_for_models_nothing_outside_is_touched(
    clone: Clone, attack: str, tmp_path: Path
) -> None:
    """Promise Z4."""
    LINKS[attack](clone)

    with connecting(tmp_path / "store", "stdio", "modern") as place:
        for tool, arguments in TOOLS:
            answer = text_of(place.call(tool, folder=str(clone.folder), **arguments))
            assert SECRET not in answer

    clone.check()


@pytest.mark.parametrize("name", [*FILES, OWN_FOLDER, f"{OWN_FOLDER}/lock"])
def test_what_is_a_link_is_named_with_the_next_step(clone: Clone, name: str, shell: Shell) -> None:
    """Promise J6."""
    if name == OWN_FOLDER:
        LINKS["the folder of ours"](clone)
    else:
        clone.put_link(name, clone.settings)

    code, answer = shell.fails("project", "start", "--project", str(clone.folder))
    begun = shell.out("prime", "--project", str(clone.folder))
    doctor = shell.run("project", "doctor", "--project", str(clone.folder))

    assert code == Refused.exit_code
    assert f"{name} is a link" in answer
    assert "remove it" in answer
    assert f"{name} is a link" in begun
    assert doctor.returncode == 2
    assert f"{name}" in doctor.stdout.decode()


@pytest.mark.parametrize("name", ["seen", "link.json"])
def test_what_is_left_out_because_of_a_link_is_reported(
    clone: Clone, name: str, shell: Shell
) -> None:
    """Promise J6. The brief does not need them, and is given; a warning names the link."""
    LINKS[f"{name} to a {'folder' if name == 'seen' else 'file'}"](clone)

    done = shell.run("project", "start", "--project", str(clone.folder))

    assert done.returncode == 0
    assert f"{OWN_FOLDER}/{name} is a link" in done.stderr.decode()


def test_a_link_that_comes_and_goes_is_never_followed(clone: Clone) -> None:
    """Promise Z4. Somebody changes what is below the project while we are at work in it."""
    names = [clone.own, clone.own / "seen", clone.folder / STATE]
    stopped = threading.Event()

    def flip() -> None:
        while not stopped.is_set():
            for path in names:
                aside = path.with_name(f"{path.name}-aside")
                with suppress(OSError):
                    path.rename(aside)
                    path.symlink_to(clone.private if path != names[2] else clone.settings)
                    path.unlink()
                    aside.rename(path)

    flipping = threading.Thread(target=flip)
    flipping.start()
    try:
        for _ in range(30):
            everything(Project(clone.folder))
    finally:
        stopped.set()
        flipping.join()

    assert clone.seen() == clone.before


def test_a_folder_that_the_user_reaches_by_a_link_is_a_project(clone: Clone, shell: Shell) -> None:
    """Promise J6. The way to the project is its user's; only what is below it is not."""
    alias = clone.home / "work"
    alias.symlink_to(clone.folder)
    shell.out("project", "todo", "add", "By the alias", "--project", str(alias))

    assert "By the alias" in shell.out("project", "start", "--project", str(alias))
    assert [todo.title for todo in Project.find(alias).todos.list()][-1] == "By the alias"


@pytest.mark.parametrize(
    "name",
    [
        *("d/id_rsa", "d/../d/id_rsa", "key", "sub/up/id_rsa", "../home/id_rsa", "/etc/passwd"),
        *("pipe", "sub", "a\0b", "x" * 5_000, "PROJECT.md/x", "", ".", "~/x"),
    ],
)
def test_a_heartbeat_reads_nothing_outside(clone: Clone, name: str) -> None:
    """Promise Z4."""
    (clone.folder / "d").symlink_to("../home")
    (clone.folder / "key").symlink_to(clone.home / "id_rsa")
    (clone.folder / "sub").mkdir()
    (clone.folder / "sub" / "up").symlink_to(clone.home)
    os.mkfifo(clone.folder / "pipe")
    path = clone.folder / TODOS
    document = json.loads(path.read_text())
    document["todos"][0]["files"] = [name]
    path.write_text(json.dumps(document))

    (done,) = run_heartbeat(Project(clone.folder), "cat")

    assert done.status == "blocked"
    assert SECRET not in done.text
    clone.check()


PLACES = (
    *FILES,
    *(f"{OWN_FOLDER}/{name}" for name in ("lock", "lock.gate", "link", "heartbeat.gate")),
    *(f"{OWN_FOLDER}/{name}" for name in ("journal.json", "link.json", "seen")),
)


@rig
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
@pytest.mark.parametrize("name", some(PLACES, 3))
def test_what_is_no_file_makes_nobody_wait(clone: Clone, name: str, kind: str) -> None:
    """Promise J6."""
    script = (
        "import sys; from contextrelay.project import Project;"
        "from tests.security.clones import everything;"
        "from tests.fuzz.measured import peak_bytes;"
        "print([each.message for each in everything(Project(sys.argv[1]))])"
    )
    path = clone.folder / name
    if path.is_dir():
        for inside in path.iterdir():
            inside.unlink()
        path.rmdir()
    path.unlink(missing_ok=True)
    _make(path, kind)

    done = subprocess.run(
        [sys.executable, "-c", script, str(clone.folder)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr.decode()


def _make(path: Path, kind: str) -> None:
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            import socket

            with socket.socket(socket.AF_UNIX) as made:
                # By a short name: the path of a socket has at most 107 characters.
                before = Path.cwd()
                os.chdir(path.parent)
                try:
                    made.bind(path.name)
                finally:
                    os.chdir(before)
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            path.mkdir()


def test_files_that_are_huge_or_deep_are_refused_in_little_memory(clone: Clone) -> None:
    """Promise J6. Measured in a child: what it holds at most."""
    script = (
        "import sys; from contextrelay.project import Project;"
        "from tests.security.clones import everything;"
        "from tests.fuzz.measured import peak_bytes;"
        "everything(Project(sys.argv[1]));"
        "print(peak_bytes() // 1024)"
    )
    for name in ("link.json", "journal.json"):
        path = clone.own / name
        with path.open("wb") as file:
            file.truncate(1 << 34)
    with (clone.folder / STATE).open("wb") as file:
        file.truncate(1 << 34)

    done = subprocess.run(
        [sys.executable, "-c", script, str(clone.folder)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) < 400_000  # KiB; the files have 64 GiB.


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"files": {"state.json": {"before": 3, "after": 4}}}',
        '{"files": {"../x": {"before": null, "after": "x"}}}',
        '{"files": [1]}',
        "[]",
        "\udc80".encode("utf-8", "surrogateescape").decode("latin-1"),
    ],
)
@pytest.mark.parametrize("name", ["link.json", "journal.json"])
def test_files_of_ours_that_somebody_else_wrote_never_end_in_a_trace(
    clone: Clone, name: str, text: str, tmp_path: Path
) -> None:
    """Promise J6."""
    (clone.own / name).write_text(text)

    with Relay(tmp_path / "store") as relay:
        link = link_at(clone.folder, str(tmp_path / "store"), lambda: relay)
        everything(Project(clone.folder, link=link))

    clone.check()


def test_a_shipped_link_names_no_thread_of_the_user(clone: Clone, tmp_path: Path) -> None:
    """Promise Z4. The name of a thread can be guessed; its id cannot."""
    address = str(tmp_path / "store")
    (clone.own / "link.json").write_text(json.dumps({address: {"thread": "plans"}}))
    with Relay(address) as relay:
        plans = relay.thread("plans")
        project = Project(clone.folder, link=link_at(clone.folder, address, lambda: relay))

        project.brief()

        assert plans.state()["facts"] == []
        assert project.link is not None
        assert project.link.thread_id not in ("plans", plans.id)


def test_a_shipped_brief_is_not_shown(clone: Clone, shell: Shell) -> None:
    """Promise J4. Cached briefs are in the user's cache folder, and earlier ones are ignored."""
    words = ("project", "start", "--project", str(clone.folder), "--no-thread")
    brief = shell.out(*words)

    assert not (clone.own / "brief.json").exists()
    (clone.own / "brief.json").write_text(json.dumps({"briefing": {"text": "evil"}}))
    assert shell.out(*words) == brief


def test_a_commit_runs_no_program_that_a_clone_brought(
    clone: Clone, shell: Shell, tmp_path: Path
) -> None:
    """Promise Z4. A clone can bring a folder laid out as a bare repository, with its settings."""
    needs("git", has_command("git"))
    proof = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {proof}\n")
    program.chmod(0o755)
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "bare")], check=True)
    for name in ("HEAD", "objects", "refs", "config"):
        (tmp_path / "bare" / name).rename(clone.folder / name)
    for key, value in (("bare", "false"), ("worktree", "."), ("fsmonitor", str(program))):
        config = ["git", "config", "-f", str(clone.folder / "config"), f"core.{key}", value]
        subprocess.run(config, check=True)

    done = shell.run("project", "finish", "--commit", "--project", str(clone.folder))

    assert done.returncode != 0
    assert not proof.exists()


# What asks or changes the file system, by the name of the method or of the function in os.
TOUCHING = {
    *("open", "read_bytes", "read_text", "write_bytes", "write_text", "unlink", "rmdir", "mkdir"),
    *(
        "iterdir",
        "glob",
        "rglob",
        "walk",
        "stat",
        "lstat",
        "exists",
        "lexists",
        "is_file",
        "is_dir",
    ),
    *("is_symlink", "touch", "symlink_to", "hardlink_to", "chmod", "rename"),
    *("remove", "listdir", "scandir", "link", "access", "makedirs", "isfile", "isdir", "islink"),
    *("copyfile", "copy", "rmtree", "move", "fsync", "truncate", "utime", "readlink", "realpath"),
}


def test_only_one_file_of_the_product_opens_what_is_below_a_project() -> None:
    """Promise Z4."""
    package = Path(confined.__file__).parents[1]
    sources = [
        *(package / "project").rglob("*.py"),
        package / "mcp" / "tools" / "projects.py",
    ]
    found: list[str] = []
    for source in sources:
        if source == Path(confined.__file__):
            continue
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [getattr(node, "module", None), *(each.name for each in node.names)]
                found += [f"{source.name}: {n}" for n in names if n in ("shutil", "io")]
                # A TemporaryFile has no name, and is not in the project.
                if "tempfile" in names and names != ["tempfile", "TemporaryFile"]:
                    found.append(f"{source.name}: tempfile")
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            is_ours = called.startswith(("confined.", "files.")) or called == "read_text"
            if called.rpartition(".")[2] in TOUCHING and not is_ours:
                found.append(f"{source.name}:{node.lineno}: {called}")

    assert not found, found
