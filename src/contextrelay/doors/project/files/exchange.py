"""Swapping: two files change places in one step, so that what was there is never overwritten.

Rule: nobody can come between. Where the system or its file system has no such step, that is said,
and nothing was done.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_HERE = -100  # AT_FDCWD of Linux: paths are taken as they are.
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS.


def swap(one: Path, other: Path) -> bool:
    """Let two files change places; False where this system cannot do that.

    Raises:
        FileNotFoundError: one of them is not there.
    """
    call = _call()
    return call is not None and call(os.fsencode(one), os.fsencode(other))


@cache
def _call() -> Callable[[bytes, bytes], bool] | None:
    # Lazily: who only reads needs none of it.
    import ctypes
    from errno import ENOENT

    try:
        library = ctypes.CDLL(None, use_errno=True)
        function = library.renamex_np if sys.platform == "darwin" else library.renameat2
    except (OSError, AttributeError, TypeError):
        return None

    def call(one: bytes, other: bytes) -> bool:
        if sys.platform == "darwin":
            failed = function(one, other, _EXCHANGE)
        else:
            failed = function(_HERE, one, _HERE, other, _EXCHANGE)
        if failed and ctypes.get_errno() == ENOENT:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), os.fsdecode(other))
        return not failed

    return call
