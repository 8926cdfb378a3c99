"""Python by its statements: as the parser of Python would have it, and in bounded time without."""

from __future__ import annotations

import ast
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contextrelay.content.outline.code.python import read
from tests.content.outline.drawing import outlined
from tests.rigs import length, rig, some

LIBRARY = Path(sysconfig.get_paths()["stdlib"])
SIZE = length(thin=1 << 17, long=1 << 20, full=4 << 20)
S_MAX = length(thin=5, long=20, full=20)
"""Of what takes a second or two on an idle machine."""

Definition = tuple[str, str, int, bool]


def definitions(body: list[ast.stmt], is_member: bool = False) -> Iterator[Definition]:
    """What an outline has to tell, by the parser; not what stands on the line of an `if`."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield "function", node.name, node.lineno, is_member
        elif isinstance(node, ast.ClassDef):
            yield "class", node.name, node.lineno, is_member
            if not is_member:
                yield from definitions(node.body, True)
        elif isinstance(node, ast.If | ast.Try):
            yield from definitions(
                [each for each in node.body if each.lineno > node.lineno], is_member
            )
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not is_member:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and not target.id.startswith("__"):
                    yield "constant", target.id, node.lineno, is_member


def defined(body: list[ast.stmt]) -> Iterator[tuple[str, int, int]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            yield node.name, first, node.end_lineno or node.lineno
            yield from defined(node.body)


@rig
@pytest.mark.filterwarnings("ignore")
def test_all_that_a_parser_finds_in_the_standard_library_is_found_at_its_lines() -> None:
    """Promise L1."""
    files = 0
    for path in some(sorted(LIBRARY.glob("*.py")), 20):
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        outline, everything = read(text), read(text, "")
        assert outline is not None
        assert everything is not None

        found = {(each.kind, each.name, each.line, each.is_member) for each in outline.nodes}
        assert set(definitions(tree.body)) <= found, path.name
        lines = {(each.name, each.first, each.last) for each in everything.nodes}
        assert set(defined(tree.body)) <= lines, path.name
        assert (ast.get_docstring(tree) or "").partition("\n")[0].strip() == outline.doc
        imports = [each for node in tree.body for each in imported(node)]
        assert imports == outline.imports, path.name
        files += 1
    assert files > length(thin=15, long=40, full=40)


def imported(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return ["." * node.level + (node.module or "")] if isinstance(node, ast.ImportFrom) else []


def test_signatures_are_shown_in_one_line_without_comments() -> None:
    """Promise L1."""
    code = "def f(\n    a: int = 1,  # the first, (not) last\n    *rest: str,\n"
    code += '    key: dict[str, int] = {"a": 1, },\n) -> list[\n    int\n]:\n    pass\n'
    code += "class A[T](B, metaclass=M): ...\n"
    text = outlined(code, "a.py").text

    assert 'f(a: int=1, *rest: str, key: dict[str, int]={"a": 1, }) -> list[int]:1' in text
    assert "A(B):9" in text


def test_a_file_that_is_broken_is_reported_from_the_next_definition_on() -> None:
    """Promise L1."""
    text = outlined(
        "import os\nx = foo(1,\ndef one(a):\n    return (\nclass Two:\n    pass\n", "b.py"
    )

    assert "one(a):3" in text.text
    assert "Two:5" in text.text


@rig
@pytest.mark.parametrize(
    "part",
    ["import a" + ".a" * 2_000_000, "a=b\n" * 1_000_000, "a=b;" * 1_000_000]
    + [sign * 2_000_000 for sign in ("(", "{\n", "'", '"""', "\\", "\\\n", "@\n", "#", "\t", "f'{")]
    + ["def x(\n" * 500_000, "a=" * 2_000_000, "".join(" " * n + "if a:\n" for n in range(2_500))],
    ids=lambda part: repr(part[:8]),
)
def test_a_hostile_file_is_read_in_time_that_grows_with_it(part: str) -> None:
    """`ast.parse` took 6.8 GB for 160 KB of the first."""
    started = time.process_time()
    read(part[:SIZE])
    read(part[:SIZE], "x")
    assert time.process_time() - started < S_MAX


def test_a_class_behind_hundreds_of_functions_keeps_its_methods() -> None:
    """Promise L1: classes with their methods before a hundred functions."""
    functions = "".join(f"def work_{number}(a):\n    return a\n\n" for number in range(400))
    body = f"{functions}class Late:\n    def one(self): pass\n    def two(self): pass\n"
    text = outlined(body, "late.py").text

    assert "class Late:1201, one, two" in text
    assert "work_99" in text


def test_prose_in_a_large_body_defines_nothing() -> None:
    """Promise L1: what is too large to be parsed is read by its lines."""
    prose = '"""A word of advice.\n\nclass that has a head\nfrom here on import is a word\n"""\n'
    filler = ("# " + "x" * 1_000 + "\n") * 4_300

    text = outlined(
        prose + "import os\n\nclass Hook:\n    def run(self): ...\n" + filler, "a.py"
    ).text

    assert "1 class, " in text.split("\n")[0]
    assert "class Hook:8" in text
    assert "that" not in text
