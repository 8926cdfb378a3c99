"""A new project with a fixed clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextrelay.project import Project
from contextrelay.project.project import init_project

NOW = "2026-04-20T10:00:00+08:00"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A new project without a thread."""
    folder = tmp_path / "orders"
    folder.mkdir()
    made = Project(folder, now=lambda: NOW)
    init_project(made, "orders", "JWT auth for the orders API")
    return made
