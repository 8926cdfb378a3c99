"""version: which one this is."""

from __future__ import annotations

import contextrelay
from contextrelay.doors.cli.console import Desk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def version_arguments(parser: ArgumentParser) -> None:
    pass


def version(args: Namespace, desk: Desk) -> None:
    """Print the version."""
    desk.answer({"version": contextrelay.__version__}, contextrelay.__version__)
