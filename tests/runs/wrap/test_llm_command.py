"""The command line `llm` itself, wrapped, with a scripted model on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from contextrelay import Relay
from tests.aimock import aimock

END_S_MAX = 60
SCRIPT: list[dict[str, Any]] = [
    {"match": {"userMessage": "which port?"}, "response": {"content": "Port 8080, it says."}}
]


def test_llm_itself_is_wrapped_and_asked_as_a_model(tmp_path: Path) -> None:
    """Promise X3: the bundle by stdin, the answer from stdout, as its row in the table says."""
    with aimock(tmp_path, SCRIPT) as model, Relay(tmp_path / "home") as relay:
        known = [{"model_id": "mine", "model_name": "m-1", "api_base": f"{model.url}/v1"}]
        (tmp_path / "extra-openai-models.yaml").write_text(json.dumps(known))
        thread = relay.thread("work")
        thread.add_fact("the port is 8080")
        environment = {
            **{name: value for name, value in os.environ.items() if "RELAY_" not in name},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RELAY_HOME": str(tmp_path / "home"),
            "LLM_USER_PATH": str(tmp_path),
            "OPENAI_API_KEY": "none",
        }

        def answered(*words: str) -> str:
            command = [sys.executable, "-m", "contextrelay", *words]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=END_S_MAX
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        wrap = ("wrap", "run", "--thread", "work", "--cli", "llm", "--user", "which port?")
        wrapped = answered(*wrap, "--", "-m", "mine")
        asked = answered("ask", "which port?", "--thread", "work", "-m", "cli:llm:mine")

        assert wrapped == asked == "Port 8080, it says.\n"
        first, second = (json.dumps(body) for body in model.bodies())
        assert "the port is 8080" in first
        assert "Port 8080, it says." in second
        assert [run.model for run in thread.trace().runs] == ["llm", "llm:mine"]
