"""Export and import: a thread leaves as one file, and comes back as another thread."""

from __future__ import annotations

import zipfile

import pytest

from tests.cli.shell import Shell


def test_a_thread_goes_out_and_comes_back_with_its_history_and_bytes(shell: Shell) -> None:
    """Promise T10."""
    first = shell.out("thread", "new", "--name", "my orders").strip()
    content = bytes(range(256)) * 300
    shell.out("artifact", "put", "-", "-t", first, "--type", "binary", stdin=content)
    shell.out("state", "add", "fact", "one")

    file = shell.out("export", "my orders").strip()
    made = shell.json("--store", "other", "import", file, "--name", "copy")

    assert file == f"my-orders-{first[:8]}.relay.zip"
    assert made["thread_id"] != first
    assert (made["name"], made["version"]) == ("copy", 3)
    there = ("--store", "other")
    (artifact,) = shell.json(*there, "artifact", "list", "-t", "copy")["artifacts"]
    assert artifact["type"] == "binary"
    assert shell.run(*there, "artifact", "get", artifact["ref"]).stdout == content
    assert shell.json(*there, "state", "show", "copy@v3:/facts/0/value") == "one"
    assert shell.json(*there, "state", "show", "copy@v2")["facts"] == []
    assert shell.json(*there, "verify")["problem_count"] == 0


def test_a_thread_goes_through_a_pipe(shell: Shell) -> None:
    """Promise T10."""
    shell.out("thread", "new", "--name", "piped")

    exported = shell.run("export", "-o", "-").stdout
    thread = shell.out("--store", "other", "import", "-", stdin=exported).strip()

    assert shell.json("--store", "other", "thread", "show")["thread_id"] == thread


@pytest.mark.parametrize("kind", ["text", "zip", "missing"])
def test_what_is_no_export_is_refused_and_leaves_nothing(shell: Shell, kind: str) -> None:
    """Promise Z3."""
    file = shell.home / "x.zip"
    if kind == "text":
        file.write_text("this is no zip")
    elif kind == "zip":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("../../evil", "x")

    code, error = shell.fails("import", "x.zip")

    assert code == 2
    assert len(error.splitlines()) == 2
    assert shell.json("thread", "list")["threads"] == []
    assert shell.json("artifact", "list")["artifacts"] == []
