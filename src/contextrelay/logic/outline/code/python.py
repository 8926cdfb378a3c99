"""Python by its own parser: imports, constants, classes with their methods, functions."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from contextrelay.limits import OUTLINE_PARSE_BYTES_MAX
from contextrelay.logic.content.source import Source
from contextrelay.logic.outline.code.symbols import Symbol, drawn
from contextrelay.logic.outline.layout import Drawn

_FILE = "<outlined>"
# The parser calls itself for each of these; so many in a row are no program. There is one way only
# to read a row: with two for `**`, a comment of eighty stars would take longer than anybody waits.
_DEEP = re.compile(r"(?:[-+~!({\[*]\s*+|not\s++|lambda\s*+:\s*+|await\s++){100}")
_TOO_LONG_CHARS = 1_000_000


def draw(source: Source) -> Drawn | None:
    """The outline of a Python file, None if it is not one that can be parsed."""
    if source.media_type != "text/x-python" or len(source.body) > OUTLINE_PARSE_BYTES_MAX:
        return None
    tree = parse(source.text)
    if tree is None:
        return None
    doc = (ast.get_docstring(tree) or "").partition("\n")[0]
    imports = [name for node in tree.body for name in _imported(node)]
    return drawn(source, "Python", list(_symbols(tree.body)), imports, doc)


def parse(text: str) -> ast.Module | None:
    """Parse, unless that could overrun the stack: the parser is C, and does not always notice."""
    if _DEEP.search(text) or max(map(len, text.split("\n"))) > _TOO_LONG_CHARS:
        return None
    # An odd escape in somebody's string is no news for ours. Added each time: others reset filters.
    warnings.filterwarnings("ignore", module=re.escape(_FILE))
    try:
        return ast.parse(text, _FILE)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _imported(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return ["." * node.level + (node.module or "")]
    return []


def _symbols(body: list[ast.stmt], is_member: bool = False, depth: int = 0) -> Iterator[Symbol]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Symbol(
                "function",
                node.name,
                node.lineno,
                _signature(node),
                _brief(node.args),
                _doc(node),
                is_member,
            )
        elif isinstance(node, ast.ClassDef):
            bases = ", ".join(_source(base) for base in node.bases)
            named = f"({bases})" if bases else ""
            yield Symbol("class", node.name, node.lineno, named, "", _doc(node), is_member)
            if not is_member:
                yield from _symbols(node.body, True)
        elif isinstance(node, ast.If | ast.Try) and depth < 3:
            # What is defined under a condition, such as a version of Python.
            branches = [*node.body, *node.orelse]
            for handler in getattr(node, "handlers", ()):
                branches += handler.body
            yield from _symbols(branches, is_member, depth + 1)
        elif not is_member:
            yield from _constants(node)


def _constants(node: ast.stmt) -> Iterator[Symbol]:
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    for target in targets:
        if isinstance(target, ast.Name) and not target.id.startswith("__"):
            yield Symbol("constant", target.id, node.lineno)


def _doc(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    return (ast.get_docstring(node, clean=False) or "").strip().partition("\n")[0]


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    returns = f" -> {_source(node.returns)}" if node.returns else ""
    return f"({_source(node.args)}){returns}"


def _brief(args: ast.arguments) -> str:
    """The names of arguments alone."""
    names = [each.arg for each in (*args.posonlyargs, *args.args)]
    if args.vararg:
        names.append(f"*{args.vararg.arg}")
    names += [each.arg for each in args.kwonlyargs]
    if args.kwarg:
        names.append(f"**{args.kwarg.arg}")
    return f"({', '.join(names)})"


def _source(node: ast.AST) -> str:
    """Code again, unless it is nested so that writing it would not end well."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return "…"
