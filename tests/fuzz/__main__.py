"""Fuzz what looks into bodies: `make fuzz`, or `python -m tests.fuzz FOLDER -max_total_time=300`.

FOLDER keeps what was found to reach new code; the words behind it are libFuzzer's.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

PACKAGES = ("contextrelay.content.outline", "contextrelay.content.slicing")

if __name__ == "__main__":
    fuzzer: Any = import_module("atheris")
    with fuzzer.instrument_imports(include=["contextrelay.content", "contextrelay.documents"]):
        from tests.fuzz.bodies import check

        # Most of these are imported when they are needed, which is too late to be watched.
        for package in PACKAGES:
            for module in iter_modules(import_module(package).__path__):
                import_module(f"{package}.{module.name}")
    fuzzer.Setup(sys.argv, check)
    fuzzer.Fuzz()
