"""The single-file build runs with nothing but a Python."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.rigs import length, long_only, rig

ROOT = Path(__file__).parents[1]
BUILD_S_MAX = 280
_AS_MAKE_APP = [".", "--console-script", "relay", "--use-pip-config"]


def _from_this_environment() -> list[str]:
    """What to ask pex for where nothing is to be downloaded again."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    words = ["--sources-directory", "src", "--entry-point", "contextrelay"]
    here = ["--venv-repository", sys.prefix, "--no-compress"]
    return [*words, *here, *project["dependencies"]]


@rig
@long_only
def test_one_file_is_all_it_takes(tmp_path: Path) -> None:
    """Promise G4: a single-file build."""
    app = tmp_path / "relay.pex"
    pex = Path(sys.executable).with_name("pex")
    # What make app does asks an index for every part, which may take minutes.
    here = _from_this_environment()
    words = length(here, here, _AS_MAKE_APP)
    subprocess.run(
        [str(pex), *words, "--venv", "--output-file", str(app)],
        check=True,
        capture_output=True,
        cwd=ROOT,
        # This one asks an index, whose certificate is to be checked.
        env={name: value for name, value in os.environ.items() if name[:9] != "SSL_CERT_"},
        timeout=BUILD_S_MAX,
    )
    bare = {"HOME": str(tmp_path / "home"), "PATH": os.defpath}
    python = os.path.realpath(sys.executable)

    def relay(*words: str, stdin: bytes = b"") -> bytes:
        done = subprocess.run(
            [python, "-I", str(app), *words],
            input=stdin,
            check=True,
            capture_output=True,
            env=bare,
            cwd=tmp_path,
            timeout=BUILD_S_MAX,
        )
        return done.stdout

    ref = relay("artifact", "put", stdin=b"from one file").strip().decode()

    assert relay("artifact", "get", ref) == b"from one file"

    # What is looked into by a child process, which has to find our code as well.
    large = relay("artifact", "put", stdin=b"def one(a):\n    pass\n" * 2_000).strip().decode()
    outline = relay("get", large, "--outline")

    assert b"one" in outline
    assert b"by lines" not in outline
