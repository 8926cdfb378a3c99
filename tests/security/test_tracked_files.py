"""Repositories that somebody else made, `.git` included: as a model lists and reads their files."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
from pathlib import Path

import pytest

from contextrelay import NotFound
from contextrelay.runs.tools import TrackedFiles


def _git(folder: Path, *words: str) -> str:
    own = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    _git(folder, "init", "--quiet")
    return folder


def _index(folder: Path, *names: bytes) -> None:
    """Write an index as git itself would never write it."""
    index = b"DIRC" + struct.pack(">II", 2, len(names))
    for name in sorted(names):
        entry = struct.pack(">10I", *(0,) * 6, 0o100644, 0, 0, 0) + bytes(20)
        entry += struct.pack(">H", len(name)) + name
        index += entry + bytes(8 - len(entry) % 8)
    (folder / ".git" / "index").write_bytes(index + hashlib.sha1(index).digest())


@pytest.mark.parametrize(
    "name", ["../outside", "in/../../outside", ".git/config", "in/.GIT/config", "./../outside"]
)
def test_an_index_that_names_files_outside_of_the_folder_is_not_believed(
    folder: Path, tmp_path: Path, name: str
) -> None:
    """Promise X2: nothing outside of the folder is read."""
    (tmp_path / "outside").write_text("SECRET = 1")
    (folder / "in" / ".GIT").mkdir(parents=True)
    (folder / "in" / ".GIT" / "config").write_text("SECRET = 1")
    (folder / "own").write_text("own")
    _index(folder, b"own", name.encode())
    files = TrackedFiles(folder)

    assert files.paths() == ["own"]
    assert files.read("own") == b"own"
    with pytest.raises(NotFound):
        files.read(name)


@pytest.mark.parametrize("way", ["ssh", "upload-pack", "helper"])
def test_a_repository_whose_objects_are_elsewhere_runs_nothing(
    folder: Path, tmp_path: Path, way: str
) -> None:
    """Promise X2: what git runs by a repository's own settings is off."""
    program, ran = tmp_path / "program", tmp_path / "ran"
    program.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
    program.chmod(0o755)
    for name in ("away/file", "here/file"):
        (folder / name).parent.mkdir()
        (folder / name).write_text(name)
    _git(folder, "add", ".")
    _git(folder, "commit", "--quiet", "-m", "both")
    _git(folder, "sparse-checkout", "set", "--cone", "--sparse-index", "here")
    # To list what is in `away`, git needs a tree that is not here, and asks for it.
    tree = _git(folder, "rev-parse", "HEAD:away")
    os.unlink(folder / ".git" / "objects" / tree[:2] / tree[2:])
    settings = {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "protocol.allow": "always",
        "protocol.ext.allow": "always",
        "core.sshCommand": str(program),
        "remote.origin.uploadpack": str(program),
        "remote.origin.url": {
            "ssh": "ssh://host.invalid/x",
            "upload-pack": str(folder),
            "helper": f"ext::{program}",
        }[way],
    }
    for name, value in settings.items():
        _git(folder, "config", name, value)

    files = TrackedFiles(folder).paths()

    assert "here/file" in files
    assert not ran.exists()
