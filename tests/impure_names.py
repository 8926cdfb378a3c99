"""Impure names: what opens, prints, reads a clock or rolls dice, for tests/tidy.py."""

from __future__ import annotations

import re

# Builtins and dotted names that open, print, read a clock or roll dice. import-linter forbids whole
# modules; these are what is left: parts of modules that are otherwise fine.
IMPURE_CALLS = re.compile(
    r"(open|print|input|breakpoint|exec|eval|__import__"
    r"|datetime\.datetime\.(now|utcnow|today)|datetime\.date\.today"
    r"|uuid\.(uuid1|uuid4|uuid7|getnode)"
    r"|sys\.(stdin|stdout|stderr)\..*"
    r"|(os|io|time|random|secrets|pathlib|urllib\.request)(\..*)?)"
)
IMPURE_BUILTIN = re.compile(r"open|print|input|breakpoint|exec|eval|__import__")
IMPURE_IMPORTS = re.compile(
    r"(os|io|pathlib|socket|subprocess|sqlite3|asyncio|threading|time|random|secrets|tempfile"
    r"|shutil|logging|multiprocessing|concurrent|urllib\.request|http\.client|http\.server)(\..*)?"
)
