"""Files of pipelines: what `validate` refuses before anything runs, and with which place."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextrelay.limits import PIPELINE_BYTES_MAX
from tests.cli.shell import Shell

STEP = "name: p\nsteps:\n  a: "


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"name: p\ndescription: \xc3\xbc\xff", "p.yaml:2:15: not valid UTF-8"),
        (b"name: p\n#" + b"\xc3\xbc" * PIPELINE_BYTES_MAX, "p.yaml:2:"),
        (
            f"budget: {{price: 1}}\n{STEP}{{prompt: hi, model: echo}}".encode(),
            'p.yaml:4:26: step "a": unknown',
        ),
        (f"{STEP}{{exec: ''}}".encode(), "p.yaml:3:13: exec: empty command"),
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
