"""The pipeline language: what is read, and what is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from contextrelay.errors import Invalid
from contextrelay.pipelines.fields import json_schema
from contextrelay.pipelines.language import PipelineGraph, read_pipeline

REVIEW = """\
name: review
description: Review a repository, file by file
inputs:
  topic: errors
  files: {type: list, default: [a.py, b.py]}
  deep: {type: boolean, default: false}
defaults: {model: echo, timeout: 2m, retries: 1}
budget: {tokens: 100000, price: 0.50, time: 10m}
steps:
  list:
    exec: [git, ls-files, "*.py"]
    out: {name: files.txt, type: text}
  each:
    foreach: "{{inputs.files}}"
    max_parallel: 4
    prompt: "Review {{item}} for {{inputs.topic}}"
    refs: ["{{steps.list.ref}}"]
    cache: 1h
  merge:
    needs: each
    prompt: Join the reviews
    refs: ["{{steps.each.refs}}"]
    out:
      type: json
      schema: {type: object, required: [issues], properties: {issues: {type: array}}}
  fix:
    when: steps.merge.json.issues != 0 and inputs.deep
    cli: claude
    prompt: "Mend {{steps.merge.json.issues[0]}}"
    args: [--verbose]
    env: {LEVEL: 3}
  ok:
    approve: "Take {{steps.fix.ref}}?"
    timeout: 1h
    channel: reviews
