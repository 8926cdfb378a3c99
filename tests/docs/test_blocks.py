"""Blocks and desks: documents are read, run and compared as their authors expect."""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.docs.blocks import Block, blocks_in, match_output, steps_in, with_ids
from tests.docs.desk import Desk
from tests.docs.test_snippets import run

ONE = "3f2a9c1b-5d04-4c7e-9a51-0c6f4b8d2e13"
TWO = "77777777-7777-4777-8777-777777777777"

DOCUMENT = """# Title

```python
x = 1
```

<!-- not run: needs a key -->

```console
$ relay run
```

```sh not run: it takes an hour
make crash
```

```sh not run
make crash
```

<!-- a remark about something else -->
```
plain
```

1. In a list:
   ~~~text
   indented
     more
   ~~~
"""


def shell(code: str) -> Block:
    return Block("x.md", 1, "console", code)


def test_blocks_are_found_with_their_lines_and_reasons() -> None:
    found = [(b.line, b.language, b.code, b.not_run) for b in blocks_in("x.md", DOCUMENT)]

    assert found == [
        (4, "python", "x = 1", None),
        (10, "console", "$ relay run", "needs a key"),
        (14, "sh", "make crash", "it takes an hour"),
        (18, "sh", "make crash", ""),
        (23, "", "plain", None),
        (28, "text", "indented\n  more", None),
    ]


def test_a_transcript_is_split_into_commands_and_their_output() -> None:
    steps = steps_in(shell("$ one \\\n>   more\nsaid\n\n$ two  # exit 3\n$ three"))

    assert [(s.line, s.command, s.output, s.exit_code) for s in steps] == [
        (1, "one \\\n  more", ("said",), 0),
        (5, "two  # exit 3", (), 3),
        (6, "three", (), 0),
    ]


def test_a_block_without_prompts_is_one_script() -> None:
    assert [step.command for step in steps_in(shell("for x in 1 2\ndo echo $x\ndone"))] == [
        "for x in 1 2\ndo echo $x\ndone"
    ]


@pytest.mark.parametrize(
    ("shown", "printed", "matches"),
    [
        (("one", "two"), "one\ntwo\n", True),
        (("one",), "one\ntwo\n", False),
        (("one", "..."), "one\ntwo\nthree\n", True),
        (("...", "three"), "one\ntwo\nthree\n", True),
        (("one", "...", "three"), "one\nthree\n", True),
        (("took ... ms",), "took 3.5 ms\n", True),
        (("took ... ms",), "took 3.5 s\n", False),
        (("a.b",), "axb\n", False),
        ((f"ref {ONE}",), f"ref {TWO}\n", True),
        ((f"ref {ONE}",), "ref none\n", False),
    ],
)
def test_output_is_compared_with_what_is_shown(
    shown: tuple[str, ...], printed: str, matches: bool
) -> None:
    assert (match_output(shown, printed) is not None) == matches


def test_ids_that_were_printed_stand_in_for_those_shown() -> None:
    assert match_output((f"{ONE} and {ONE}",), f"{ONE} and {TWO}") == [ONE, TWO]
    assert with_ids(f"pull {ONE} or {ONE[:8]}", {ONE: TWO}) == f"pull {TWO} or {TWO[:8]}"


def test_a_terminal_remembers_variables_folders_and_ids(tmp_path: Path) -> None:
    ids: dict[str, str] = {}
    code = (
        f"$ mkdir sub && cd sub\n$ export NAME={TWO}\n$ printf '%s\\n' $NAME\n{ONE}\n"
        f"$ basename $PWD; echo got {ONE}\nsub\ngot {ONE}\n$ (exit 3)  # exit 3"
    )
    with Desk(tmp_path / "desk") as desk:
        problem = run(shell(code), desk, ids)

    assert problem == ""
    assert ids == {ONE: TWO}


def test_python_blocks_share_their_names_and_the_store_of_the_commands(tmp_path: Path) -> None:
    with Desk(tmp_path / "desk") as desk:
        first = desk.run_python("x.md", 1, "import os\nhome = os.environ['RELAY_HOME']")
        second = desk.run_python("x.md", 9, "print(home)\nassert home.endswith('.relay')")
        third = desk.run_python("x.md", 20, "\nassert False, 'wrong'")
        fourth = desk.run_python("x.md", 30, "import os\nos._exit(1)")
        fifth = desk.run_python("x.md", 40, "x = 1")
        shell_home = desk.run("echo $RELAY_HOME").output.strip()

    assert (first, second, fifth) == ("", "", "")
    assert 'File "x.md", line 21' in third
    assert "wrong" in third
    assert "ended its process" in fourth
    assert shell_home.startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("$ echo one\ntwo", "x.md:1: $ echo one\nshown:\ntwo\n\nprinted:\none"),
        ("$ true\n$ false", "x.md:2: exit code 1, not 0"),
        ("$ true  # exit 3", "x.md:1: exit code 0, not 3"),
    ],
)
def test_a_wrong_block_is_shown_with_its_place(tmp_path: Path, code: str, says: str) -> None:
    with Desk(tmp_path / "desk") as desk:
        assert run(shell(code), desk, {}).startswith(says)


def test_a_server_left_in_the_background_holds_nothing_up_and_is_ended(tmp_path: Path) -> None:
    with Desk(tmp_path / "desk") as desk:
        result = desk.run("sleep 300 & echo $!")
        server = int(result.output)

    assert ends_soon(server)


def ends_soon(process: int) -> bool:
    """Whether it goes within five seconds: a kill takes effect a little after it is sent."""
    deadline = monotonic() + 5
    while is_running(process) and monotonic() < deadline:
        sleep(0.01)
    return not is_running(process)


def is_running(process: int) -> bool:
    """Whether it is there and no zombie, which only waits to be collected by its parent."""
    try:
        os.kill(process, 0)
        status = Path(f"/proc/{process}/stat")
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
