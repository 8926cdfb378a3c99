"""Tidy: the checks see what they are meant to see; `make check` looks at the project itself."""

from __future__ import annotations

import pytest

from tests.tidy import Source, import_cycles, look, repeated_class_names

PURE = "src/contextrelay/state/header.py"
CORE = "src/contextrelay/core/threads/threads.py"


JOB = '"""The job."""\n'


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        ("src/contextrelay/core/utils.py", JOB, "name the file by the one noun"),
        ("tests/test_x.py", JOB + "x = 1\n" * 800, "801 lines"),
        (CORE, JOB + "def f():\n" + "    x = 1\n" * 60, "f has 61 lines"),
        (
            CORE,
            JOB + "class C:\n" + "".join(f"    def m{n}(self): ...\n" for n in range(21)),
            "C has 21 public methods",
        ),
        (PURE, JOB + "body = open('x').read()\n", "uses open"),
        (PURE, JOB + "from datetime import datetime\nat = datetime.now()\n", "datetime.now"),
        (PURE, JOB + "def f():\n    import time\n", "imports time"),
        (CORE, JOB + "async def f(): ...\n", "async below client"),
        (CORE, JOB + "try:\n    f()\nexcept Exception:\n    pass\n", "catches everything"),
        (
            "src/contextrelay/errors.py",
            JOB + "".join(f"class E{n}(Exception): ...\n" for n in range(17)),
            "17 error classes",
        ),
        (CORE, JOB + 'log = f"t/{thread}"\n', "take the log's name"),
        (CORE, JOB + 'row = Row("artifact", ref, b"")\n', "take the row's kind"),
        (CORE, JOB + "x = 1  # TO" + "DO: later\n", "do it now"),
        ("docs/start.md", "cd /ho" + "me/someone/project\n", "path of one machine"),
        ("Makefile", "pip install --index" + "-url x\n", "sets a package index"),
        ("docs/start.md", "https://py" + "pi.example.com/simple\n", "only the public registries"),
        ("README.md", "line\n" * 170, "keep the README under"),
    ],
)
def test_what_is_untidy_is_found(path: str, text: str, says: str) -> None:
    found = look(Source(path, text))

    assert any(says in finding.says for finding in found), f"found only {found}"


def test_modules_that_import_each_other_are_found() -> None:
    name, back = "contextrelay.core.threads.state", "import contextrelay.core.threads.head\n"
    late = f"def f():\n    from {name} import x\n"
    other = Source("src/contextrelay/core/threads/state.py", back)
    types = f"if TYPE_CHECKING:\n    from {name} import x\n"

    path = "src/contextrelay/core/threads/head.py"
    assert list(import_cycles([Source(path, late), other]))
    assert not list(import_cycles([Source(path, types), other]))


def test_a_public_class_name_is_used_once() -> None:
    one = Source("src/contextrelay/a.py", JOB + "class Entry: ...\nclass _Own: ...\n")
    other = Source("src/contextrelay/b.py", JOB + "class Entry: ...\nclass _Own: ...\n")
    alone = Source("src/contextrelay/c.py", JOB + "class Place: ...\n")

    (found,) = repeated_class_names([one, other, alone])

    assert (found.path, found.says) == (other.path, f"class Entry exists already in {one.path}")
