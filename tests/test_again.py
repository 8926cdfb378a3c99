"""`make again`: the tests that failed, by the ids that pytest takes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.again import last_failed


def test_the_failed_tests_are_named_without_their_group(tmp_path: Path) -> None:
    cache = tmp_path / "lastfailed"
    assert last_failed(cache) == []

    kept = ["a.py::one", "a.py::two[x@y]", "a.py::three[x@y]@browser", "a.py::four@browser"]
    cache.write_text(json.dumps(dict.fromkeys(kept, True)))

    assert last_failed(cache) == ["a.py::one", "a.py::two[x@y]", "a.py::three[x@y]", "a.py::four"]
