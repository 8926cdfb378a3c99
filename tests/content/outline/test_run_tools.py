"""Runs of tests by tools of many languages: what failed, why, and the summary."""

from __future__ import annotations

import pytest

from tests.content.outline.drawing import outlined

VITEST_RUN = """\

\x1b[1m\x1b[46m RUN \x1b[49m\x1b[22m \x1b[36mv5.1.0 \x1b[39m/srv/shop

 \u276f v/shop.test.mjs (3 tests | 1 failed) 21ms
   \u276f shop (2)
     \u2713 is open 3ms
     \u00d7 adds (three) prices 8ms

\u23af\u23af\u23af Failed Suites 1 \u23af\u23af\u23af

 FAIL  v/bad.test.mjs [ v/bad.test.mjs ]
Error: Cannot find module './nothing.mjs' imported from /srv/shop/v/bad.test.mjs
 \u276f v/bad.test.mjs:1:1

\u23af\u23af\u23af Failed Tests 1 \u23af\u23af\u23af

\x1b[41m FAIL \x1b[49m v/shop.test.mjs\x1b[2m > \x1b[22mshop > adds (three) prices
\x1b[31m\x1b[1mAssertionError\x1b[22m: expected 5 to be 6 // Object.is equality\x1b[39m

- Expected
+ Received

 Test Files  2 failed (2)
      Tests  1 failed | 1 passed (2)
   Start at  16:57:47
"""
MOCHA_RUN = """\

  1) top level
  shop
    \u2714 is open
    2) adds (three) prices

  1 passing (7ms)
  2 failing

  1) top level:
     Error: no
      at Context.<anonymous> (m/shop.js:10:34)

  2) shop
       adds (three) prices:

      AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:

5 !== 6

      + expected - actual
"""
GO_EVENTS = """\
{"Time":"2024-05-01T10:00:00Z","Action":"start","Package":"example.com/shop"}
{"Time":"2024-05-01T10:00:00Z","Action":"run","Package":"example.com/shop","Test":"TestSum/two"}
{"Action":"output","Package":"x","Output":"    sum_test.go:17: got 3, want 4\\n"}
{"Action":"output","Package":"x","Output":"    --- FAIL: TestSum/two (0.00s)\\n"}
{"Action":"output","Package":"x","Test":"TestSum","Output":"--- FAIL: TestSum (0.00s)\\n"}
{"Action":"output","Package":"x","Output":"FAIL\\texample.com/shop\\t0.004s\\n"}
"""
GO_BUILD = """\
# example.com/shop [example.com/shop.test]
./sum_test.go:9:5: undefined: Summ
FAIL\texample.com/shop [build failed]
ok  \texample.com/shop/other\t(cached)
"""
JUNIT = """\
<?xml version="1.0" encoding="utf-8"?><testsuites name="all">
<testsuite name="pytest" errors="0" failures="2" skipped="1" tests="4" time="0.061">
<testcase classname="test_shop" name="test_ok" time="0.001"/>
<testcase classname="test_shop" name="test_total" time="0.001">
<failure message="assert 5 == 6&#10; + where 5 = total([1, 2, 3])">def test_total(): ...</failure>
</testcase>
<testcase classname="test_shop" name="adds &gt; three"><failure>
AssertionError: 2 &lt; 1
</failure></testcase></testsuite></testsuites>
"""
SUBTESTS = """\
============================= test session starts ==============================
collected 12 items

test_shop.py::Old::test_sub PASSED                                       [100%]

=========================== short test summary info ============================
FAILED test_shop.py::test_prints - KeyError: 'x'
SUBFAILED test_shop.py::Old::test_sub - AssertionError: 2 not less than 2
= 1 failed, 2 passed, 2 skipped, 1 xfailed, 1 error, 2 subtests passed in 0.08s =
"""
VITEST_TAP = """\
TAP version 13
1..2
not ok 1 - v/shop.test.mjs # time=20.68ms {
    1..2
    not ok 1 - shop # time=16.22ms {
        not ok 2 - adds prices # time=7.25ms
            ---
            message: "expected 5 to be 6"
            ...
    }
    not ok 2 - top level # time=2.99ms
    not ok 3 - later # TODO
}
"""
SHOWN = {
    "vitest": (
        VITEST_RUN,
        "Test Files 2 failed (2)",
        "Tests 1 failed | 1 passed (2)",
        "failed: 2\n11: v/bad.test.mjs [ v/bad.test.mjs ]\n",
        "17: v/shop.test.mjs > shop > adds (three) prices\n",
        "18: AssertionError: expected 5 to be 6 // Object.is equality",
    ),
    "mocha": (
        MOCHA_RUN,
        "8: 2 failing\nfailed: 2\n10: top level\n14: shop adds (three) prices\n",
        "19: 5 !== 6",
    ),
    "go -json": (
        GO_EVENTS,
        "6: FAIL example.com/shop 0.004s\nfailed: 1\n4: TestSum/two\n",
        "3: sum_test.go:17: got 3, want 4",
    ),
    "go that cannot be built": (
        GO_BUILD,
        "failed: 1\n3: example.com/shop\n2: ./sum_test.go:9:5: undefined: Summ",
    ),
    "junit": (
        JUNIT,
        "2: pytest: tests 4, failures 2, errors 0, skipped 1, time 0.061\nfailed: 2\n",
        "5: test_shop.test_total - assert 5 == 6 + where 5 = total([1, 2, 3])\n",
        "7: test_shop.adds > three - AssertionError: 2 < 1",
    ),
    "pytest with subtests": (
        SUBTESTS,
        "2 subtests passed in 0.08s\nfailed: 2\n",
        "test_shop.py::Old::test_sub - AssertionError: 2 not less than 2",
    ),
    "TAP of vitest": (
        VITEST_TAP,
        'failed: 2\n6: adds prices\n11: top level\n8: message: "expected 5 to be 6"',
    ),
}


@pytest.mark.parametrize("tool", SHOWN)
def test_a_run_is_shown_by_what_failed_why_and_the_summary(tool: str) -> None:
    """Promise L1: known by its content, whichever tool printed it."""
    text, *said = SHOWN[tool]
    shape = outlined(text, "")

    assert shape.kind == "tests"
    for each in said:
        assert each in shape.text


def test_colours_are_not_shown() -> None:
    """Promise L1: neither of a log nor of a text."""
    log = [f"\x1b[32m2026-01-05 10:00:{n:02}\x1b[0m INFO api: request {n}" for n in range(40)]
    shape = outlined("\n".join([*log, "\x1b[31mTypeError: no\x1b[0m", "    at a (b.js:1:2)"]), "")

    assert shape.kind == "log"
    assert "TypeError: no, at a (b.js:1:2)" in shape.text
    assert "[3" not in shape.text


@pytest.mark.parametrize(
    "said",
    [
        "a.c:3:38: error: implicit declaration of function 'wrok'",
        "src/a.ts(3,14): error TS2322: Type is not assignable",
        "make: *** [Makefile:12: build/a.o] Error 1",
    ],
)
def test_what_a_tool_says_of_a_line_is_found_in_all_that_it_printed(said: str) -> None:
    """Promise L1: without a name; not in prose that quotes it."""
    printed = [f"gcc -O2 -c src/file{n}.c -o build/file{n}.o" for n in range(200)]
    prose = "\n\n".join([*["This is what we saw when it was built again."] * 9, said])

    shape = outlined("\n".join([*printed, said, *printed]), "")

    assert shape.kind == "log"
    assert f"201: {said}" in shape.text
    assert outlined(prose, "").kind == "text"
