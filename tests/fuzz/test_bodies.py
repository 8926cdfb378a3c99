"""The checks of the fuzzer, on bodies that are hostile by hand: each with every way to look."""

from __future__ import annotations

import pytest

from tests.fuzz.bodies import CHECKS, NAMES, check
from tests.rigs import length, rig

SIZE = length(thin=100_000, long=1_000_000, full=1_000_000)
HOSTILE = {
    "a line without an end": b"word " * (SIZE // 5),
    "nested": b"[" * (SIZE // 10) + b"]" * (SIZE // 10),
    "columns": b",".join(b"c%d" % index for index in range(10_000)) + b"\n" + b"1," * 10_000,
    "no encoding": bytes(range(128, 256)) * 500,
    "stars": b"#" + b"*" * 90 + b" stars\nx = 1\n",
    "an archive in disguise": b"PK\x03\x04" + b"\xff" * 2_000 + b"PK\x05\x06" + b"\xff" * 18,
    "tags": b"<script" * (SIZE // 50),
    "quotes": b'"' * 50_001,
}


@rig
@pytest.mark.parametrize("way", range(len(CHECKS)))
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bodies_are_looked_into_within_bounds(body: bytes, way: int) -> None:
    """Promises L1, L2, L3: bounded, and an answer or one of our errors."""
    for name in range(len(NAMES)):
        check(bytes([way, name, name % 9, name]) + body)