"""


SCHEMA = Path(__file__).parents[2] / "docs" / "pipeline.schema.json"


def read(text: str) -> PipelineGraph:
    return read_pipeline(text, "p.yaml")


def test_a_pipeline_is_read_with_all_that_it_says() -> None:
    """Promise X4."""
    pipeline = read(REVIEW)

    assert list(pipeline.steps) == ["list", "each", "merge", "fix", "ok"]
    assert pipeline.inputs["topic"].default == "errors"
    assert pipeline.budget.time_s == 600
    each = pipeline.steps["each"]
    assert (each.kind, each.model, each.retries, each.timeout_s) == ("prompt", "echo", 1, 120)
    assert each.cache_s == 3_600
    assert pipeline.steps["fix"].env["LEVEL"].parts == ("3",)
    assert pipeline.steps["fix"].model is None


def test_steps_come_in_an_order_in_which_they_can_be_run() -> None:
    """Promise X4."""
    pipeline = read(
        "name: p\nsteps:\n  c: {exec: [c], needs: [b]}\n  b: {exec: [b], needs: a}\n"
        "  a: {exec: [a]}\n  d: {exec: [d]}\n"
    )

    assert list(pipeline.steps) == ["a", "d", "b", "c"]


def steps(text: str) -> str:
    return f"name: p\nsteps:\n{text}\n"


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        (
            steps("  a: {exec: [x], needs: b}\n  b: {exec: [x], needs: a}"),
            "",
            "circular dependency: ",
            "needs",
        ),
        (
            steps("  a: {exec: [x]}\n  b: {exec: [y], needs: [aa]}"),
            "4:26",
            "unknown step",
            "mean a?",
        ),
        (steps("  a: {prmpt: hi}"), "3:7", "needs one of: prompt", "did you mean prompt?"),
        (steps("  a: {prompt: hi, exec: [x]}"), "3:19", "prompt and exec", "one of"),
        (steps("  a: {exec: [x], retires: 2}"), "3:18", "'retires'", "did you mean retries?"),
        (steps("  a: {exec: [x], retries: many}"), "3:27", "out of range", "0 to 10"),
        (steps("  a: {exec: [x], timeout: soon}"), "3:27", "invalid duration", "30s"),
        (steps("  a: {prompt: 'Say {{inputs.topic}}'}"), "3:20", "unknown input 'topic'", "none"),
        (steps("  a: {prompt: '{{item}}'}"), "3:16", "needs foreach", "foreach"),
        (
            steps("  a: {prompt: '{{inputs.x.__class__()}}'}"),
            "3:16",
            "invalid value",
            "without calls",
        ),
        (steps("  a: {prompt: '{{inputs.x'}"), "3:16", "unclosed {{", "close"),
        (steps("  a: {exec: [x], when: 'inputs.x ++ 1'}"), "3:24", "invalid syntax", "and"),
        (steps("  a: {exec: [x], when: '(true'}"), "3:24", "incomplete condition", ""),
        (steps("  a: &x {exec: [x]}\n  b: *x"), "3:6", "anchors", "write out"),
        (
            steps("  a: {exec: [x]}\n  a: {exec: [y]}"),
            "4:3",
            "duplicate key 'a', first at line 3",
            "remove one",
        ),
        (steps("\ta: {exec: [x]}"), "3:1", "tab in the indentation", "spaces"),
        (
            steps("  a: !!python/object:os.system {exec: [x]}"),
            "3:6",
            "tags are not allowed",
            "remove",
        ),
        ("name: p\nsteps: {}\n", "2:1", "no steps", "add a step"),
        ("[1, 2]", "1:1", "not a pipeline", "start with name:"),
        ("name: [\n", "", "invalid YAML", ""),
        ("name: p\n---\nname: q\n", "2:1", "multiple documents", "one"),
        ("name: p\nsteps: {1st: {exec: [x]}}", "2:9", "invalid name", "starting with a letter"),
        (
            "name: p\ninputs: {n: {type: integer, default: x}}\nsteps: {a: {exec: [x]}}",
            "2:29",
            "",
            "",
        ),
        (steps("  a: {python: os.system}"), "3:15", "invalid function", "module:function"),
        (steps("  a: {exec: []}"), "3:13", "empty command", "program"),
        (steps('  a: {exec: [echo, "a\\0b"]}'), "3:20", "NUL character", "remove it"),
        (
            steps("  a: {cap: c, out: {schema: {type: nothing}}}"),
            "3:36",
            "out.schema has an invalid value of type",
            "",
        ),
        (steps("  a: {exec: [x], env: {RELAY_STEP_KEY: c}}"), "3:40", "is reserved", "another"),
        (steps("  a: {prompt: ''}"), "3:15", "empty value", ""),
        (
            steps("  a:\n    exec: |\n      # ü\n      echo '{{run.id}}'"),
            "6:13",
            "not allowed in a shell line",
            "env",
        ),
        (steps('  a: {exec: ["{{run.id}}", x]}'), "3:14", "cannot be the program", "name"),
        (
            steps('  a: {exec: "true", needs: [a, 1, {}]}'),
            "3:35",
            "expected text in the list",
            "quotes",
        ),
        (steps("  a: {exec: [x], when: steps.b.json > 1}"), "3:24", "unknown step 'b'", ""),
        (
            steps("  a: {exec: [x], when: '{{run.id}} == 5'}"),
            "3:25",
            "no braces",
            "use: run.id == 5",
        ),
        (steps("  a: {exec: [x], when: run.id < 5}"), "3:24", "text < number", "compare"),
        (steps("  a: {exec: [x], when: 'run.id in [x]'}"), "3:24", "'x' in a list", "quoted"),
        (steps("  a: {exec: [x], when: 'run.id in [1 2]'}"), "3:24", "missing comma", ""),
        (steps("  a: {prompt: '{{{{ {{no.x}}'}"), "3:21", "unknown value 'no'", "starts with"),
        (
            "name: p\ninputs: {x: five}\nsteps: {a: {exec: [x], when: inputs.x >= 5}}",
            "3:30",
            "text >= number",
            "",
        ),
        (f"name: {'x' * 300}\nsteps: {{a: {{exec: [x]}}}}", "1:7", "300 characters", "shorten"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place_and_what_was_meant(
    text: str, place: str, message: str, hint: str
) -> None:
    """Promise X4."""
    with pytest.raises(Invalid) as refused:
        read(text)

    assert place in refused.value.message
    assert message in refused.value.message
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "x" * 300_000,
        "name: p\nsteps: {a: {exec: [" + "x, " * 25_000 + "]}}",
        steps("  a: {exec: [x], when: '" + "not " * 400 + "true'}"),
    ],
)
def test_what_is_too_large_or_too_deep_is_refused(text: str) -> None:
    """Promise Z3."""
    with pytest.raises(Invalid):
        read(text)


def test_the_schema_for_editors_takes_what_is_taken_and_refuses_what_is_refused() -> None:
    """Promise X4."""
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    checker: Any = jsonschema.Draft202012Validator(schema)
    document: dict[str, Any] = yaml.safe_load(REVIEW)

    assert not list(checker.iter_errors(document))
    for wrong in ("retires", "prmpt"):
        broken = {**document, "steps": {"a": {"exec": ["x"], wrong: 1}}}
        assert list(checker.iter_errors(broken))


def test_the_committed_schema_is_the_one_that_is_made() -> None:
    """Promise X4."""

    assert json.loads(SCHEMA.read_text()) == json_schema()
