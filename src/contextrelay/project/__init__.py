"""Project files: `from contextrelay.project import Project`.

Rule: importing this package loads nothing else. A public name is loaded when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextrelay.model.project import Finished
    from contextrelay.project.project import Project

__all__ = ["Finished", "Project"]

_MODULES = {"Finished": "contextrelay.model.project", "Project": "contextrelay.project.project"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'contextrelay.project' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
