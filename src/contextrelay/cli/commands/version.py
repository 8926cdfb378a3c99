"""version: the version of this package."""

from __future__ import annotations

import contextrelay
from contextrelay.cli.console import Console

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace


def version(args: Namespace, console: Console) -> None:
    """Print the version."""
    console.answer({"version": contextrelay.__version__}, contextrelay.__version__)
