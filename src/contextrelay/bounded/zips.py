"""Zips from elsewhere: opened without believing what they say of themselves.

Names, methods, counts, sizes and ratios are checked before a byte is unpacked. Each entry has bytes
of the file to itself, so what it says of its packed size is true; and what comes out is counted.

Rule: what is wrong raises ValueError or what zipfile raises (`WRONG`), and the caller says what it
was asked to read; what passes a limit raises TooLarge.
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


# Below this size no ratio makes a bomb.
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
    OSError,  # A place before the beginning of the file.
)

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_PLAIN_KINDS = (0, 0o10)
_IS_ENCRYPTED = 0x1
_END_BYTES = 22
_COMMENT_BYTES_MAX = 0xFFFF
_LOCAL_BYTES = 30
# What an entry takes in the directory, at most: a name of ours, and what some zippers add.
_DIRECTORY_ENTRY_BYTES_MAX = 256


class ForeignZip:
    """An opened zip whose outside was checked.

    Raises (when made or read):
        TooLarge: it passes a limit; any of WRONG: it is no zip, or not one that we read.
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
            raise ValueError("a name stands in it twice")
        self._left_bytes = _check_sizes(infos, size_bytes)
        for info in infos:
            name = info.orig_filename
            is_plain = info.external_attr >> 28 in _PLAIN_KINDS
            if not names.fullmatch(name) or name != info.filename or not is_plain:
                raise ValueError(f"{name[:80]!r} has no place in it")
            if info.flag_bits & _IS_ENCRYPTED or info.compress_type not in _METHODS:
                raise ValueError(f"{name} is packed in a way that we do not read")
        _check_places(file, infos, self._zip.start_dir)
        self._counted: set[str] = set()

    @property
    def names(self) -> set[str]:
        return set(self._infos)

    def size_bytes(self, name: str) -> int:
        """How much an entry unpacks to."""
        if name not in self._infos:
            raise ValueError(f"{name} is missing")
        return self._infos[name].file_size

    def chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of an entry: as many as were announced, or an error."""
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
            raise ValueError(f"{name} is not as long as announced")


def method_for(size_bytes: int, chunks: Iterable[bytes]) -> int:
    """How to pack an entry: deflated, unless it packs so well that it looks like a bomb."""
    if size_bytes <= RATIO_COUNTS_FROM_BYTES:
        return zipfile.ZIP_DEFLATED
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    packed_bytes = sum(len(packer.compress(chunk)) for chunk in chunks)
    packed_bytes += len(packer.flush())
    is_bomb = size_bytes > ARCHIVE_RATIO_MAX // 2 * packed_bytes
    return zipfile.ZIP_STORED if is_bomb else zipfile.ZIP_DEFLATED


def too_much(what: str) -> TooLarge:
    return TooLarge(
        f"{what} in the archive unpacks to too much",
        f"at most {ARCHIVE_RATIO_MAX} times its size, and {ARCHIVE_BYTES_MAX} bytes in all; "
        "check where it comes from",
    )


def _check_directory(file: IO[bytes], size_bytes: int, entries_max: int) -> None:
    """Refuse a directory too long to be read: zipfile reads all of it before it can be asked."""
    file.seek(max(0, size_bytes - _END_BYTES - _COMMENT_BYTES_MAX))
    tail = file.read()
    if tail[-_END_BYTES:-18] == b"PK\x05\x06" and tail[-2:] == b"\0\0":
        end = len(tail) - _END_BYTES
    else:
        end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) - end < _END_BYTES:
        raise ValueError("it is no zip, or was cut short")
    (directory_bytes,) = unpack_from("<L", tail, end + 12)
    if tail[max(0, end - 20) : end].startswith(b"PK\x06\x07"):
        raise ValueError("it is larger than any export")  # Those have no need of zip64.
    if directory_bytes > entries_max * _DIRECTORY_ENTRY_BYTES_MAX:
        raise TooLarge("the archive has too many entries", f"at most {entries_max}")


def _check_places(file: IO[bytes], infos: list[zipfile.ZipInfo], directory: int) -> None:
    """Refuse entries that share bytes: each would count as packed what belongs to another."""
    ordered = sorted(infos, key=lambda info: info.header_offset)
    ends = [*(info.header_offset for info in ordered[1:]), directory]
    for info, end in zip(ordered, ends, strict=True):
        file.seek(info.header_offset)
        local = file.read(_LOCAL_BYTES)
        if len(local) < _LOCAL_BYTES:
            raise ValueError(f"{info.filename} lies outside of it")
        name_bytes, extra_bytes = unpack_from("<HH", local, 26)
        start = info.header_offset + _LOCAL_BYTES + name_bytes + extra_bytes
        if start + info.compress_size > end:
            raise ValueError(f"{info.filename} shares bytes with what is behind it")


def _check_sizes(infos: list[zipfile.ZipInfo], size_bytes: int) -> int:
    """Refuse what unpacks to too much; how much all of it unpacks to."""
    total_bytes = 0
    for info in infos:
        total_bytes += info.file_size
        packed_bytes = max(info.compress_size, RATIO_COUNTS_FROM_BYTES)
        if info.file_size > ARCHIVE_RATIO_MAX * packed_bytes:
            raise too_much(info.filename)
    # In all there is no least size: many small entries make a bomb too.
    if total_bytes > min(ARCHIVE_BYTES_MAX, ARCHIVE_RATIO_MAX * size_bytes):
        raise too_much("what is")
    return total_bytes
