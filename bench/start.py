"""Starts: how long importing and the shortest commands take, against an empty Python."""

from __future__ import annotations

import compileall
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import contextrelay
from bench.measure import Curve, Result, each, interleaved, within

TIMES = 20


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    compileall.compile_dir(str(Path(contextrelay.__file__).parent), quiet=2)
    relay = str(Path(sys.executable).with_name("relay"))
    store = ["--store", str(folder)]
    subprocess.run([relay, "init", *store], check=True, capture_output=True)

    def started(*words: str) -> float:
        return each(lambda index: subprocess.run(words, check=True, capture_output=True), TIMES)

    def compared(name: str, at_most: float, *words: str) -> Result:
        ours, anchor = interleaved(
            lambda: started(*words), lambda: started(sys.executable, "-c", "pass")
        )
        return within(f"{name} / python -c pass", ours / 1000, anchor / 1000, "ms", at_most)

    yield compared("import contextrelay", 4, sys.executable, "-c", "import contextrelay")
    yield compared(
        "from contextrelay import Relay", 4, sys.executable, "-c", "from contextrelay import Relay"
    )
    yield compared("relay version", 5, relay, "version")
    yield compared("relay artifact list", 6, relay, "artifact", "list", *store)
    yield compared("relay exec -- true", 2.5, relay, "exec", *store, "--", "true")
    lines = folder / "lines.txt"
    lines.write_text("".join(f"{number} a line of some output\n" for number in range(7_000)))
    printing = ("exec", *store, "--", "head", "-c", "200000", str(lines))
    yield compared("relay exec, 200 KB of output", 7, relay, *printing)
