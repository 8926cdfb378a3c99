"""Promises and tests name each other, and the list is the whole of SPEC.md."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.promises import (
    PROMISES,
    ROOT,
    SECTIONS,
    Promise,
    all_tests,
    changed,
    kept,
    not_yet,
    partly,
    promises_named,
)

SPEC = Path(os.environ.get("RELAY_SHARED") or ROOT.parent / "shared") / "SPEC.md"
BY_ID = {promise.id: promise for promise in PROMISES}


def test_every_promise_is_listed_once_and_in_order() -> None:
    expected = [
        f"{letter}{number}" for letter, (_, numbers) in SECTIONS.items() for number in numbers
    ]

    assert [promise.id for promise in PROMISES] == expected


def test_the_list_is_that_of_the_specification() -> None:
    if not SPEC.is_file():
        pytest.skip(f"SPEC.md is not at {SPEC.parent}: set RELAY_SHARED to its folder to compare")
    specified = re.findall(r"^- ([A-Z]\d+) ", SPEC.read_text(), re.MULTILINE)
    repeated = [id for id, count in Counter(specified).items() if count > 1]

    assert not repeated, f"SPEC.md has these twice: {repeated}"
    assert not set(specified) - set(BY_ID), "in SPEC.md, not in tests/promises.py"
    assert not set(BY_ID) - set(specified), "in tests/promises.py, not in SPEC.md"


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.id)
def test_a_promise_says_what_its_status_needs(promise: Promise) -> None:
    assert shape_problems(promise) == []


def shape_problems(promise: Promise) -> list[str]:
    problems: list[str] = []
    if not promise.text or "\n" in promise.text:
        problems.append("its text is one line")
    if promise.status in {"kept", "partly"} and not promise.tests:
        problems.append(f"{promise.status}, so it names its tests")
    if promise.status == "not yet" and promise.tests:
        problems.append("it names tests, so it is kept or partly kept")
    if (promise.status == "partly") != bool(promise.missing):
        problems.append("`missing` is for a promise that is partly kept, and always there")
    if (promise.status == "changed") != bool(promise.why):
        problems.append("`why` is for a promise that was changed, and always there")
    return problems


def test_every_test_that_a_promise_names_exists_and_names_it_back() -> None:
    tests = all_tests()
    problems: list[str] = []
    for promise in PROMISES:
        for node_id in promise.tests:
            if node_id not in tests:
                problems.append(f"{promise.id} names {node_id}, which is not there")
            elif promise.id not in tests[node_id].promises:
                problems.append(f'{node_id} needs "Promise {promise.id}" in its docstring')

    assert not problems, "\n" + "\n".join(problems)


def test_every_promise_that_a_test_names_exists_and_is_more_than_not_yet() -> None:
    problems: list[str] = []
    for test in all_tests().values():
        where = f"{test.node_id} (line {test.line})"
        for id in test.promises:
            if id not in BY_ID:
                problems.append(
                    f"{where} names promise {id}, which tests/promises.py does not have"
                )
            elif BY_ID[id].status == "not yet":
                problems.append(
                    f"{where} names promise {id}, which is still `not yet`: list it there"
                )

    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize(
    ("docstring", "ids"),
    [
        ("Promises R6, R9: freed.", ("R6", "R9")),
        ("Promises R6, R9, and\n    T11.", ("R6", "R9", "T11")),
        ("A promise is a promise; A3 is a paper size.", ()),
    ],
)
def test_promises_are_read_out_of_a_docstring(docstring: str, ids: tuple[str, ...]) -> None:
    assert promises_named(docstring) == ids


def test_a_promise_of_the_wrong_shape_is_noticed() -> None:
    good = [
        kept("R1", "text", "tests/x.py::test_one"),
        partly("R1", "text", "tests/x.py::test_one", missing="the rest"),
        changed("R1", "text", why="it does more harm than good"),
        not_yet("R1", "text"),
    ]
    bad = [
        kept("R1", "text"),
        kept("R1", "two\nlines", "tests/x.py::test_one"),
        partly("R1", "text", missing="the rest"),
        partly("R1", "text", "tests/x.py::test_one", missing=""),
        changed("R1", "text", why=""),
        Promise("R1", "text", "not yet", ("tests/x.py::test_one",)),
    ]

    assert [promise for promise in good if shape_problems(promise)] == []
    assert [promise for promise in bad if not shape_problems(promise)] == []
