"""Bad steps and bad input: each ends with a reason, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contextrelay import Invalid, Pipeline, Relay, Settings
from contextrelay.limits import FOREACH_ITEMS_MAX, MIB
from contextrelay.pipelines.steps.child import end_leftovers
from tests.pipelines.running import reason, result, run
from tests.rigs import length, rig

TRICK = "$(touch hacked) `touch hacked` ; touch hacked # ' \" {{inputs.other}} {{steps.x.ref}}"


@rig
def test_a_step_that_prints_very_much_is_kept_whole(tmp_path: Path) -> None:
    """Promise X4."""
    size = length(24, 200, 200) * 1_000_000
    with Relay(tmp_path / "store", settings=Settings(body_bytes_max=8 * MIB)) as relay:
        ended = run(relay, tmp_path, f"steps:\n  much: {{exec: [head, -c, {size}, /dev/zero]}}\n")

        assert relay.peek(ended.steps["much"].ref or "").size_bytes == size


def test_a_step_that_hangs_is_ended_with_its_children(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    ended = run(
        relay,
        tmp_path,
        """\
steps:
  hangs: {exec: "sleep 1000 & sleep 1000", timeout: 300ms}
  deaf: {exec: [sleep, 1000], timeout: 300ms}
""",
    )

    assert reason(ended, "hangs") == "sh exceeded its time limit of 0.3 s"
    assert reason(ended, "deaf") == "sleep exceeded its time limit of 0.3 s"
    assert end_leftovers(ended.run) == 0


def test_children_that_a_step_leaves_behind_end_with_it(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    ended = run(relay, tmp_path, 'steps:\n  forks: {exec: "sleep 1000 & sleep 1000 & echo over"}\n')

    assert result(relay, ended, "forks") == "over\n"
    assert end_leftovers(ended.run) == 0


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ('{exec: "kill -KILL $$"}', "sh was killed by SIGKILL"),
        ("{exec: [no-such-program-here]}", "no-such-program-here"),
        ('{python: "no_such_module:act"}', "ModuleNotFoundError"),
        ('{python: "work:raises"}', "work:raises raised ValueError: bad luck"),
        ('{python: "work:ends"}', "work:ends ended its process (7)"),
        ('{python: "work:hangs", timeout: 1s}', "work:hangs exceeded its time limit of 1 s"),
        ("{cap: no.such}", "no.such"),
        ('{foreach: "{{inputs.many}}", exec: [echo]}', "foreach over 100,000 items"),
        ('{exec: [echo, "{{inputs.word.inside}}"]}', "{{inputs.word.inside}} has no value"),
        (
            "{exec: 'head -c 9000000 /dev/zero; echo 1', out: {schema: {type: integer}}}",
            "the result has 9,000,002 bytes; out.schema allows at most 8,388,608",
        ),
        ('{prompt: hello, model: "echo", refs: ["{{inputs.word}}"]}', "is not a ref"),
        ('{exec: [echo, "{{inputs.nul}}"]}', "{{inputs.nul}} contains a NUL character"),
        ('{exec: [echo], env: {X: "{{inputs.nul}}"}}', "{{inputs.nul}} contains a NUL character"),
    ],
)
def test_a_step_that_fails_says_why(relay: Relay, tmp_path: Path, step: str, said: str) -> None:
    """Promise X4."""
    (tmp_path / "work.py").write_text(
        "import os, time\n"
        "def raises(): raise ValueError('bad luck')\n"
        "def ends(): os._exit(7)\n"
        "def hangs(): time.sleep(1000)\n"
    )
    many = ["x"] * 100_000
    inputs = "{word: w, nul: {type: text}, many: {type: list, default: []}}"
    text = f"inputs: {inputs}\nsteps:\n  bad: {step}\n"

    ended = run(relay, tmp_path, text, many=many, nul="a\0b")

    assert ended.status == "failed"
    assert said in reason(ended, "bad")
    assert len(many) > FOREACH_ITEMS_MAX


def test_what_looks_like_a_template_or_like_shell_stays_a_text(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    ended = run(
        relay,
        tmp_path,
        """\
inputs: {word: x, other: secret}
steps:
  words: {exec: [printf, "%s", "{{inputs.word}}"]}
  variable: {exec: 'printf %s "$WORD"', env: {WORD: "{{inputs.word}}"}}
  again: {exec: [printf, "%s", "{{steps.words.preview}}"]}
  asked: {prompt: "Say {{inputs.word}}", model: echo}
""",
        word=TRICK,
    )

    assert ended.status == "done", ended.reason
    assert result(relay, ended, "words") == TRICK
    assert result(relay, ended, "variable") == TRICK
    assert "{{inputs.other}}" in result(relay, ended, "again")
    assert "BEGIN UNTRUSTED DATA" in result(relay, ended, "asked")
    assert not (tmp_path / "hacked").exists()


def test_a_pipeline_that_includes_itself_is_refused_with_its_place(tmp_path: Path) -> None:
    """Promise X4."""
    (tmp_path / "a.yaml").write_text("name: a\nsteps:\n  b: {pipeline: b.yaml}\n")
    (tmp_path / "b.yaml").write_text("name: b\nsteps:\n  x: {exec: [x]}\n  a: {pipeline: a.yaml}\n")

    with pytest.raises(
        Invalid, match=r"b\.yaml:4:17: circular include: .*a\.yaml includes .*b\.yaml"
    ):
        Pipeline.load(tmp_path / "a.yaml")


@pytest.mark.parametrize(
    ("step", "column", "said"),
    [
        ("{pipeline: missing.yaml}", 17, "file not found"),
        ("{pipeline: inner.yaml}", 6, "missing input 'word' of inner"),
        ("{pipeline: inner.yaml, inputs: {wort: x}}", 38, "inner has no input 'wort'"),
    ],
)
def test_an_included_file_is_checked_before_anything_runs(
    tmp_path: Path, step: str, column: int, said: str
) -> None:
    """Promise X4."""
    (tmp_path / "inner.yaml").write_text(
        "name: inner\ninputs: {word: {type: text}}\nsteps:\n  x: {exec: [x]}\n"
    )
    (tmp_path / "a.yaml").write_text(f"name: a\nsteps:\n  b: {step}\n")

    with pytest.raises(Invalid, match=rf"a\.yaml:3:{column}: .*{said}"):
        Pipeline.load(tmp_path / "a.yaml")


@pytest.mark.parametrize(
    ("inputs", "said"),
    [({}, "missing input 'topic'"), ({"topic": 3}, "invalid topic: expected text")],
)
def test_inputs_are_checked_before_anything_runs(
    relay: Relay, tmp_path: Path, inputs: dict[str, Any], said: str
) -> None:
    """Promise X4."""
    text = "inputs: {topic: {type: text}, deep: false}\nsteps:\n  x: {exec: [touch, ran]}\n"

    with pytest.raises(Invalid, match=said):
        run(relay, tmp_path, text, **inputs)

    assert not (tmp_path / "ran").exists()
    assert relay.threads(kind="pipeline").threads == []


def test_a_price_budget_refuses_models_without_a_known_price(relay: Relay, tmp_path: Path) -> None:
    """Promise X4."""
    text = "budget: {price: 1}\nsteps:\n  ask: {prompt: hello, model: echo}\n"

    with pytest.raises(Invalid, match=r"pipeline\.yaml:4:31: .*unknown price of echo:echo-1"):
        run(relay, tmp_path, text)
