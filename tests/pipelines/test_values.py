"""Values in templates and conditions, and what is done next in a run."""

from __future__ import annotations

from typing import Any

import pytest

from contextrelay.errors import Invalid
from contextrelay.pipelines.expressions import holds, parse_condition, parse_template
from contextrelay.pipelines.graph import never_runs
from contextrelay.pipelines.language import read_pipeline

KNOWN: dict[str, Any] = {
    "inputs": {"n": 3, "name": "orders", "deep": True, "list": ["a", "b"]},
    "steps": {"test": {"status": "done", "json": {"failed": 0, "items": [{"title": "x"}]}}},
    "item": "{{inputs.n}}",
}


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("inputs.n == 3", True),
        ("inputs.n != 3 or inputs.name == 'orders'", True),
        ("not (inputs.n > 5) and inputs.deep", True),
        ('"a" in inputs.list', True),
        ("'z' in inputs.list", False),
        ("steps.test.json.failed", False),
        ("inputs.deep == 1", False),
        ("false or false or true", True),
        ("-1 < 0.5", True),
        ("inputs.name in ['orders', \"refunds\"]", True),
        ("steps.test.json.items[0].title in ['x']", True),
        ("true in [false, null, true,]", True),
    ],
)
def test_a_condition_holds_or_not(text: str, is_true: bool) -> None:
    """Promise X4."""
    assert holds(parse_condition(text), KNOWN) is is_true


def test_a_condition_that_cannot_be_decided_is_refused() -> None:
    """Promise X4."""
    text = "inputs.n < 'x'"
    with pytest.raises(Invalid):
        holds(parse_condition(text), KNOWN)


def test_braces_are_written_as_they_are_by_doubling_them() -> None:
    """Promise X4."""
    template = parse_template("{{{{.Name}} and {{{{{{item}}}} {{{{")

    assert [str(value) for value in template.values()] == ["item"]
    assert "".join(str(part) for part in template.parts) == "{{.Name}} and {{item}} {{"


PIPELINE = read_pipeline(
    """\
name: p
steps:
  a: {exec: [a]}
  b: {exec: [b]}
  c: {prompt: "{{steps.a.ref}}"}
  d: {exec: [d], needs: [b]}
  e: {exec: [e], needs: [c], on_failure: continue}
  f: {exec: [f], needs: [e, d]}
  g: {exec: [g], needs: [d]}
""",
    "p.yaml",
)


@pytest.mark.parametrize(
    ("step", "status", "reason"),
    [
        ("c", {"a": "done"}, ""),
        ("c", {"a": "skipped"}, "a was skipped"),
        ("d", {"b": "failed"}, "b failed"),
        ("f", {"e": "done", "d": "failed"}, "d failed"),
        ("g", {"b": "skipped", "d": "skipped"}, ""),
    ],
)
def test_what_comes_next_follows_from_what_was(
    step: str, status: dict[str, str], reason: str
) -> None:
    """Promise X4."""
    assert never_runs(PIPELINE.steps[step], PIPELINE, status) == reason
