"""What steps need of where they run: programs, modules, capabilities; and what is missing here.

A file is not wrong for it: another machine may have it, or a step before may bring it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from contextrelay.client.relay import Relay
from contextrelay.limits import PIPELINE_MODULE_BYTES_MAX
from contextrelay.pipelines.language import Pipeline, Step
from contextrelay.pipelines.steps.python_pool import module_file
from contextrelay.pipelines.tables import suggestion

# A module is foreign code: it is searched for a name, neither run nor parsed. One that makes names
# in such ways may have any.
_MADE = re.compile(r"\bimport[ \t]*\(?[ \t]*\*|\b(?:__getattr__|globals|vars|exec|setattr)\b")
_DEFINED = re.compile(r"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.MULTILINE)


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
    if file.suffix != ".py" or not file.is_file():
        return ""
    try:
        with file.open("rb") as opened:
            body = opened.read(PIPELINE_MODULE_BYTES_MAX)
    except OSError as error:
        return f"the module {module} cannot be read: {error}"
    text, is_cut = body.decode(errors="replace"), len(body) == PIPELINE_MODULE_BYTES_MAX
    if is_cut or _MADE.search(text) or re.search(rf"\b{re.escape(name)}\b", text):
        return ""
    return f"the module {module} has no {name}; {suggestion(name, set(_DEFINED.findall(text)))}"
