"""What a retry runs again: the part that is named, all that depends on it, and what holds it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from contextrelay.errors import NotFound
from contextrelay.pipelines.definition import included_path
from contextrelay.pipelines.language import Pipeline, Step
from contextrelay.pipelines.record import StepRecord
from contextrelay.pipelines.tables import suggestion

_PART = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)(?:\[([0-9]{1,6})\])?")
_ENDS = re.compile(r"[\[/]")


class _Part(NamedTuple):
    """One part of a key, as `review[3]` in `sub/review[3]/plan`, and where it stands."""

    pipeline: Pipeline
    prefix: str
    step: Step
    has_index: bool
    key: str


def run_again(
    key: str, main: Pipeline, pipelines: Mapping[str, Pipeline], steps: Mapping[str, StepRecord]
) -> list[str]:
    """The keys of what is to be run again, each before those that it depends on.

    So a crash between two of them leaves nothing that is over and depends on what is not. Of a step
    with parts of which one is named, those that failed are run again too.

    Raises:
        NotFound: there is no such step, or no such part of it.
    """
    parts = _parts(key, main, pipelines)
    if parts[-1].has_index and not any(each == key or each.startswith(f"{key}/") for each in steps):
        begun = [
            each for each in steps if each.startswith(f"{parts[-1].prefix}{parts[-1].step.name}[")
        ]
        hint = f"there are {begun[0]} to {begun[-1]}" if begun else "none of its items was begun"
        raise NotFound(f"no item {key} was begun", hint)
    seeds = [parts]
    if len(parts) > 1 or parts[0].has_index:
        top = parts[0].step.name
        seeds += (
            _parts(each, main, pipelines)
            for each, record in steps.items()
            if record.status == "failed" and each != top and _ENDS.split(each)[0] == top
        )
    wholes, holders = set[str](), set[str]()
    followers: dict[tuple[str, str], list[str]] = {}
    for seed in seeds:
        for part in seed:
            at = (part.pipeline.file, part.step.name)
            if at not in followers:
                followers[at] = _followers(part.pipeline, part.step.name)
            wholes.update(part.prefix + name for name in followers[at])
            holders.update((part.prefix + part.step.name, part.key))
        wholes.add(seed[-1].key)
    # A step is written down after all that it depends on, and one with parts after those.
    return [each for each in reversed(list(steps)) if each in holders or _is_in(each, wholes)]


def _parts(key: str, main: Pipeline, pipelines: Mapping[str, Pipeline]) -> list[_Part]:
    found: list[_Part] = []
    pipeline, prefix = main, ""
    for text in key.split("/"):
        if found:
            above = found[-1]
            if above.step.kind != "pipeline":
                raise NotFound(f"there is no {key}: {above.key} has no steps in it", _SHOW)
            if above.step.foreach is not None and not above.has_index:
                raise NotFound(f"there is no {key}", f"say of which item: {above.key}[0]/{text}")
            pipeline = pipelines[str(included_path(pipeline, above.step))]
            prefix = f"{above.key}/"
        match = _PART.fullmatch(text)
        step = None if match is None else pipeline.steps.get(match[1])
        if match is None or step is None:
            near = suggestion(_ENDS.split(text)[0], pipeline.steps)
            raise NotFound(f"there is no step {key!r}", near)
        if match[2] is not None and step.foreach is None:
            raise NotFound(f"there is no {key}: {prefix}{step.name} has no items", _SHOW)
        found.append(_Part(pipeline, prefix, step, match[2] is not None, f"{prefix}{text}"))
    return found


_SHOW = "see: relay pipeline show RUN"


def _followers(pipeline: Pipeline, name: str) -> list[str]:
    """The steps that depend on one, also by others."""
    again = {name}
    for each, step in pipeline.steps.items():  # in order: what it needs was looked at
        if again.intersection(step.needs):
            again.add(each)
    return sorted(again - {name})


def _is_in(key: str, wholes: set[str]) -> bool:
    """Whether a key is one of these, or that of a part of one."""
    return key in wholes or any(key[: end.start()] in wholes for end in _ENDS.finditer(key))
