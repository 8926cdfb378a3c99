"""Project files for programs: `from contextrelay.project import Project`."""

from __future__ import annotations

from contextrelay.doors.project.project import Finished, Project

__all__ = ["Finished", "Project"]
