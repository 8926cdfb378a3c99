"""What commands printed, known by its content alone: runs of tests, traces of exceptions."""

from __future__ import annotations

import pytest

from tests.content.outline.drawing import outlined

FAILURES = """\
=================================== FAILURES ===================================
_____________________________ test_total_is_right ______________________________

prices = [1, 2, 3]

    def test_total_is_right(prices):
        \"\"\"The total.\"\"\"
>       assert total(prices) == 6
E       assert 5 == 6
E        +  where 5 = total([1, 2, 3])

test_shop.py:15: AssertionError
______________________________ TestShop.test_name ______________________________

self = <test_shop.TestShop object at 0x7f65b1899210>

    def test_name(self):
>       assert {"a": 1, "b": [1, 2]} == {"a": 1, "b": [1, 3]}
E       AssertionError: assert {'a': 1, 'b': [1, 2]} == {'a': 1, 'b': [1, 3]}
E         Omitting 1 identical items, use -vv to show

test_shop.py:20: AssertionError
=========================== short test summary info ============================
FAILED test_shop.py::test_total_is_right - assert 5 == 6
FAILED test_shop.py::TestShop::test_name - AssertionError: assert {'a': 1, 'b...
"""
BANNER = """\
============================= test session starts ==============================
platform linux -- Python 3.11.7, pytest-9.2.0, pluggy-1.7.0
rootdir: /srv/shop
collected 4 items
"""
PYTEST_RUNS = {
    "plain": f"""{BANNER}
test_shop.py FF..                                                        [100%]

{FAILURES}========================= 2 failed, 2 passed in 0.24s ==========================
""",
    "-v": f"""{BANNER}
test_shop.py::test_total_is_right FAILED                                 [ 25%]
test_shop.py::TestShop::test_name FAILED                                 [ 50%]
test_shop.py::test_ok PASSED                                             [ 75%]
test_shop.py::test_ok2 PASSED                                            [100%]

{FAILURES}========================= 2 failed, 2 passed in 0.24s ==========================
""",
    "-q": f"""\
FF..                                                                     [100%]
{FAILURES}2 failed, 2 passed in 0.24s
""",
}


@pytest.mark.parametrize("mode", PYTEST_RUNS)
@pytest.mark.parametrize("name", ["", "real.out", "real.txt"])
def test_a_run_of_tests_is_no_code(mode: str, name: str) -> None:
    """Promise L1: also where it shows code, as pytest does."""
    shape = outlined(PYTEST_RUNS[mode], name)

    assert shape.kind == "tests"
    assert "2 failed, 2 passed in 0.24s" in shape.text
    assert "test_shop.py::test_total_is_right - assert 5 == 6" in shape.text


def test_a_run_within_code_or_a_document_is_a_part_of_it() -> None:
    """Promise L1."""
    run = PYTEST_RUNS["plain"]
    code = f'import os\nimport re\n\nOUTPUT = """\\\n{run}"""\n\n\ndef read(): ...\n'
    document = f"# How to test\n\n- `make test`\n\n```\n{run}```\n\n## Then\n\n- land\n"

    assert outlined(code, "").kind == "python"
    assert outlined(document, "").kind == "markdown"


CARGO_RUN = """\
running 3 tests
test tests::fine ... ok
test tests::adds ... FAILED
test tests::unwraps ... FAILED

failures:

---- tests::adds stdout ----

thread 'tests::adds' (6380) panicked at src/lib.rs:11:9:
assertion `left == right` failed: the total of three prices
  left: 5
 right: 6
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace

---- tests::unwraps stdout ----

thread 'tests::unwraps' panicked at src/lib.rs:22:14:
a price is there


failures:
    tests::adds
    tests::unwraps

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.16s
"""
JEST_RUN = """\
FAIL src/shop.test.js
  shop
    \u2713 is open (2 ms)
    \u2715 adds (three) prices (5 ms)

  \u25cf shop \u203a adds (three) prices

    expect(received).toBe(expected) // Object.is equality

    Expected: 4
    Received: 3

      4 | describe('shop', () => {
    > 6 |     expect(total([1, 2])).toBe(4);
        |                           ^

      at Object.toBe (src/shop.test.js:6:27)

Test Suites: 1 failed, 1 total
Tests:       1 failed, 1 passed, 2 total
"""
NODE_RUN = """\
TAP version 13
# Subtest: shop
    # Subtest: adds three prices
    not ok 1 - adds three prices
      ---
      error: |-
        Expected values to be strictly equal:
      expected: 4
      actual: 3
      ...
    1..1
not ok 1 - shop
1..1
# tests 1
# pass 0
# fail 1
"""


def test_a_failure_is_counted_once_and_shown_with_all_that_it_says() -> None:
    """Promise L1: of cargo, jest, node and go."""
    cargo = outlined(CARGO_RUN, "").text
    assert "failed: 2\n" in cargo
    assert "11: assertion `left == right` failed: the total of three prices\n12: left: 5\n" in cargo
    assert "13: right: 6\n18: src/lib.rs:22:14: a price is there" in cargo

    jest = outlined(JEST_RUN, "").text
    assert "failed: 1\n6: src/shop.test.js shop \u203a adds (three) prices\n" in jest
    assert "8: expect(received).toBe(expected) // Object.is equality\n10: Expected: 4\n" in jest
    assert jest.endswith("11: Received: 3")

    node = outlined(NODE_RUN, "").text
    assert "failed: 1\n4: adds three prices\n8: expected: 4\n9: actual: 3" in node

    go = "--- FAIL: TestSum (0.00s)\n    --- FAIL: TestSum/two (0.00s)\n"
    summed = outlined(f"{go}FAIL\texample/sum\t0.004s\n" * 9, "").text
    assert "failed: 1\n" in summed
    assert "TestSum/two" in summed


def test_colours_and_missing_summaries_hide_no_failure() -> None:
    """Promise L1: pytest with colours, with -rN, and where a file cannot be read."""
    coloured = PYTEST_RUNS["plain"].replace("FAILED", "\x1b[31mFAILED\x1b[0m")
    coloured = coloured.replace("2 failed", "\x1b[31m\x1b[1m2 failed\x1b[0m")
    assert "failed: 2" in outlined(coloured, "").text

    bare = "\n".join(line for line in PYTEST_RUNS["-q"].split("\n") if "FAILED" not in line)
    assert "failed: 2\n3: test_total_is_right\n14: TestShop.test_name" in outlined(bare, "").text

    unread = f"{BANNER}ERROR bad/test_bad.py\n=============== 1 error in 0.32s ===============\n"
    assert "failed: 1\n5: bad/test_bad.py" in outlined(unread * 9, "").text
