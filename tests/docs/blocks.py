"""Blocks: the fenced code in a document, and what is to be done with each.

    python, py              run; the blocks of one document share their names, in order
    console, sh, bash       lines with "$ " are commands, the lines after one its output;
                            without any "$ " the whole block is a script
    text, json, toml, ...   shown, not run

A block with `not run: <why>` in its info string, or after an HTML comment that says so, is not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from textwrap import dedent

PYTHON = ("python", "py")
SHELL = ("console", "sh", "bash", "shell")
SHOWN = ("", "text", "json", "toml", "yaml", "ini", "html", "markdown", "diff", "http", "sql")

FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*(.*?)\s*$")
NOT_RUN = re.compile(r"not run\b:?\s*(.*)")
COMMENT = re.compile(r"^\s*<!--\s*(.*?)\s*-->\s*$")
EXIT_CODE = re.compile(r"#\s*exit (\d+)\s*$")
REF = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: where its first line of code is, what it is, what it says."""

    path: str
    line: int
    language: str
    code: str
    not_run: str | None = None
    """Why it is not run; an empty string where the author forgot to say."""

    @property
    def is_run(self) -> bool:
        return self.not_run is None and self.language in PYTHON + SHELL

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a shell block, the output it shows and the exit code it ends with."""

    line: int
    command: str
    output: tuple[str, ...]
    exit_code: int = 0


def blocks_in(path: str, text: str) -> Iterator[Block]:
    """Every fenced block of a document, in order."""
    lines = iter(enumerate(text.splitlines(), 1))
    remark = ""
    for number, line in lines:
        if opened := FENCE.match(line):
            indent, fence, info = opened.groups()
            code = "\n".join(_until_closed(lines, fence))
            language, _, rest = info.partition(" ")
            said = NOT_RUN.search(rest) or NOT_RUN.match(remark)
            not_run = said[1].strip() if said else None
            yield Block(path, number + 1, language.lower(), _shifted(code, indent), not_run)
        if line.strip():
            comment = COMMENT.match(line)
            remark = comment[1] if comment else ""


def _until_closed(lines: Iterator[tuple[int, str]], fence: str) -> Iterator[str]:
    for _, line in lines:
        if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            return
        yield line


def _shifted(code: str, indent: str) -> str:
    """A block inside a list is indented as a whole."""
    return dedent(code) if indent else code


def steps_in(block: Block) -> list[Step]:
    """The commands of a shell block."""
    lines = block.code.split("\n")
    if not any(line.startswith("$ ") for line in lines):
        return [Step(block.line, block.code, ())]
    steps: list[Step] = []
    continues = False
    for number, line in enumerate(lines, block.line):
        if continues:
            last = steps[-1]
            steps[-1] = replace(last, command=f"{last.command}\n{line.removeprefix('> ')}")
        elif line.startswith("$ "):
            steps.append(Step(number, line[2:], ()))
        elif steps:
            steps[-1] = replace(steps[-1], output=(*steps[-1].output, line))
        continues = line.endswith("\\") and (continues or line.startswith("$ "))
    return [_with_exit_code(step) for step in steps]


def _with_exit_code(step: Step) -> Step:
    """`$ relay pull nothing  # exit 3` is meant to fail so; blank last lines are layout."""
    said = EXIT_CODE.search(step.command)
    output = list(step.output)
    while output and not output[-1].strip():
        output.pop()
    return replace(step, output=tuple(output), exit_code=int(said[1]) if said else 0)


def match_output(shown: tuple[str, ...], printed: str) -> list[str] | None:
    """The ids printed where ids are shown, in order; None where the output differs.

    `...` stands for anything within its line, a line of `...` for any lines, any id for any id.
    """
    pattern = "".join(map(_line_pattern, shown))
    match = re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed.splitlines()))
    return None if match is None else list(match.groups())


def ids_in(shown: tuple[str, ...]) -> list[str]:
    """The ids that lines show, in order."""
    return [id for line in shown for id in REF.findall(line)]


def _line_pattern(line: str) -> str:
    if line.strip() == "...":
        return r"(?:.*\n)*?"
    parts = re.split(f"({REF.pattern})", line.rstrip())
    return "".join(map(_part_pattern, parts)) + r"\n"


def _part_pattern(part: str) -> str:
    if REF.fullmatch(part):
        return f"({REF.pattern})"
    return r".*?".join(map(re.escape, part.split("...")))


def with_ids(text: str, ids: Mapping[str, str]) -> str:
    """Put the ids that were really printed where a document shows its own.

    The first group of an id alone is taken for its prefix.
    """
    for shown, printed in ids.items():
        text = text.replace(shown, printed)
        text = re.sub(rf"\b{shown[:8]}\b(?!-)", printed[:8], text)
    return text
