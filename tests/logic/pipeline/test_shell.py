"""Values in commands: written as variables where that is right, refused where it cannot be."""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from contextrelay.errors import Invalid
from contextrelay.logic.pipeline.language import read_pipeline
from contextrelay.logic.pipeline.shell import check_words, quoting
from contextrelay.logic.pipeline.template import Value, parse_template

TRICK = "a  b*$(touch hacked)`touch hacked`;touch hacked\n#'\"\\ a[$(touch hacked)]"


def ran(line: str, folder: Path, shell: str = "sh") -> str:
    """What a line prints whose value is TRICK."""
    template = parse_template(line)
    quoted = iter(quoting(template))
    written = "".join(
        (("${V}" if next(quoted) else '"${V}"') if isinstance(part, Value) else part)
        for part in template.parts
    )
    done = subprocess.run(
        [shell, "-c", written],
        cwd=folder,
        env={**os.environ, "V": TRICK},
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert not (folder / "hacked").exists(), line
    return done.stdout.decode()


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("printf %s {{item}}", TRICK),
        ('printf %s "{{item}}"', TRICK),
        ("printf %s it\\'s{{item}}", f"it's{TRICK}"),
        ("printf '%s' {{item}} # it's a comment", TRICK),
        ("# it's one\nprintf %s {{item}}", TRICK),
        ("printf %s a#{{item}}", f"a#{TRICK}"),
        ("(printf %s {{item}})", TRICK),
        ('printf %s "\\${{item}}"', f"${TRICK}"),
        ('printf %s "it\'s {{item}}\\\\"', f"it's {TRICK}\\"),
        ('X={{item}}; printf %s "$X"', TRICK),
        ("sh -c 'printf %s \"$1\"' sh {{item}}", TRICK),
        ("case {{item}} in a*) printf %s {{item}};; esac", TRICK),
        ("if true; then printf %s {{item}} | sed p | cat >/dev/null; fi", ""),
        ("2>/dev/null printf %s {{item}}", TRICK),
        ('for each in {{item}} b; do printf %s "$each"; done', f"{TRICK}b"),
    ],
)
def test_a_value_is_one_word_and_a_text_wherever_it_may_stand(
    tmp_path: Path, line: str, printed: str, shell: str
) -> None:
    """Promise X4."""
    assert ran(line, tmp_path, shell) == printed


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("echo '{{item}}'", "between single quotes"),
        ("echo \"a\" 'b {{item}} c'", "between single quotes"),
        ("echo # {{item}}", "in a comment"),
        ("echo `echo {{item}}`", "with `"),
        ('echo "`echo {{item}}`"', "with `"),
        ('echo "$(echo {{item}})"', "with $("),
        ("echo ${X:-{{item}}}", "with ${"),
        ("echo $(({{item}} + 1))", "with $("),
        ("((x = {{item}}))", "with arithmetic"),
        ("cat <<END\n{{item}}\nEND", "with a here-document"),
        ("sh <<END\necho {{item}}\nEND", "with a here-document"),
        ("echo \\{{item}}", "behind a backslash"),
        ('echo "\\{{item}}"', "behind a backslash"),
        ('echo "costs ${{item}}"', "behind a $"),
        ("echo $'it' {{item}}", "with $'"),
        ("echo 'it {{item}}", "a quote or a backslash that is open"),
        ('eval "echo {{item}}"', "run as code by eval"),
        ('sh -c "echo {{item}}"', "run as code by sh"),
        ("cd x && /bin/bash -eu -c {{item}}", "run as code by bash"),
        ("'eval' {{item}}", "run as code"),
        ("e\\val {{item}}", "run as code"),
        ('"sh" "-c" {{item}}', "run as code"),
        ('sh -o errexit -c "echo {{item}}"', "run as code"),
        ('trap "{{item}}" EXIT', "run as code"),
        ("python3 -c \"print('{{item}}')\"", "run as code"),
        ("if [[ {{item}} -eq 1 ]]; then echo; fi", "with [["),
        ("echo {{item}} | sh", "run as code by sh"),
        ("echo {{item}} | (cd x; bash -e)", "run as code by bash"),
        ("echo {{item}} | python3 -", "run as code by python3"),
        ("echo {{item}} | xargs -I{} sh -c 'echo {}'", "run as code by xargs"),
        ("echo {{item}} | ssh host", "run as code by ssh"),
        ("echo {{item}} | sh /dev/stdin", "run as code by sh"),
        ("echo {{item}} | python3 /proc/self/fd/0", "run as code by python3"),
        ("flock lock {{item}}", "run as code by flock"),
        ("function f { {{item}}; }; f", "run as code by function"),
        ("printf -v {{item}} x", "run as code by printf"),
        ("sed 's/a/{{item}}/'", "between single quotes"),
        ('sed "s/a/{{item}}/"', "run as code by sed"),
        ("sh -c -v {{item}}", "run as code by sh"),
        ("sh $OPTIONS {{item}}", "run as code by sh"),
        ("\\\nsh -c {{item}}", "run as code by sh"),
        ("$X eval {{item}}", "would be the program"),
        ("{{item}} x", "would be the program"),
        ("if {{item}}; then echo; fi", "would be the program"),
        ("true | A=1 2>x {{item}}", "would be the program"),
    ],
)
def test_a_value_that_cannot_be_written_safely_is_refused(line: str, said: str) -> None:
    """Promise X4."""
    with pytest.raises(Invalid, match=re.escape(said)) as refused:
        quoting(parse_template(line))

    assert refused.value.details["value"] == 0


