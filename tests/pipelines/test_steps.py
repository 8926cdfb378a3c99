"""Steps: what each kind does, and what its fields mean."""

from __future__ import annotations

import json
from pathlib import Path

from contextrelay import Relay
from contextrelay.client.thread import Thread
from contextrelay.pipelines import runs
from tests.pipelines.running import reason, result, run, statuses


def test_steps_pass_refs_and_every_result_is_an_artifact_of_the_run(
    relay: Relay, tmp_path: Path
) -> None:
    """Promises X4, T8."""
    ended = run(
        relay,
        tmp_path,
        """\
inputs: {topic: orders}
steps:
  plan: {prompt: "Plan {{inputs.topic}}", model: echo}
  read: {exec: [printf, "%s", "{{steps.plan.ref}}"]}
  both: {prompt: "Join {{steps.read.ref}}", model: echo, refs: ["{{steps.plan.ref}}"]}
""",
    )

    assert ended.status == "done"
    assert result(relay, ended, "read") == ended.steps["plan"].ref
    thread = Thread(relay, ended.run)
    assert {each.ref for each in thread.artifacts()} >= set(ended.refs.values())
    steps = {
        each.event.detail["step"]: each.event.detail
        for each in thread.events(limit=100)
        if each.event.type == "run.step"
    }
    assert steps["both"]["refs_in"] == [ended.steps["read"].ref, ended.steps["plan"].ref]
    assert steps["both"]["ref"] == ended.steps["both"].ref
    assert relay.threads().threads == []
    assert [each.thread_id for each in relay.threads(kind="pipeline").threads] == [ended.run]


