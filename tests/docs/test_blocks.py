"""Blocks and desks: documents are read, run and compared as their authors expect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks_in, match_output, steps_in
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


@pytest.mark.parametrize(
    ("shown", "printed", "matches"),
    [
        (("one", "two"), "one\ntwo\n", True),
        (("one", "..."), "one\ntwo\nthree\n", True),
        (("one", "...", "three"), "one\nthree\n", True),
        (("took ... ms",), "took 3.5 s\n", False),
        ((f"ref {ONE}",), f"ref {TWO}\n", True),
    ],
)
def test_output_is_compared_with_what_is_shown(
    shown: tuple[str, ...], printed: str, matches: bool
) -> None:
    assert (match_output(shown, printed) is not None) == matches


def test_a_wrong_block_is_shown_with_its_place(tmp_path: Path) -> None:
    code = "$ echo one\ntwo"
    says = "x.md:1: $ echo one\nshown:\ntwo\n\nprinted:\none"
    with Desk(tmp_path / "desk") as desk:
        assert run(shell(code), desk, {}).startswith(says)