@pytest.mark.parametrize(
    ("words", "is_refused"),
    [
        (["sh", "-c", "echo {{item}}"], True),
        (["env", "A=1", "/bin/bash", "-ec", "{{item}}"], True),
        (["env", "-S", "{{item}}"], True),
        (["python3", "-c", "print('{{item}}')"], True),
        (["node", "-e", "{{item}}"], True),
        (["perl", "-e", "print @ARGV", "{{item}}"], True),
        (["bash", "-O", "extglob", "-c", "{{item}}"], True),
        (["sh", "-{{item}}", "x"], True),
        (["sh", "{{item}}", "x"], True),
        (["find", ".", "-exec", "sh", "-c", "{{item}}", ";"], True),
        (["{{item}}", "x"], True),
        (["sh", "-c", 'echo "$1"', "sh", "{{item}}"], False),
        (["bash", "-eu", "run.sh", "{{item}}"], False),
        (["python3", "work.py", "-c", "{{item}}"], False),
        (["python3", "-m", "work", "{{item}}"], False),
        (["perl", "work.pl", "{{item}}"], False),
        (["git", "-c", "{{item}}", "status"], False),
        (["echo", "sh -c", "{{item}}"], False),
    ],
)
def test_a_value_in_a_word_that_is_run_is_refused(words: list[str], is_refused: bool) -> None:
    """Promise X4."""
    read = [parse_template(word) for word in words]
    if not is_refused:
        check_words(read)
        return
    with pytest.raises(Invalid, match=r"run as code|the program that is run") as refused:
        check_words(read)
    first = next(index for index, word in enumerate(words) if "{{item}}" in word)
    assert refused.value.details["at"] == [first]


@pytest.mark.parametrize(
    ("step", "place"),
    [
        ('{cli: sh, prompt: hi, args: [-c, "{{run.id}}"]}', "3:40"),
        ('{cli: sh, prompt: "{{run.id}}"}', "3:12"),
        ('{cli: /bin/bash, prompt: hi, args: [-c, "{bundle}"]}', "3:12"),
        ("{cli: env, prompt: hi, args: [claude]}", "3:12"),
    ],
)
def test_a_program_that_would_run_its_prompt_is_no_agent(step: str, place: str) -> None:
    """Promise X4."""
    with pytest.raises(Invalid, match=f"p.yaml:{place}: the step a: .*run as code by"):
        read_pipeline(f"name: p\nsteps:\n  a: {step}\n", "p.yaml")

    read_pipeline("name: p\nsteps:\n  a: {cli: sh, prompt: hi, args: [agent.sh]}\n", "p.yaml")


PIECES = (
    *("'", '"', "`", "$(", ")", "(", "${X:-", "}", "$", "\\", "#", "<<A\n", "\nA\n", "\n", " "),
    *("printf %s ", "<<'B'\n", "\nB\n", ";", "$((", "))", "x", *["{{item}}"] * 3),
    *(" | sh", "sh -c ", "eval ", "-v ", "$X ", "\\\n", "> f ", "if ", "; then ", "; fi", "env "),
)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_no_line_that_is_taken_runs_what_a_value_holds(tmp_path: Path, shell: str) -> None:
    """Promise X4."""
    chance = random.Random(17)
    taken = 0
    while taken < 120:
        line = "".join(chance.choices(PIECES, k=chance.randint(3, 14)))
        if "{{item}}" not in line:
            continue
        try:
            ran(line, tmp_path, shell)
        except Invalid:
            continue
        taken += 1
