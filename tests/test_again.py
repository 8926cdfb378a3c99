"""`make again`: the tests that failed, by the ids that pytest takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.again import CRASHED, LAST_FAILED, last_failed

pytest_plugins = ("pytester",)


def test_the_failed_tests_are_named_without_their_group(tmp_path: Path) -> None:
    cache, crashed = tmp_path / "lastfailed", tmp_path / "crashed"
    assert last_failed(cache, crashed) == []

    kept = ["a.py::one", "a.py::two[x@y]", "a.py::three[x@y]@browser", "a.py::four@browser"]
    cache.write_text(json.dumps(dict.fromkeys(kept, True)))

    crashed.write_text("a.py::four@browser\na.py::five@browser\n")

    names = ["a.py::one", "a.py::two[x@y]", "a.py::three[x@y]", "a.py::four", "a.py::five"]
    assert last_failed(cache, crashed) == names


def test_a_test_whose_worker_died_is_run_again_though_another_worker_took_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text())
    pytester.makepyfile(
        """
        import os, pathlib

        def test_that_kills_its_worker_once():
            seen = pathlib.Path("seen")
            if not seen.exists():
                seen.touch()
                os._exit(1)
        """
    )

    pytester.runpytest_subprocess("-n1", "--dist", "loadgroup", "-p", "no:pytester")

    (failed,) = last_failed(pytester.path / LAST_FAILED, pytester.path / CRASHED)
    assert failed.endswith("::test_that_kills_its_worker_once")
