"""Values in templates and conditions, and what is done next in a run."""

from __future__ import annotations

from typing import Any

import pytest

from contextrelay.errors import Invalid
from contextrelay.pipelines.expressions import holds, look_up, parse_condition, parse_template
from contextrelay.pipelines.graph import never_runs
from contextrelay.pipelines.language import as_mermaid, as_svg, as_text, read_pipeline

KNOWN: dict[str, Any] = {
    "inputs": {"n": 3, "name": "orders", "deep": True, "list": ["a", "b"]},
    "steps": {"test": {"status": "done", "json": {"failed": 0, "items": [{"title": "x"}]}}},
    "item": "{{inputs.n}}",
}


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("inputs.n == 3", True),
        ("inputs.n >= 3 and inputs.n < 4", True),
        ("inputs.n != 3 or inputs.name == 'orders'", True),
        ("not inputs.deep", False),
        ("not (inputs.n > 5) and inputs.deep", True),
        ('"a" in inputs.list', True),
        ("'z' in inputs.list", False),
        ("'ord' in inputs.name", True),
        ("steps.test.json.failed", False),
        ("steps.test.json.items[0].title == 'x'", True),
        ("inputs.deep == 1", False),
        ("null == null", True),
        ("false or false or true", True),
        ("-1 < 0.5", True),
        ("inputs.name in ['orders', \"refunds\"]", True),
        ("inputs.n in [1, 2.5, -3]", False),
        ("steps.test.json.items[0].title in ['x']", True),
        ("inputs.n in []", False),
        ("true in [false, null, true,]", True),
    ],
)
def test_a_condition_holds_or_not(text: str, is_true: bool) -> None:
    """Promise X4."""
    assert holds(parse_condition(text), KNOWN) is is_true


@pytest.mark.parametrize("text", ["inputs.n < 'x'", "inputs.missing", "3 in inputs.n"])
def test_a_condition_that_cannot_be_decided_is_refused(text: str) -> None:
    """Promise X4."""
    with pytest.raises(Invalid):
        holds(parse_condition(text), KNOWN)


def test_braces_are_written_as_they_are_by_doubling_them() -> None:
    """Promise X4."""
    template = parse_template("{{{{.Name}} and {{{{{{item}}}} {{{{")

    assert [str(value) for value in template.values()] == ["item"]
    assert "".join(str(part) for part in template.parts) == "{{.Name}} and {{item}} {{"


def test_a_value_that_looks_like_a_template_is_a_text() -> None:
    """Promise X4."""
    template = parse_template("{{item}}")

    assert template.lone_value is not None
    assert look_up(template.lone_value, KNOWN) == "{{inputs.n}}"


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
        ("c", {"a": "failed"}, "a failed"),
        ("c", {"a": "skipped"}, "a was skipped"),
        ("d", {"b": "skipped"}, ""),
        ("d", {"b": "failed"}, "b failed"),
        ("f", {"e": "failed", "d": "done"}, ""),
        ("f", {"e": "done", "d": "failed"}, "d failed"),
        ("g", {"b": "failed", "d": "skipped"}, "b failed"),
        ("g", {"b": "skipped", "d": "skipped"}, ""),
        ("f", {"a": "failed", "c": "skipped", "e": "skipped", "d": "done"}, "a failed"),
    ],
)
def test_what_comes_next_follows_from_what_was(
    step: str, status: dict[str, str], reason: str
) -> None:
    """Promise X4."""
    assert never_runs(PIPELINE.steps[step], PIPELINE, status) == reason


def test_the_graph_is_drawn_in_three_ways() -> None:
    """Promise X4."""
    needs = {name: step.needs for name, step in PIPELINE.steps.items()}
    labels = dict.fromkeys(needs, '<b>"x"</b>')

    assert "    e  <b>" in as_text(needs, labels)
    assert "--> s2" in as_mermaid(needs, labels)
    assert '"x"' not in as_mermaid(needs, labels)
    svg = as_svg(needs, labels)
    assert svg.count("<rect") == 7
    assert "<b>" not in svg
