"""The public json-patch-tests, and our own cases."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from contextrelay.documents.patch import read_operations, undo
from contextrelay.errors import RelayError
from tests.documents.values import applied_to, copied, encoded
from tests.promises import ROOT

SHARED = Path(os.environ.get("RELAY_SHARED") or ROOT.parent / "shared")
PUBLIC = SHARED / "data" / "json-patch-tests"
OWN = Path(__file__).with_name("patch_cases.json")


def cases(path: Path) -> list[Any]:
    """The cases of a file, as pytest takes them; a disabled one is not ours to judge."""
    if not path.is_file():
        return []
    return [
        pytest.param(case, id=f"{path.stem}-{index}-{case.get('comment', '')[:40]}")
        for index, case in enumerate(json.loads(path.read_text()))
        if "patch" in case and not case.get("disabled")
    ]


def check(case: dict[str, Any]) -> None:
    before = encoded(case["doc"])
    holder = [copied(case["doc"])]
    if "error" in case:
        with pytest.raises(RelayError) as caught:
            applied_to(holder, *read_operations(case["patch"]))
        assert caught.value.status in (400, 409, 422)
        assert encoded(holder[0]) == before
        if "code" in case:
            assert caught.value.code == case["code"]
        return
    applied = applied_to(holder, *read_operations(case["patch"]))
    if "expected" in case:
        # Compared by our own text, so that 1 is not true and 1.0 is not 1.
        assert canonical(holder[0]) == canonical(case["expected"])
    assert applied.size_bytes == len(encoded(holder[0]))
    undo(applied.steps)
    assert encoded(holder[0]) == before


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("name", ["spec_tests.json", "tests.json"])
def test_the_public_cases_are_found(name: str) -> None:
    skip_without_public_cases()

    assert len(cases(PUBLIC / name)) > 10


def skip_without_public_cases() -> None:
    if not PUBLIC.is_dir():
        pytest.skip(f"json-patch-tests is not at {SHARED}: set RELAY_SHARED to the folder of data")


@pytest.mark.parametrize(
    "case", [*cases(PUBLIC / "spec_tests.json"), *cases(PUBLIC / "tests.json")] or [None]
)
def test_every_public_case_passes(case: dict[str, Any] | None) -> None:
    """Promise T3."""
    skip_without_public_cases()

    assert case
    check(case)


@pytest.mark.parametrize("case", cases(OWN))
def test_every_case_of_our_own_passes(case: dict[str, Any]) -> None:
    """Promise T3."""
    check(case)
