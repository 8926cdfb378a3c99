"""Values in commands: written as variables where that is right, refused where it cannot be."""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from contextrelay.errors import Invalid
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
        ('printf %s "$(printf %s {{item}})"', TRICK),
        ('printf %s "$(printf %s "{{item}}")"', TRICK),
        ("(printf %s {{item}})", TRICK),
        ('printf %s "\\${{item}}"', f"${TRICK}"),
        ('printf %s "it\'s {{item}}"', f"it's {TRICK}"),
        ("cat <<END\n<{{item}}>\nEND\n", f"<{TRICK}>\n"),
        ('cat <<-END\n\t"{{item}}"\n\tEND\nprintf %s {{item}}', f'"{TRICK}"\n{TRICK}'),
        ("cat <<'END' >/dev/null\n it's $(\nEND\nprintf %s {{item}}", TRICK),
        ('X={{item}}; printf %s "$X"', TRICK),
        ("sh -c 'printf %s \"$1\"' sh {{item}}", TRICK),
        ("printf %s $((1 + (2 * 3))){{item}}", f"7{TRICK}"),
        ('printf %s "${X:-it}{{item}}"', f"it{TRICK}"),
        ("case {{item}} in a*) printf %s {{item}};; esac", TRICK),
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
        ("echo `echo {{item}}`", "between backticks"),
        ('echo "`echo {{item}}`"', "between backticks"),
        ("echo ${X:-{{item}}}", "in ${...}"),
        ("echo $(({{item}} + 1))", "in arithmetic"),
        ("((x = {{item}}))", "in arithmetic"),
        ("cat <<'END'\n{{item}}\nEND", "in a here-document whose end is in quotes"),
        ("cat <<\\END\n{{item}}\nEND", "in a here-document whose end is in quotes"),
        ("cat <<END\n$(echo {{item}})\nEND", "in $(...) in a here-document"),
        ("cat <<{{item}}\nEND", "in the end of a here-document"),
        ("echo \\{{item}}", "behind a backslash"),
        ('echo "costs ${{item}}"', "behind a $"),
        ("echo $'it' {{item}}", "behind $'"),
        ("echo $(case a in a) echo {{item}};; esac)", "behind a case"),
        ('eval "echo {{item}}"', "run as code"),
        ('sh -c "echo {{item}}"', "run as code"),
        ("cd x && /bin/bash -eu -c {{item}}", "run as code"),
        ("echo \"$(echo '{{item}}')\"", "between single quotes"),
        ("'eval' {{item}}", "run as code"),
        ("e\\val {{item}}", "run as code"),
        ('"sh" "-c" {{item}}', "run as code"),
        ('sh -o errexit -c "echo {{item}}"', "run as code"),
        ('trap "{{item}}" EXIT', "run as code"),
        ("python3 -c \"print('{{item}}')\"", "run as code"),
        ("if [[ {{item}} -eq 1 ]]; then echo; fi", "run as code"),
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
        (["python3", "-c", "print('{{item}}')"], True),
        (["node", "-e", "{{item}}"], True),
        (["bash", "-O", "extglob", "-c", "{{item}}"], True),
        (["sh", "-{{item}}", "{{item}}"], True),
        (["sh", "-c", 'echo "$1"', "sh", "{{item}}"], False),
        (["python3", "work.py", "-c", "{{item}}"], False),
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
    with pytest.raises(Invalid, match="run as code") as refused:
        check_words(read)
    assert refused.value.details["at"] == [len(words) - 1]


PIECES = (
    *("'", '"', "`", "$(", ")", "(", "${X:-", "}", "$", "\\", "#", "<<A\n", "\nA\n", "\n", " "),
    *("printf %s ", "<<'B'\n", "\nB\n", ";", "$((", "))", "x", *["{{item}}"] * 3),
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