def test_python_functions_get_values_with_their_types_and_return_json(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    (tmp_path / "work.py").write_text(
        "import os\n"
        "def add(numbers, name):\n"
        "    print('not a result')\n"
        "    return {'sum': sum(numbers), 'name': name, 'key': os.environ['RELAY_STEP_KEY']}\n"
    )

    ended = run(
        relay,
        tmp_path,
        """\
inputs: {numbers: [1, 2, 3]}
steps:
  add: {python: "work:add", args: {numbers: "{{inputs.numbers}}", name: "n {{inputs.numbers}}"}}
  use: {exec: [echo, "{{steps.add.json.sum}}"]}
""",
    )

    document = json.loads(result(relay, ended, "add"))
    assert document == {"sum": 6, "name": "n [1,2,3]", "key": f"{ended.run}/add"}
    assert result(relay, ended, "use") == "6\n"


def test_a_capability_is_invoked_and_its_cached_result_is_taken(
    relay: Relay, tmp_path: Path
) -> None:
    """Promises X4, C2."""
    relay.push("the order of the dawn", name="dawn.txt", ttl_s=None)
    steps = """\
steps:
  find: {cap: retrieval.search, args: {query: dawn}}
"""

    first = run(relay, tmp_path, steps)
    second = run(relay, tmp_path, steps)

    assert "dawn" in result(relay, first, "find")
    assert second.steps["find"].ref == first.steps["find"].ref


def test_an_agent_gets_the_prompt_with_previews_and_its_answer_is_the_result(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    agent = tmp_path / "agent"
    agent.write_text("#!/bin/sh\ncat\necho noise >&2\n")
    agent.chmod(0o755)
    note = relay.push("look at me", ttl_s=None).ref

    ended = run(
        relay,
        tmp_path,
        f"""\
steps:
  work: {{cli: "{agent}", prompt: "Do it", refs: ["{note}"]}}
""",
    )

    said = result(relay, ended, "work")
    assert "look at me" in said
    assert said.rstrip().endswith("Do it")
    assert "noise" not in said
    assert ended.steps["work"].tokens_in > 10


def test_a_fan_out_runs_once_an_item_over_lists_lines_and_json_arrays(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    ended = run(
        relay,
        tmp_path,
        """\
inputs: {names: [a, b], none: {type: list, default: []}}
steps:
  lines: {exec: "printf 'x\\ny\\n'"}
  json: {exec: [echo, '[{"n": 1}, {"n": 2}, {"n": 3}]']}
  over_list: {foreach: "{{inputs.names}}", exec: [echo, "{{item}}"]}
  over_lines: {foreach: "{{steps.lines.ref}}", exec: [echo, "{{item}}"], max_parallel: 1}
  over_json: {foreach: "{{steps.json.ref}}", exec: [echo, "{{item.n}}"]}
  over_none: {foreach: "{{inputs.none}}", exec: [echo, "{{item}}"]}
  over_refs: {foreach: "{{steps.over_json.refs}}", exec: [echo, "{{item}}"]}
""",
    )

    def results(step: str) -> list[str]:
        return [relay.pull(ref).decode() for ref in json.loads(result(relay, ended, step))]

    assert results("over_list") == ["a\n", "b\n"]
    assert results("over_lines") == ["x\n", "y\n"]
    assert results("over_json") == ["1\n", "2\n", "3\n"]
    assert results("over_none") == []
    refs = json.loads(result(relay, ended, "over_json"))
    assert results("over_refs") == [f"{ref}\n" for ref in refs]


def test_a_condition_decides_and_what_uses_a_skipped_step_is_skipped(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    ended = run(
        relay,
        tmp_path,
        """\
steps:
  test: {exec: [echo, '{"failed": 0}']}
  repair: {exec: [echo, repaired], when: steps.test.json.failed > 0}
  after: {exec: [echo, "{{steps.repair.ref}}"]}
  else: {exec: [echo, ok], when: "steps.repair.status == 'skipped'"}
""",
    )

    assert ended.status == "done"
    assert statuses(ended) == {
        "test": "done",
        "repair": "skipped",
        "after": "skipped",
        "else": "done",
    }


def test_a_failed_step_stops_what_depends_on_it_and_not_the_rest(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    ended = run(
        relay,
        tmp_path,
        """\
steps:
  bad: {exec: "echo no >&2; exit 3"}
  after: {exec: [echo, after], needs: bad}
  other: {exec: [echo, other]}
  soft: {exec: ["false"], on_failure: continue}
  goes_on: {exec: [echo, on], needs: soft}
""",
    )

    assert ended.status == "failed"
    assert statuses(ended) == {
        "bad": "failed",
        "after": "skipped",
        "other": "done",
        "soft": "failed",
        "goes_on": "done",
    }
    assert reason(ended, "bad") == "sh exited with status 3: no"
    assert "retry" in ended.hint


def test_nothing_runs_without_an_approval_that_a_failure_skipped(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    ended = run(
        relay,
        tmp_path,
        """\
steps:
  test: {exec: ["false"]}
  ask: {approve: "Ship?", needs: test}
  ship: {exec: [touch, shipped], needs: ask}
""",
    )

    assert statuses(ended) == {"test": "failed", "ask": "skipped", "ship": "skipped"}
    assert reason(ended, "ship") == "test failed"


def test_a_step_is_tried_again_and_knows_its_key(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    ended = run(
        relay,
        tmp_path,
        """\
steps:
  flaky:
    exec: "echo $RELAY_STEP_KEY >> tries; test $(wc -l < tries) -ge 3"
    retries: 3
    env: {RELAY_NOTE: "{{run.id}}"}
""",
    )

    assert ended.status == "done"
    keys = (tmp_path / "tries").read_text().split()
    assert keys == [f"{ended.run}/flaky"] * 3


def test_a_result_that_breaks_its_schema_is_tried_once_more_with_the_complaint(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    ended = run(
        relay,
        tmp_path,
        """\
steps:
  learns:
    exec: |
      if [ -n "$RELAY_COMPLAINT" ]; then echo '{"n": 1}'; else echo '{"n": "one"}'; fi
    out:
      name: number.json
      type: json
      schema: {type: object, required: [n], properties: {n: {type: integer}}}
  never:
    exec: "echo once >> never; echo no JSON"
    out: {schema: {type: array}}
  said: {prompt: hello, model: echo, out: {schema: {type: object}}}
""",
    )

    assert result(relay, ended, "learns") == '{"n":1}'
    assert relay.peek(ended.steps["learns"].ref or "").name == "number.json"
    assert "not valid JSON" in reason(ended, "never")
    assert (tmp_path / "never").read_text() == "once\n" * 2
    assert "not valid JSON" in reason(ended, "said")


def test_results_of_prompts_are_cached_by_content_and_commands_only_where_it_says_so(
    relay: Relay, tmp_path: Path
) -> None:
    """Promises X4, C2."""
    text = """\
inputs: {{topic: orders}}
steps:
  source: {{exec: "echo {word}"}}
  plan: {{prompt: "Plan {{{{inputs.topic}}}} {{{{steps.source.ref}}}}", model: echo}}
  kept: {{exec: 'echo run >> runs; echo "$P"', env: {{P: "{{{{steps.plan.ref}}}}"}}, cache: 1h}}
  off: {{prompt: "Off", model: echo, cache: off}}
"""

    run(relay, tmp_path, text.format(word="one"))
    again = run(relay, tmp_path, text.format(word="one"))
    changed = run(relay, tmp_path, text.format(word="two"))

    cached = {name: view.is_cached for name, view in again.steps.items()}
    assert cached == {"source": False, "plan": True, "kept": True, "off": False}
    assert not any(view.is_cached for view in changed.steps.values())
    assert (tmp_path / "runs").read_text() == "run\n" * 2


def test_a_pipeline_in_a_pipeline_gives_what_its_last_steps_gave(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    (tmp_path / "inner.yaml").write_text(
        "name: inner\ninputs: {word: {type: text}}\nsteps:\n"
        "  first: {exec: [echo, 'inner {{inputs.word}}']}\n"
        "  last: {exec: [cat], needs: first}\n"
        "  say: {exec: [echo, '{{steps.first.preview}}'], needs: last}\n"
    )
    (tmp_path / "two.yaml").write_text(
        "name: two\nsteps:\n  a: {exec: [echo, a]}\n  b: {exec: [echo, b]}\n"
    )

    ended = run(
        relay,
        tmp_path,
        """\
steps:
  one: {pipeline: inner.yaml, foreach: [x, y], inputs: {word: "{{item}}"}}
  two: {pipeline: two.yaml}
  use: {exec: [echo, "{{steps.two.json.b}}"]}
""",
    )

    assert ended.status == "done", ended
    refs = json.loads(result(relay, ended, "one"))
    assert [relay.pull(ref) for ref in refs] == [b"inner x\n", b"inner y\n"]
    assert result(relay, ended, "use") == f"{ended.steps['two/b'].ref}\n"
    assert ended.steps["one[1]/first"].status == "done"


def test_a_run_past_its_budget_begins_nothing_when_it_is_resumed(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    text = """\
budget: {tokens: 10}
steps:
  a: {prompt: "one two three", model: echo}
  b: {exec: [touch, ran], needs: a}
"""
    first = run(relay, tmp_path, text)

    again = runs.resume(relay, first.run)

    assert (first.status, again.status) == ("stopped", "stopped")
    assert not (tmp_path / "ran").exists()
    assert runs.show(relay, first.run).steps["b"].status == "pending"
