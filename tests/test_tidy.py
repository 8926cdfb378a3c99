"""Tidy: the checks see what they are meant to see; `make check` looks at the project itself."""

from __future__ import annotations

import pytest

from tests.tidy import Source, import_cycles, look, repeated_class_names

PURE = "src/contextrelay/state/header.py"
CORE = "src/contextrelay/core/threads/threads.py"
DOOR = "src/contextrelay/cli.py"
JOB = '"""The job."""\n'


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        (CORE, "import os\n", "begin the file with a docstring"),
        ("src/contextrelay/core/utils.py", JOB, "name the file by the one noun"),
        (CORE, JOB + "x = 1\n" * 800, "801 lines"),
        ("tests/test_x.py", JOB + "x = 1\n" * 800, "801 lines"),
        (CORE, JOB + "def f():\n" + "    x = 1\n" * 60, "f has 61 lines"),
        (
            CORE,
            JOB + "class C:\n" + "".join(f"    def m{n}(self): ...\n" for n in range(21)),
            "C has 21 public methods",
        ),
        (PURE, JOB + "body = open('x').read()\n", "uses open"),
        (PURE, JOB + "print('x')\n", "uses print"),
        (PURE, JOB + "from datetime import datetime\nat = datetime.now()\n", "datetime.now"),
        (PURE, JOB + "import datetime as d\nclock = d.datetime.now\n", "datetime.now"),
        (PURE, JOB + "import uuid\nid = uuid.uuid4()\n", "uuid.uuid4"),
        (PURE, JOB + "from uuid import uuid4 as new\nid = new()\n", "uuid.uuid4"),
        (PURE, JOB + "def f():\n    import time\n", "imports time"),
        (PURE, JOB + "from os import path\n", "imports os"),
        (PURE, JOB + "from urllib import request\n", "imports urllib.request"),
        (PURE, JOB + "import sys\nsys.stdout.write('x')\n", "sys.stdout.write"),
        (CORE, JOB + "async def f(): ...\n", "async below client"),
        (CORE, JOB + "try:\n    f()\nexcept Exception:\n    pass\n", "catches everything"),
        (CORE, JOB + "try:\n    f()\nexcept (OSError, BaseException):\n    pass\n", "catches"),
        (CORE, JOB + "try:\n    f()\nexcept:\n    pass\n", "catches everything"),
        (
            CORE,
            JOB + "from contextlib import suppress\nwith suppress(Exception):\n    f()\n",
            "suppresses everything",
        ),
        (
            "src/contextrelay/errors.py",
            JOB + "".join(f"class E{n}(Exception): ...\n" for n in range(17)),
            "17 error classes",
        ),
        (CORE, JOB + 'log = f"t/{thread}"\n', "take the log's name"),
        (CORE, JOB + 'found = log.startswith("i/a/")\n', "take the log's name"),
        (CORE, JOB + 'row = Row("artifact", ref, b"")\n', "take the row's kind"),
        (CORE, JOB + 'row = ledger.get(log, "artifact", ref)\n', "take the row's kind"),
        (CORE, JOB + 'is_due = row.kind in ("once", "asked")\n', "take the row's kind"),
        (CORE, JOB + "x = 1  # TO" + "DO: later\n", "do it now"),
        ("Makefile", "# FIX" + "ME\n", "do it now"),
        ("docs/start.md", "cd /ho" + "me/someone/project\n", "path of one machine"),
        ("docs/start.md", "ls /ro" + "ot/.relay\n", "path of one machine"),
        ("Makefile", "pip install --index" + "-url x\n", "sets a package index"),
        ("docs/start.md", "https://py" + "pi.example.com/simple\n", "only the public registries"),
        ("README.md", "line\n" * 170, "keep the README under"),
        (CORE, "def f(:\n", "is not Python"),
    ],
)
def test_what_is_untidy_is_found(path: str, text: str, says: str) -> None:
    found = look(Source(path, text))

    assert any(says in finding.says for finding in found), f"found only {found}"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/contextrelay/core/__init__.py", ""),
        (PURE, JOB + "import re\nimport hashlib\nfrom datetime import UTC, datetime\n"),
        (PURE, JOB + "from datetime import UTC, datetime\nx = datetime.fromtimestamp(1, UTC)\n"),
        (PURE, JOB + "from urllib.parse import quote\n"),
        (PURE, JOB + "def f(time: int, random: bytes) -> int:\n    return time\n"),
        (CORE, JOB + "import os\nhead = open(os.devnull).read()\n"),
        (CORE, JOB + "try:\n    f()\nexcept BaseException:\n    undo()\n    raise\n"),
        (DOOR, JOB + "try:\n    f()\nexcept Exception:\n    show()\n"),
        (DOOR, JOB + "async def f(): ...\n"),
        (CORE, JOB + "first = 'TODO-001'  # ids look like TODO-001\n"),
        ("docs/start.md", "curl http://127.0.0.1:8787/home/page/x https://pypi.org/simple\n"),
        ("README.md", "line\n" * 169),
    ],
)
def test_what_is_tidy_is_left_alone(path: str, text: str) -> None:
    assert look(Source(path, text)) == []


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
