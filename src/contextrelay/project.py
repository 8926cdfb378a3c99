"""Project files for programs: `from contextrelay.project import Project`."""

from __future__ import annotations

from contextrelay.doors.project.project import Project
from contextrelay.model.project import Finished

__all__ = ["Finished", "Project"]
