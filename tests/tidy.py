"""Tidy: what a machine can see of STYLE.md. `python -m tests.tidy` prints what it finds.

Rule: a check looks at files as they stand, never at history, and every finding says what to do.
The layers between rooms are import-linter's business (pyproject.toml); calls are ours.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.impure_names import IMPURE_BUILTIN, IMPURE_CALLS, IMPURE_IMPORTS

ROOT = Path(__file__).parents[1]

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 60
CLASS_PUBLIC_METHODS_MAX = 20
ERROR_CLASSES_MAX = 16
README_LINES_MAX = 170

# Each entry says why it may be longer than the rule. Keep this short.
LONG_FILES: dict[str, str] = {
    "src/contextrelay/limits.py": "data: one page of bounds",
    "tests/promises.py": "data: one entry a promise",
}
REPEATED_NAMES: dict[str, str] = {
    "src/contextrelay/server/routes/legacy_relay/bodies.py::Thread": "its name in OpenAPI",
    "src/contextrelay/server/routes/legacy_contextrelay.py::Pushed": "its name in OpenAPI",
}
LONG_FUNCTIONS: dict[str, str] = {}  # "src/contextrelay/x.py::name": why
CATCHES_ALL: dict[str, str] = {
    "src/contextrelay/core/invoke.py::_run": "anybody's code",
    "src/contextrelay/core/capabilities.py::_load": "a broken package stops no others",
    "src/contextrelay/store/ledger/sqlite.py::_try_group": "the error goes to each caller's thread",
    "src/contextrelay/client/contextrelay.py::hear": "a callback's error is its own",
    "src/contextrelay/runs/providers/transport.py::answered": "an SDK's own code",
    "src/contextrelay/runs/run.py::next": "a package's own code",
    "src/contextrelay/runs/providers/registry.py::_find": "a package's own code",
    "src/contextrelay/client/bridge/bridge.py::_work": "the error goes to who gave the task",
}

PURE_ROOMS = (
    "errors",
    "limits",
    "model",
    "verbs",
    "access",
    "documents",
    "content",
    "state",
    "packing",
    "seal",
)
SYNCHRONOUS_ROOMS = (*PURE_ROOMS, "store", "core")
# The outermost frames, where an unforeseen error may be caught and shown.
OUTERMOST = (
    *("a2a", "cli", "demo", "mcp", "pipelines", "project", "report", "runs", "server"),
    *("web", "__main__"),
)
EMPTY_NAMES = ("utils", "util", "helpers", "helper", "common", "base", "manager", "misc")

# Where the names of logs and the kinds of rows are spelled, and how a literal one is recognised.
SCHEMA = "src/contextrelay/core/schema.py"
SCHEMA_ROOMS = ("core", "client", "context", *OUTERMOST)
LOG_PREFIX = re.compile(r"(?:[abcikotx]|i/[antu]|key)/")
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX)\b(?!-)")

# Somebody's own folders, and places packages come from other than the public ones.
MACHINE_PATH = re.compile(r"(?<![\w.:/-])/(?:root|work|workspace|home/\w+|Users/\w+)/[\w.]")
URL_HOST = re.compile(r"https?://([\w.-]+)")
REGISTRY_WORDS = re.compile(r"(artifactory|nexus|mirror|registry|pypi|npm|goproxy)", re.IGNORECASE)
PUBLIC_REGISTRIES = ("pypi.org", "files.pythonhosted.org", "www.npmjs.com", "registry.npmjs.org")
INDEX_SETTING = re.compile(r"(?:index[-_]url|find[-_]links|trusted[-_]host)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not tidy."""

    path: str
    line: int
    says: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.says}"


