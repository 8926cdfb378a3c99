"""What steps need of where they run: programs, modules, capabilities; and what is missing here.

A file is not wrong for it: another machine may have it, or a step before may bring it.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterable
from pathlib import Path

from contextrelay.client.relay import Relay
from contextrelay.doors.pipeline.steps.python_pool import module_file
from contextrelay.logic.pipeline.language import Pipeline, Step
from contextrelay.logic.pipeline.tables import suggestion


def missing_here(relay: Relay | None, pipelines: Iterable[Pipeline], folder: Path) -> list[str]:
    """What steps name that is not here, each with its place; nothing is run or imported.

    `relay`: where capabilities are invoked, if that is known. `folder`: where files are looked for.
    """
    found: list[str] = []
    for pipeline in pipelines:
        here = Path(folder, pipeline.file).parent
        for step in pipeline.steps.values():
            if said := _missing(relay, step, here):
                place = pipeline.nodes[step.name].field(step.kind)
                found.append(f"{pipeline.file}:{place.line}:{place.column}: {said}")
    return found


def _missing(relay: Relay | None, step: Step, folder: Path) -> str:
    match step.kind:
        case "python":
            return _function(step.target, folder)
        case "cap" if relay is not None:
            known = [each.name for each in relay.capabilities().capabilities]
            if step.target not in known:
                return (
                    f"there is no capability {step.target} here; {suggestion(step.target, known)}"
                )
        case "cli":
            return _program(step.target, folder)
        case "exec" if step.words:
            return _program(str(step.words[0].parts[0]), folder)
        case _:
            pass
    return ""


def _program(name: str, folder: Path) -> str:
    path = str(folder / name) if "/" in name else name
    return "" if shutil.which(path) else f"there is no program {name} here"


def _function(target: str, folder: Path) -> str:
    module, _, name = target.partition(":")
    file = module_file(module, folder)
    if file is None:
        return f"there is no module {module} here: put it next to the file, or install it"
    if file.suffix != ".py":
        return ""
    try:
        body = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError) as error:
        return f"the module {module} cannot be read: {error}"
    names: set[str] = set()
    for each in body:
        match each:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(each.name)
            case ast.Pass() | ast.Expr():
                pass
            case _:
                return ""  # It may come to its names in any way.
    return "" if name in names else f"the module {module} has no {name}; {suggestion(name, names)}"
