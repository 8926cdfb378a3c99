"""Values in commands: one argument, or one variable, and never a part of what a shell reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextrelay import Invalid, Relay
from contextrelay.pipelines.language import read_pipeline
from tests.pipelines.running import result, run

TRICK = "a  b*$(touch hacked)`touch hacked`;touch hacked\n#'\"\\\\ a[$(touch hacked)] {{run.id}}"


@pytest.mark.parametrize(
    "line",
    [
        "echo {{run.id}}",
        'echo "{{run.id}}"',
        "echo '{{run.id}}'",
        "csh -c {{run.id}}",
        "echo {{run.id}} | tcsh",
        "ruby3.1 -e {{run.id}}",
        "tclsh8.6 {{run.id}}",
        "for x do {{run.id}}; done",
        "$(echo {{run.id}})",
        "cat <<E\n{{run.id}}\nE",
        "{{run.id}}",
    ],
)
def test_a_value_stands_in_no_line_for_a_shell(line: str) -> None:
    """Promise X4: whichever shells and interpreters there are."""
    text = "name: p\nsteps:\n  a:\n    exec: |\n"
    text += "".join(f"      {each}\n" for each in line.split("\n"))

    with pytest.raises(Invalid, match="not allowed in a shell line") as refused:
        read_pipeline(text, "p.yaml")

    assert 'env: {VALUE: "{{run.id}}"}' in refused.value.hint


@pytest.mark.parametrize("word", ["{{run.id}}", "/bin/{{run.id}}"])
def test_a_value_is_no_program(word: str) -> None:
    """Promise X4."""
    with pytest.raises(Invalid, match=r"p\.yaml:3:.*cannot be the program"):
        read_pipeline(f'name: p\nsteps:\n  a: {{exec: ["{word}", x]}}\n', "p.yaml")
    with pytest.raises(Invalid, match="values are not allowed here"):
        read_pipeline(f'name: p\nsteps:\n  a: {{cli: "{word}", prompt: x}}\n', "p.yaml")


def test_a_value_is_one_argument_or_one_variable(tmp_path: Path) -> None:
    """Promise X4: its text as it is, and nothing of it is run."""
    text = """\
inputs: {word: x}
steps:
  argument: {exec: [printf, "%s|", "<{{inputs.word}}>", end]}
  variable: {exec: 'printf "%s|" "<$WORD>" end', env: {WORD: "{{inputs.word}}"}}
  script: {exec: [sh, -c, 'printf "%s|" "<$1>" end', sh, "{{inputs.word}}"]}
"""
    with Relay("memory:") as relay:
        ended = run(relay, tmp_path, text, word=TRICK)

        given = {step: result(relay, ended, step) for step in ended.steps}
    assert given == dict.fromkeys(("argument", "variable", "script"), f"<{TRICK}>|end|")
    assert not (tmp_path / "hacked").exists()