@dataclass(frozen=True)
class Source:
    """One file of the project: where it is and what it says."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))

    @cached_property
    def imported_names(self) -> dict[str, str]:
        """What each imported name stands for, dotted in full."""
        names: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name.split(".")[0]
                    names[alias.asname or first] = alias.name if alias.asname else first
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        return names

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    @property
    def is_product(self) -> bool:
        return self.is_python and self.path.startswith("src/")

    @property
    def room(self) -> str:
        """The part of the product it belongs to: "content", "errors", "" for anything else."""
        parts = self.path.removesuffix(".py").split("/")
        return parts[2] if self.is_product and len(parts) > 2 else ""

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    def found(self, line: int, says: str) -> Finding:
        return Finding(self.path, line, says)


Check = Callable[[Source], Iterator[Finding]]


def begins_by_saying_its_job(source: Source) -> Iterator[Finding]:
    """A Python file begins with a docstring; only an empty file needs none."""
    if source.is_python and source.text.strip() and not ast.get_docstring(source.tree):
        yield source.found(1, "begin the file with a docstring that says its job in one sentence")


def is_named_by_its_noun(source: Source) -> Iterator[Finding]:
    """No file is named after nothing in particular."""
    if source.is_python and Path(source.path).stem in EMPTY_NAMES:
        yield source.found(1, "name the file by the one noun it is about")


def is_short_enough(source: Source) -> Iterator[Finding]:
    """Files, functions and classes keep to their sizes."""
    if not source.is_python:
        return
    if source.lines > FILE_LINES_MAX and source.path not in LONG_FILES:
        yield source.found(1, f"{source.lines} lines; split it at {FILE_LINES_MAX}")
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX and f"{source.path}::{node.name}" not in LONG_FUNCTIONS:
                yield source.found(
                    node.lineno, f"{node.name} has {lines} lines; {FUNCTION_LINES_MAX} is the most"
                )
        elif isinstance(node, ast.ClassDef) and source.is_product:
            methods = public_methods(node)
            if methods > CLASS_PUBLIC_METHODS_MAX:
                most = f"{methods} public methods; {CLASS_PUBLIC_METHODS_MAX} is the most"
                yield source.found(node.lineno, f"{node.name} has {most}")


def public_methods(node: ast.ClassDef) -> int:
    names = {
        child.name
        for child in node.body
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        and not child.name.startswith("_")
    }
    return len(names)


def pure_rooms_are_pure(source: Source) -> Iterator[Finding]:
    """Pure packages open nothing, print nothing, read no clock."""
    if source.room not in PURE_ROOMS:
        return
    names = source.imported_names
    for node in source.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in modules_of(node):
                if IMPURE_IMPORTS.fullmatch(name):
                    yield source.found(
                        node.lineno,
                        f"imports {name} in a pure room; take the result as an argument",
                    )
        elif isinstance(node, ast.Call | ast.Attribute):
            called = node.func if isinstance(node, ast.Call) else node
            name = dotted(called, names)
            # An attribute counts too, so that passing `datetime.now` on is seen; a bare name only
            # when it is called, because a local may be called `time`.
            if (isinstance(node, ast.Call) or "." in name) and IMPURE_CALLS.fullmatch(name):
                yield source.found(
                    node.lineno, f"uses {name} in a pure room; take the result as an argument"
                )


def modules_of(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def dotted(node: ast.expr, names: dict[str, str]) -> str:
    """`datetime.now` after `from datetime import datetime` is `datetime.datetime.now`."""
    if isinstance(node, ast.Attribute):
        front = dotted(node.value, names)
        return f"{front}.{node.attr}" if front else ""
    if isinstance(node, ast.Name):
        if node.id in names:
            return names[node.id]
        # A name that was not imported is a builtin or a local; only builtins matter, bare.
        return node.id if IMPURE_BUILTIN.fullmatch(node.id) else ""
    return ""


def is_synchronous_below_the_client(source: Source) -> Iterator[Finding]:
    """No `async def` below client."""
    if source.room not in SYNCHRONOUS_ROOMS:
        return
    for node in source.nodes:
        if isinstance(node, ast.AsyncFunctionDef | ast.AsyncWith | ast.AsyncFor | ast.Await):
            yield source.found(node.lineno, "async below client; core and the stores do not await")


def catches_only_what_it_knows(source: Source) -> Iterator[Finding]:
    """`except Exception` is for the outermost frame of a door; elsewhere it must raise again."""
    if not source.is_product or source.room in OUTERMOST:
        return
    allowed = nodes_of_functions(source, CATCHES_ALL)
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler) and catches_all(node.type):
            last = node.body[-1]
            raises_again = isinstance(last, ast.Raise) and last.exc is None
            if not raises_again and node not in allowed:
                yield source.found(
                    node.lineno, "catches everything; name the exceptions, or end with a bare raise"
                )
        elif (
            isinstance(node, ast.Call)
            and dotted(node.func, source.imported_names) == "contextlib.suppress"
            and any(catches_all(argument) for argument in node.args)
        ):
            yield source.found(node.lineno, "suppresses everything; name the exceptions")


def nodes_of_functions(source: Source, names: Container[str]) -> set[ast.AST]:
    """Every node inside the functions named "path::function"."""
    return {
        inner
        for node in source.nodes
        if isinstance(node, ast.FunctionDef) and f"{source.path}::{node.name}" in names
        for inner in ast.walk(node)
    }


def catches_all(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    parts = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(isinstance(p, ast.Name) and p.id in {"Exception", "BaseException"} for p in parts)


def spells_storage_in_the_schema(source: Source) -> Iterator[Finding]:
    """Prefixes of logs and kinds of rows are spelled in core/schema.py alone."""
    if source.room not in SCHEMA_ROOMS or source.path == SCHEMA:
        return
    for node in source.nodes:
        if isinstance(node, ast.JoinedStr):
            texts = node.values[:1]
        else:
            texts = [node]
        if any(LOG_PREFIX.fullmatch(literal(text)) for text in texts):
            yield source.found(
                getattr(node, "lineno", 1), "take the log's name from core/schema.py"
            )
        if isinstance(node, ast.Call | ast.Compare) and any(map(literal, kinds_in(node))):
            yield source.found(node.lineno, "take the row's kind from core/schema.py")


def literal(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def kinds_in(node: ast.Call | ast.Compare) -> list[ast.expr]:
    """Where a call or a comparison names the kind of a row."""
    if isinstance(node, ast.Compare):
        if not isinstance(node.left, ast.Attribute) or node.left.attr != "kind":
            return []
        if not (isinstance(node.left.value, ast.Name) and node.left.value.id == "row"):
            return []
        return [part for each in node.comparators for part in getattr(each, "elts", [each])]
    if isinstance(node.func, ast.Name) and node.func.id == "Row":
        return node.args[:1]
    if isinstance(node.func, ast.Attribute) and (node.func.attr, len(node.args)) in (
        ("get", 3),
        ("rows", 4),
    ):
        return node.args[1:2]
    return []


def repeated_class_names(files: Iterable[Source]) -> Iterator[Finding]:
    """A public class name of src is defined once."""
    known: dict[str, str] = {}
    for source in files:
        if not source.is_product or source.path.endswith("_pb2.py"):
            continue
        for node in source.tree.body:
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            first = known.setdefault(node.name, source.path)
            if first != source.path and f"{source.path}::{node.name}" not in REPEATED_NAMES:
                yield source.found(node.lineno, f"class {node.name} exists already in {first}")


def import_cycles(files: Iterable[Source]) -> Iterator[Finding]:
    """No module of src imports itself by way of others, not even inside a function."""
    paths = {
        source.path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__"): source
        for source in files
        if source.is_product
    }
    by_name = {path.replace("/", "."): source for path, source in paths.items()}
    order: TopologicalSorter[str] = TopologicalSorter()
    for name, source in by_name.items():
        tests = [node for node in source.nodes if isinstance(node, ast.If)]
        for_types = (each for each in tests if "TYPE_CHECKING" in ast.dump(each.test))
        ignored = {node for each in for_types for node in ast.walk(each)}
        for node in source.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom) and node not in ignored:
                order.add(name, *({*modules_of(node)} & by_name.keys() - {name}))
    try:
        order.prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        yield by_name[cycle[0]].found(1, f"imports itself: {' <- '.join(cycle)}")


def has_few_errors(source: Source) -> Iterator[Finding]:
    """At most twelve error classes, all in errors.py."""
    if source.path == "src/contextrelay/errors.py":
        classes = [node for node in source.nodes if isinstance(node, ast.ClassDef)]
        if len(classes) > ERROR_CLASSES_MAX:
            yield source.found(1, f"{len(classes)} error classes; {ERROR_CLASSES_MAX} is the most")


def leaves_nothing_for_later(source: Source) -> Iterator[Finding]:
    """No TODO or FIXME in a comment: do it, or write `not yet` in tests/promises.py."""
    for line, comment in comments(source) if LEFTOVER.search(source.text) else ():
        if LEFTOVER.search(comment):
            yield source.found(line, "do it now, or say `not yet` in tests/promises.py")


def comments(source: Source) -> Iterator[tuple[int, str]]:
    if source.is_python:
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    elif not source.path.endswith((".md", ".json")):
        for number, line in enumerate(source.text.splitlines(), 1):
            if "#" in line:
                yield number, line.partition("#")[2]


def names_no_machine(source: Source) -> Iterator[Finding]:
    """No file names somebody's own folders or a package index that others cannot reach."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if MACHINE_PATH.search(line) or (len(ROOT.parts) > 2 and f"{ROOT}/" in line):
            yield source.found(number, "names a path of one machine; use ~, a variable or tmp_path")
        if INDEX_SETTING.search(line) and source.path != "tests/tidy.py":
            yield source.found(number, "sets a package index; that is for each user's own settings")
        for host in URL_HOST.findall(line):
            if REGISTRY_WORDS.search(host) and host not in PUBLIC_REGISTRIES:
                yield source.found(number, f"names {host}; only the public registries are known")


