"""Snippets: the code in README.md and docs/ runs, and prints what it is shown to print."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import (
    PYTHON,
    SHELL,
    SHOWN,
    Block,
    blocks_in,
    ids_in,
    match_output,
    steps_in,
    with_ids,
)
from tests.docs.desk import Desk
from tests.rigs import rig, some

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if path.is_file()
)


def blocks_of(document: str) -> list[Block]:
    return list(blocks_in(document, (ROOT / document).read_text()))


RUN = [path for path in DOCUMENTS if any(each.is_run for each in blocks_of(path))]


@rig
@pytest.mark.parametrize("document", some(RUN, 3))
def test_every_block_runs(document: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    ids: dict[str, str] = {}
    with Desk(tmp_path / "desk") as desk:
        for block in blocks_of(document):
            if block.is_run:
                with subtests.test(block.where):
                    problem = run(block, desk, ids)
                    if problem:
                        pytest.fail(problem, pytrace=False)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_is_of_a_known_kind_and_says_why_it_is_not_run(document: str) -> None:
    blocks = blocks_of(document)
    silent = [block.where for block in blocks if block.not_run == ""]
    unknown = [b.where for b in blocks if b.language not in PYTHON + SHELL + SHOWN]

    assert not silent, f"say why: `<!-- not run: why -->` at {silent}"
    assert not unknown, f"call it python, console, sh or text at {unknown}"
    print(f"{document}: {len(blocks)} blocks, {sum(b.not_run is not None for b in blocks)} not run")


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text()

    assert [path.name for path in folder.glob("0*.md") if f"({path.name})" not in listed] == []


def run(block: Block, desk: Desk, ids: dict[str, str]) -> str:
    """Run a block and return what is wrong with it, or nothing. Learns ids as they are printed."""
    if block.language in PYTHON:
        problem = desk.run_python(block.path, block.line, with_ids(block.code, ids))
        return f"{block.where}: the Python block failed\n{problem}" if problem else ""
    for step in steps_in(block):
        where = f"{block.path}:{step.line}"
        command = with_ids(step.command, ids)
        result = desk.run(command)
        if result.exit_code != step.exit_code:
            code = f"exit code {result.exit_code}, not {step.exit_code}"
            return f"{where}: {code}\n$ {command}\n{result.output}"
        if step.output:
            shown = tuple(with_ids(line, ids) for line in step.output)
            printed_ids = match_output(shown, result.output)
            if printed_ids is None:
                expected = "\n".join(shown)
                return f"{where}: $ {command}\nshown:\n{expected}\n\nprinted:\n{result.output}"
            ids.update(zip(ids_in(step.output), printed_ids, strict=True))
    return ""
