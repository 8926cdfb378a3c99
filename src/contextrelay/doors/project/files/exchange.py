"""Swapping: two files change places in one step, so that what was there is never overwritten.

Rule: nobody can come between. Where the system or its file system has no such step, that is said,
and nothing was done.
"""

from __future__ import annotations

import os
import sys
from errno import ENOENT
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS.


def swap(folder: int, name: str, other_folder: int, other_name: str) -> bool:
    """Let two names, each in a folder's descriptor, change places; False where that cannot be done.

    Raises:
        FileNotFoundError: one of them is not there.
    """
    call = _call()
    if call is None:
        return False
    return call(folder, os.fsencode(name), other_folder, os.fsencode(other_name))


@cache
def _call() -> Callable[[int, bytes, int, bytes], bool] | None:
    # Lazily: who only reads needs none of it.
    import ctypes

    try:
        library = ctypes.CDLL(None, use_errno=True)
        function = library.renameatx_np if sys.platform == "darwin" else library.renameat2
    except (OSError, AttributeError, TypeError):
        return None

    def call(folder: int, name: bytes, other_folder: int, other_name: bytes) -> bool:
        failed = function(folder, name, other_folder, other_name, _EXCHANGE)
        if failed and ctypes.get_errno() == ENOENT:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), os.fsdecode(other_name))
        return not failed

    return call
