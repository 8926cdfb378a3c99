"""The files that a model may read: what git tracks in the folder, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from contextrelay import Failed, Invalid, NotFound, Relay, TooLarge
from contextrelay.runs.providers.echo import Echo, ScriptedCall, ScriptLine
from contextrelay.runs.tools import RUN_FILE_BYTES_MAX, TrackedFiles


def git(folder: Path, *words: str) -> None:
    own = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with two files, a link, and a file that git does not track."""
    folder = tmp_path / "repo"
    (folder / "src").mkdir(parents=True)
    (folder / "README.md").write_text("# Orders\n\nThe port is 8080.\n")
    (folder / "src" / "app.py").write_text("PORT = 8080\n")
    (folder / "link.md").symlink_to("README.md")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    (folder / "secret.env").write_text("KEY=1")
    return folder


def test_a_model_lists_and_reads_tracked_files_each_stored_as_a_ref(folder: Path) -> None:
    """Promises X1, X2: `summarize this repo` is possible."""
    thread = Relay("memory:").new_thread("repo")
    calls = (
        ScriptedCall("relay_files", {}),
        ScriptedCall("relay_files", {"pattern": "src/*.py"}),
        ScriptedCall("relay_read", {"path": "README.md"}),
        ScriptedCall("relay_read", {"path": "README.md"}),
        ScriptedCall("relay_read", {"path": "secret.env"}),
        ScriptedCall("relay_read", {"path": "link.md"}),
        ScriptedCall("relay_read", {"path": "../repo/README.md"}),
    )

    result = thread.run(
        "summarize this repo",
        Echo(script=[ScriptLine("", calls), ScriptLine("Orders, on port 8080.")]),
        files=folder,
    )

    called = next(each.event for each in thread.events() if each.event.type == "run.called")
    exchange = json.loads(thread.relay.pull(called.detail["exchange"]))
    said = [each["text"] for each in exchange["results"]]
    assert "README.md\nsrc/app.py\n" in said[0]
    assert "link.md" not in said[0]
    assert "secret.env" not in said[0]
    assert "README.md" not in said[1]
    assert "The port is 8080." in said[2]
    assert said[3] == said[2]
    assert all(text.startswith("error: git does not track") for text in said[4:])
    (ref,) = result.source_refs
    assert thread.relay.peek(ref).metadata["path"] == "README.md"
    assert thread.relay.pull(ref) == (folder / "README.md").read_bytes()
    assert thread.relay.peek(ref).expires_at is None
    assert [each["ref"] for each in thread.state()["artifacts"]] == [result.ref]


def test_links_that_came_since_are_not_followed(folder: Path, tmp_path: Path) -> None:
    """Promise X2: nothing outside of the folder is read."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "app.py").write_text("SECRET = 1")
    files = TrackedFiles(folder)
    assert files.paths() == ["README.md", "src/app.py"]
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to(outside / "app.py")
    (folder / "src" / "app.py").unlink()
    (folder / "src").rmdir()
    (folder / "src").symlink_to(outside)

    for path in files.paths():
        with pytest.raises(Invalid, match="cannot read"):
            files.read(path)


def test_what_is_no_plain_file_of_a_fair_size_is_refused(folder: Path) -> None:
    """Promise X2: bounded, and never held up."""
    files = TrackedFiles(folder)
    (folder / "README.md").write_bytes(b"x" * (RUN_FILE_BYTES_MAX + 1))
    (folder / "src" / "app.py").unlink()
    os.mkfifo(folder / "src" / "app.py")

    with pytest.raises(TooLarge):
        files.read("README.md")
    with pytest.raises(Invalid, match="not a regular file"):
        files.read("src/app.py")
    with pytest.raises(NotFound):
        files.read("src")


def test_a_folder_without_git_offers_no_files(tmp_path: Path) -> None:
    """Promise X2."""
    thread = Relay("memory:").new_thread("no git")
    script = [ScriptLine("", (ScriptedCall("relay_files", {}),)), ScriptLine("none")]

    thread.run("list", Echo(script=script), files=tmp_path)

    called = next(each.event for each in thread.events() if each.event.type == "run.called")
    assert called.detail["tools"][0]["is_error"] is True
    (tmp_path / ".git").mkdir()
    with pytest.raises(Failed, match="git cannot list files here"):
        TrackedFiles(tmp_path).paths()


def test_settings_of_a_repository_run_nothing(folder: Path, tmp_path: Path) -> None:
    """Promise X2: a repository that somebody else made is only read."""
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    git(folder, "config", "core.fsmonitor", str(program))

    assert TrackedFiles(folder).paths() == ["README.md", "src/app.py"]
    assert not ran.exists()
