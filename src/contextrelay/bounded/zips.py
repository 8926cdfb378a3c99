"""Untrusted zips, whose declared values are checked.

Names, methods, counts, sizes and ratios are checked before a byte is unpacked. Entries must not
share bytes of the file, so that their packed sizes are real. The unpacked bytes are counted.

Rule: an invalid zip raises ValueError or an error of zipfile (`WRONG`), and the caller adds what
was being read. Exceeding a limit raises TooLarge.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from struct import unpack_from
from typing import IO

from contextrelay.errors import TooLarge
from contextrelay.limits import ARCHIVE_BYTES_MAX, CHUNK_BYTES, KIB

ARCHIVE_RATIO_MAX = 200

# The smallest packed size that is used for a ratio: below this size no ratio makes a bomb.
RATIO_COUNTS_FROM_BYTES = KIB
WRONG = (
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    KeyError,
    EOFError,
    RecursionError,
    NotImplementedError,
    OverflowError,
    OSError,  # Raised for an offset before the start of the file.
)

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_PLAIN_KINDS = (0, 0o10)
_IS_ENCRYPTED = 0x1
_END_BYTES = 22
_COMMENT_BYTES_MAX = 0xFFFF
_LOCAL_BYTES = 30
# The maximum size of an entry in the zip directory: a name from this program, and extra fields of
# some tools.
_DIRECTORY_ENTRY_BYTES_MAX = 256


class ForeignZip:
    """An opened zip whose structure was checked.

    Raises (when created or read):
        TooLarge: the zip exceeds a limit.
        WRONG: the file is not a zip, or not a supported one.
    """

    def __init__(self, file: IO[bytes], names: re.Pattern[str], entries_max: int) -> None:
        size_bytes = file.seek(0, 2)
        _check_directory(file, size_bytes, entries_max)
        self._zip = zipfile.ZipFile(file)
        infos = self._zip.infolist()
        if len(infos) > entries_max:
            raise TooLarge(f"the archive has {len(infos)} entries", f"at most {entries_max}")
        self._infos = {info.filename: info for info in infos}
        if len(self._infos) != len(infos):
            raise ValueError("it has a duplicate name")
        self._left_bytes = _check_sizes(infos, size_bytes)
        for info in infos:
            name = info.orig_filename
            is_plain = info.external_attr >> 28 in _PLAIN_KINDS
            if not names.fullmatch(name) or name != info.filename or not is_plain:
                raise ValueError(f"unexpected name {name[:80]!r}")
            if info.flag_bits & _IS_ENCRYPTED or info.compress_type not in _METHODS:
                raise ValueError(f"unsupported compression of {name}")
        _check_places(file, infos, self._zip.start_dir)
        self._counted: set[str] = set()

    @property
    def names(self) -> set[str]:
        return set(self._infos)

    def size_bytes(self, name: str) -> int:
        """Return the unpacked size of an entry."""
        if name not in self._infos:
            raise ValueError(f"{name} is missing")
        return self._infos[name].file_size

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of an entry; raise an error if their number is not the declared one."""
        left_bytes = self.size_bytes(name)
        is_first = name not in self._counted
        self._counted.add(name)
        with self._zip.open(name) as content:
            while chunk := content.read(CHUNK_BYTES):
                left_bytes -= len(chunk)
                self._left_bytes -= len(chunk) if is_first else 0
                if left_bytes < 0 or self._left_bytes < 0:
                    raise too_much(name)
                yield chunk
        if left_bytes:
            raise ValueError(f"{name} does not have its declared length")


def method_for(size_bytes: int, chunks: Iterable[bytes]) -> int:
    """Return the compression method for an entry: stored if it would look like a zip bomb."""
    if size_bytes <= RATIO_COUNTS_FROM_BYTES:
        return zipfile.ZIP_DEFLATED
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    packed_bytes = sum(len(packer.compress(chunk)) for chunk in chunks)
    packed_bytes += len(packer.flush())
    is_bomb = size_bytes > ARCHIVE_RATIO_MAX // 2 * packed_bytes
    return zipfile.ZIP_STORED if is_bomb else zipfile.ZIP_DEFLATED


def too_much(what: str) -> TooLarge:
    limit = f"at most {ARCHIVE_RATIO_MAX} times its size, and {ARCHIVE_BYTES_MAX} bytes in total"
    return TooLarge(f"{what} in the archive unpacks to too much", f"{limit}; check its origin")


def _check_directory(file: IO[bytes], size_bytes: int, entries_max: int) -> None:
    """Raise an error for a zip directory that is too long: zipfile reads all of it on opening."""
    file.seek(max(0, size_bytes - _END_BYTES - _COMMENT_BYTES_MAX))
    tail = file.read()
    if tail[-_END_BYTES:-18] == b"PK\x05\x06" and tail[-2:] == b"\0\0":
        end = len(tail) - _END_BYTES
    else:
        end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) - end < _END_BYTES:
        raise ValueError("it is not a zip, or incomplete")
    (directory_bytes,) = unpack_from("<L", tail, end + 12)
    if tail[max(0, end - 20) : end].startswith(b"PK\x06\x07"):
        # No export is so large that it needs zip64.
        raise ValueError("it is larger than any export")
    if directory_bytes > entries_max * _DIRECTORY_ENTRY_BYTES_MAX:
        raise TooLarge("the archive has too many entries", f"at most {entries_max}")


def _check_places(file: IO[bytes], infos: list[zipfile.ZipInfo], directory: int) -> None:
    """Raise an error for entries that share bytes, which would count in both packed sizes."""
    ordered = sorted(infos, key=lambda info: info.header_offset)
    ends = [*(info.header_offset for info in ordered[1:]), directory]
    for info, end in zip(ordered, ends, strict=True):
        file.seek(info.header_offset)
        local = file.read(_LOCAL_BYTES)
        if len(local) < _LOCAL_BYTES:
            raise ValueError(f"{info.filename} lies outside the file")
        name_bytes, extra_bytes = unpack_from("<HH", local, 26)
        start = info.header_offset + _LOCAL_BYTES + name_bytes + extra_bytes
        if start + info.compress_size > end:
            raise ValueError(f"{info.filename} overlaps the next entry")


def _check_sizes(infos: list[zipfile.ZipInfo], size_bytes: int) -> int:
    """Return the total unpacked size; raise an error if it, or an entry's ratio, is too large."""
    total_bytes = 0
    for info in infos:
        total_bytes += info.file_size
        packed_bytes = max(info.compress_size, RATIO_COUNTS_FROM_BYTES)
        if info.file_size > ARCHIVE_RATIO_MAX * packed_bytes:
            raise too_much(info.filename)
    # The check of the total applies to small entries too, because many of them can be a bomb.
    if total_bytes > min(ARCHIVE_BYTES_MAX, ARCHIVE_RATIO_MAX * size_bytes):
        raise too_much("the content")
    return total_bytes
