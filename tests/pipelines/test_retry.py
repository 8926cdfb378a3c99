"""A step is run again: with all that depends on it, wherever it is, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextrelay import NotFound, Relay
from contextrelay.pipelines import runs
from contextrelay.pipelines.definition import load
from contextrelay.pipelines.record import read_record
from contextrelay.pipelines.run import run_again
from tests.pipelines.running import result, run

INNER = """\
name: inner
inputs: {word: w}
steps:
  one: {exec: 'echo one >> ran; cat source'}
  one-more: {exec: 'echo one-more >> ran; echo more'}
  two: {exec: 'echo two >> ran; echo two of "$ONE"', env: {ONE: "{{steps.one.preview}}"}}
"""
OUTER = """\
name: outer
steps:
  s: {pipeline: inner.yaml}
  each: {pipeline: inner.yaml, foreach: [a, b], inputs: {word: "{{item}}"}}
  plain: {exec: 'echo plain >> ran'}
  items: {foreach: [a, b], exec: 'echo "$ITEM" >> ran; cat source', env: {ITEM: "{{item}}"}}
  after:
    exec: 'echo after >> ran; echo after "$TWO" "$EACH"'
    env: {TWO: "{{steps.s.json.two}}", EACH: "{{steps.each.ref}}"}
"""


def prepared(relay: Relay, folder: Path) -> str:
    """A run that is done; what its steps read is then another text."""
    (folder / "inner.yaml").write_text(INNER)
    (folder / "source").write_text("old")
    ended = run(relay, folder, OUTER, parallel=1)
    assert ended.status == "done", ended.reason
    (folder / "source").write_text("new")
    (folder / "ran").write_text("")
    return ended.run


@pytest.mark.parametrize(
    ("step", "ran", "new"),
    [
        ("s/one", ["one", "two", "after"], ["s/two"]),
        ("each[1]/one", ["one", "two", "after"], ["each[1]/two"]),
        ("s", ["one", "one-more", "two", "after"], ["s/two"]),
        ("items", ["a", "b"], ["items[0]", "items[1]"]),
    ],
)
def test_what_depends_on_a_step_is_run_again_and_nothing_else(
    relay: Relay, tmp_path: Path, step: str, ran: list[str], new: list[str]
) -> None:
    """Promise X4."""
    run_id = prepared(relay, tmp_path)

    again = runs.retry(relay, run_id, step)

    assert again.status == "done", again.reason
    assert sorted((tmp_path / "ran").read_text().split()) == sorted(ran)
    for key in new:
        assert "new" in result(relay, again, key)


@pytest.mark.parametrize(
    "step",
    ["s/three", "s[0]", "s[0]/one", "each/one", "each[2]", "each[1]/x", "plain/x", "items[7]", "/"],
)
def test_a_part_that_does_not_exist_is_refused_and_nothing_is_run(
    relay: Relay, tmp_path: Path, step: str
) -> None:
    """Promise X4."""
    run_id = prepared(relay, tmp_path)

    with pytest.raises(NotFound):
        runs.retry(relay, run_id, step)

    assert (tmp_path / "ran").read_text() == ""
    assert runs.show(relay, run_id).status == "done"


def test_a_crash_between_leaves_nothing_done_that_depends_on_what_is_not(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    record = read_record(relay, prepared(relay, tmp_path))
    pipelines = load(tmp_path / "pipeline.yaml").pipelines()
    main = pipelines[str(tmp_path / "pipeline.yaml")]

    again = run_again("s/one", main, pipelines, record.steps)

    assert again == ["after", "s", "s/two", "s/one"]
