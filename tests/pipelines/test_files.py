"""Files of pipelines: what `validate` refuses before anything runs, and with which place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contextrelay.limits import PIPELINE_BYTES_MAX
from tests.cli.shell import Shell

STEP = "name: p\nsteps:\n  a: "


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"name: p\ndescription: \xc3\xbc\xff", "p.yaml:2:15: no UTF-8"),
        (b"name: p\n#" + b"x" * PIPELINE_BYTES_MAX, "p.yaml:2:262137: longer than 262,144 bytes"),
        (b"name: p\n#" + b"\xc3\xbc" * PIPELINE_BYTES_MAX, "p.yaml:2:"),
        (f"{STEP}{{prompt: hi, model: opnai}}".encode(), "p.yaml:3:26: the step a: there is no"),
        (f"budget: {{price: 1}}\n{STEP}{{prompt: hi, model: echo}}".encode(), "p.yaml:4:26: the"),
        (f"budget: {{price: 1}}\n{STEP}{{cli: cat, prompt: hi}}".encode(), "p.yaml:4:12: the step"),
        (f"{STEP}{{exec: ''}}".encode(), "p.yaml:3:13: exec: an empty command"),
        (f"{STEP}{{exec: \"echo '{{{{run.id}}}}'\"}}".encode(), "p.yaml:3:20: exec: {{run.id}}"),
    ],
)
def test_what_cannot_be_run_is_refused_by_a_check_with_its_place(
    tmp_path: Path, body: bytes, said: str
) -> None:
    """Promise X4."""
    shell = Shell(tmp_path)
    (tmp_path / "p.yaml").write_bytes(body)

    for words in (("validate", "p.yaml"), ("run", "p.yaml", "--dry-run"), ("run", "p.yaml")):
        ran = shell.run("pipeline", *words)
        assert ran.returncode == 2
        assert ran.stderr.decode().startswith(f"error: {said}")
    assert shell.run("pipeline", "list").stdout == b""


def test_a_key_that_is_missing_here_is_no_fault_of_the_file(tmp_path: Path) -> None:
    """Promise X4."""
    shell = Shell(tmp_path)
    shell.env = {name: each for name, each in shell.env.items() if not name.endswith("_API_KEY")}
    for model in ("anthropic", "openai:gpt-5", "ollama"):
        (tmp_path / "p.yaml").write_text(f"{STEP}{{prompt: hi, model: '{model}'}}")

        assert shell.run("pipeline", "validate", "p.yaml").returncode == 0


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_only_a_file_is_read(tmp_path: Path, kind: str) -> None:
    """Promise X4."""
    name = {"fifo": "pipe", "folder": "folder", "device": "/dev/zero"}[kind]
    if kind == "fifo":
        os.mkfifo(tmp_path / name)
    elif kind == "folder":
        (tmp_path / name).mkdir()

    ran = Shell(tmp_path).run("pipeline", "validate", name)

    assert ran.returncode == 2
    assert b"is no file" in ran.stderr or b"Is a directory" in ran.stderr