def readme_is_short(source: Source) -> Iterator[Finding]:
    """The README can be read in one sitting."""
    if source.path == "README.md" and source.lines >= README_LINES_MAX:
        yield source.found(source.lines, f"keep the README under {README_LINES_MAX} lines")


CHECKS: tuple[Check, ...] = (
    begins_by_saying_its_job,
    is_named_by_its_noun,
    is_short_enough,
    pure_rooms_are_pure,
    is_synchronous_below_the_client,
    catches_only_what_it_knows,
    spells_storage_in_the_schema,
    has_few_errors,
    leaves_nothing_for_later,
    names_no_machine,
    readme_is_short,
)

EXPECTED_FILES = ("README.md", "CHANGELOG.md", "STYLE.md", "AGENTS.md", "LICENSE")


def project_files() -> list[str]:
    """Every file that is, or would be, in the repository."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        # An unpacked archive: everything but what tools leave behind.
        paths = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
        left_behind = re.compile(r"\.(?!ci$|gitignore$).*|__pycache__|build|dist|.*\.egg-info")
        return sorted(
            path.as_posix() for path in paths if not any(map(left_behind.fullmatch, path.parts))
        )
    return sorted(name for name in listed.split("\0") if name and (ROOT / name).is_file())


def sources() -> Iterator[Source]:
    """Every text file of the project."""
    for name in project_files():
        try:
            yield Source(name, (ROOT / name).read_bytes().decode())
        except (UnicodeDecodeError, FileNotFoundError):
            continue


def look(source: Source) -> list[Finding]:
    """Everything untidy in one file."""
    try:
        found = {finding for check in CHECKS for finding in check(source)}
    except SyntaxError as error:
        return [source.found(error.lineno or 1, f"is not Python: {error.msg}")]
    return sorted(found, key=lambda finding: (finding.line, finding.says))


def look_everywhere() -> list[Finding]:
    """Everything untidy in the project."""
    every = list(sources())
    found = [finding for source in every for finding in look(source)]
    found += import_cycles(every)
    found += repeated_class_names(every)
    allowed = (name.partition("::")[0] for name in (*LONG_FILES, *LONG_FUNCTIONS, *CATCHES_ALL))
    absent = {name for name in (*EXPECTED_FILES, *allowed) if not (ROOT / name).is_file()}
    return found + [Finding(name, 1, "is missing") for name in sorted(absent)]


def main() -> int:
    found = look_everywhere()
    for finding in found:
        print(finding)
    print(f"{len(found)} untidy" if found else "tidy")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
